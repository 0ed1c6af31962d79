from __future__ import annotations

import dataclasses
import json
import shutil

import pytest
from support.commands import call
from support.datasets import classes
from support.errors import refused
from support.training import Stop, recipe, state

import penstock as ps
from penstock.cli.events import show
from penstock.config import apply, load
from penstock.errors import RecipeError
from penstock.events import Events
from penstock.runs import RunFolder
from penstock.session import CheckpointStore, Hook
from penstock.settings import Objective
from penstock.settings.optimizer import AdamW
from penstock.training import reproducibility, resume, train

pytestmark = pytest.mark.slow


class Patience(Hook):
    """Ends training once an evaluation was no better."""

    def after_eval(self, session, scores, loss):
        if session.step >= 4:
            session.request_stop("enough")


class Kill(Hook):
    """Ends a training in the middle of an evaluation."""

    def after_step(self, session):
        if session.step == 4:
            session.evaluate_with = lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)


class TestResume:
    def test_a_hook_is_heard_after_an_evaluation_that_a_resume_does(self, packed, tmp_path):
        one, ended = train(recipe(packed.folder), tmp_path / "one", hooks=[Patience()])
        with pytest.raises(KeyboardInterrupt):
            train(recipe(packed.folder), tmp_path / "two", hooks=[Patience(), Kill()])
        (two,) = (tmp_path / "two").iterdir()
        _, outcome = resume(two, hooks=[Patience()])

        assert (ended.status, ended.step, ended.reason) == (outcome.status, outcome.step, outcome.reason)
        assert outcome.step == 4
        skipped = {"state.json", "manifest.json"}  # the hooks' names are in them
        assert {k: v for k, v in state(two).items() if k not in skipped} == {
            k: v for k, v in state(one.path).items() if k not in skipped
        }

    def test_evaluations_of_undone_steps_go(self, packed, tmp_path):
        folder, _ = train(recipe(packed.folder, keep=9, save_every=4), tmp_path)
        assert [p.name for p in sorted((folder.path / "evaluations").iterdir())][-1] == "step-00000012.json"
        resume(folder.path, ["train.steps=6"], checkpoint="step-00000004")

        assert sorted(p.name for p in (folder.path / "evaluations").iterdir()) == [
            "step-00000004.json", "step-00000006.json",
        ]  # fmt: skip

    def test_what_is_exact_is_said_again_where_it_changes(self, packed, tmp_path, capsys):
        folder, _ = train(recipe(packed.folder, steps=4), tmp_path, hooks=[Stop(2)])
        now = {"device": "another", "threads": 7, "ranks": 1, "exact": reproducibility.ROUNDED}
        before = json.loads((folder.path / "environment.json").read_text())
        for _ in range(2):  # once is enough
            reproducibility.note_changes(RunFolder.open(folder.path), now, Events(), apart=True)
        found = json.loads((folder.path / "environment.json").read_text())
        call("report", folder.path, capsys=capsys)
        page = (folder.path / "report.html").read_text()

        assert found == {**before, "then": [now]}
        assert f"<dd>{before['device']}, then another</dd>" in page
        assert "weights up to rounding, as it was resumed otherwise" in page
        assert "weights, byte for byte</dd>" not in page

    def test_from_an_earlier_checkpoint_and_killed_before_the_next(self, packed, tmp_path):
        """What came after the earlier one is undone at once, so that the next resume finds a run that fits together."""
        chosen = recipe(packed.folder, keep=9)
        whole, _ = train(chosen, tmp_path / "whole")
        folder, _ = train(chosen, tmp_path / "run")

        class Killed(Hook):
            def before_step(self, session):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            resume(folder.path, hooks=[Killed()], checkpoint="step-00000006")
        assert CheckpointStore(folder.checkpoints).names() == ["step-00000003", "step-00000004", "step-00000006"]
        assert (folder.checkpoints / "best").is_symlink()
        assert (folder.checkpoints / "best").resolve().name <= "step-00000006"
        resume(folder.path)

        assert state(folder.path) == state(whole.path)

    def test_a_hook_may_end_training_once_it_knows_the_scores(self, packed, tmp_path):
        class Enough(Hook):
            def after_eval(self, session, scores, loss):
                session.request_stop("good enough")

        _, outcome = train(recipe(packed.folder), tmp_path, hooks=[Enough()])

        assert (outcome.status, outcome.step, outcome.reason) == ("stopped", 4, "good enough")

    def test_what_a_checkpoint_holds_by_now_cannot_be_named_anew(self, packed, tmp_path):
        first, _ = train(recipe(packed.folder, steps=2), tmp_path)
        second, _ = train(recipe(packed.folder, steps=2), tmp_path)
        refused(
            resume,
            second.path,
            [f"init={json.dumps(str(first.path))}"],
            message=f"{second.path}: init: expected nothing, as the run was started with, found {first.path}. Leave it, or start "
            "a new run from its weights with --init RUN.",
        )

    def test_what_is_refused_leaves_no_run(self, tmp_path):
        chosen = apply(classes(tmp_path), ["train.batch=3", "train.accumulate=2", "regularize.mixup=0.2"])
        with pytest.raises(RecipeError, match="as images are mixed in pairs"):
            train(chosen, tmp_path / "runs")

        assert not (tmp_path / "runs").exists()


def test_a_stop_after_a_rewind_is_a_run_like_others(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, keep=9), tmp_path)
    resume(folder.path, hooks=[Stop(7)], checkpoint="step-00000006")

    assert CheckpointStore(folder.checkpoints).names()[-1] == "step-00000007"


def test_a_finished_run_has_nothing_left_to_do(packed, tmp_path, capsys):
    folder, _ = train(recipe(packed.folder, steps=3), tmp_path)
    before = {path: path.read_bytes() for path in folder.path.rglob("*.jsonl")}
    capsys.readouterr()
    _, outcome = resume(folder.path, on_event=show)

    assert (outcome.status, outcome.step) == ("finished", 3)
    assert (
        capsys.readouterr().out
        == f"{folder.path}: already finished, at step 3; to train longer, give a larger --steps\n"
    )
    assert {path: path.read_bytes() for path in folder.path.rglob("*.jsonl")} == before
    resume(folder.path, ["train.steps=4"], on_event=show)
    assert "note: training ends at step 4 instead of 3, and the poly schedule" in capsys.readouterr().out


@pytest.mark.parametrize("links", ["followed", "dropped"])
def test_a_run_that_was_copied_without_its_links_goes_on(packed, tmp_path, links):
    begun = train(recipe(packed.folder, steps=4, save_every=2), tmp_path / "runs")[0].path
    copy = tmp_path / "copy"
    shutil.copytree(begun, copy, symlinks=links == "dropped")
    for path in (copy / "checkpoints").iterdir():
        if path.is_symlink():
            path.unlink()
    for run in (begun, copy):
        resume(run, ["train.steps=6"])
    ends = [run / "checkpoints" / "last" for run in (begun, copy)]

    assert ends[1].is_symlink()
    assert (ends[1] / "model.safetensors").read_bytes() == (ends[0] / "model.safetensors").read_bytes()
    assert (copy / "metrics.jsonl").read_bytes() == (begun / "metrics.jsonl").read_bytes()


def test_a_run_says_which_setting_was_another(trained, capsys):
    for change, message in (
        ("augment.jitter.hue=0.1", "augment.jitter.hue: expected 0.0, as the run was started with, found 0.1."),
        ("augment.crop=[64, 64]", "augment.crop: expected (32, 32), as the run was started with, found (64, 64)."),
    ):
        assert call("train", "--resume", trained, "--set", "train.steps=9", "--set", change, capsys=capsys)[2] == (
            f"error: {trained}: {message} Leave it, or start a new run from its weights with --init RUN.\n"
        )


def test_a_run_cannot_end_before_where_it_is(trained, capsys):
    assert call("train", "--resume", trained, "--steps", 2, capsys=capsys)[2] == (
        f"error: {trained}: train.steps: expected at least 4, the step of the checkpoint, found 2. Give more --steps, or an "
        "earlier --checkpoint.\n"
    )
    assert load(trained / "recipe.toml").train.steps == 4


class Counts(Hook):
    """The steps of this process."""

    def __init__(self):
        self.steps = []

    def after_step(self, session):
        self.steps.append(session.step)


def test_a_resume_does_the_steps_that_are_left_and_no_others(packed, tmp_path):
    """Stopped where nothing else would have saved: there are saves after steps 3 and 6, evaluations after 4 and 7."""
    folder, _ = train(recipe(packed.folder, steps=7), tmp_path, hooks=[Stop(5)])
    counts = Counts()
    resume(folder.path, hooks=[counts])

    assert counts.steps == [6, 7]
    assert [(line["event"], line["step"]) for line in folder.lines("events.jsonl") if line["event"] != "evaluated"] == [
        ("started", 0), ("stopped", 5), ("resumed", 5), ("finished", 7),
    ]  # fmt: skip
    timings = folder.lines("timings.jsonl")
    assert len(timings) == 7
    assert all(0 <= line["wait"] <= line["seconds"] and line["memory"] > 0 for line in timings)
    assert [line["step"] for line in timings] == list(range(1, 8))


def test_every_change_of_a_setting_belongs_to_its_step(packed, tmp_path):
    folder, _ = train(recipe(packed.folder), tmp_path, hooks=[Stop(5)])
    resume(folder.path, ["optimizer.lr=0.01", "train.keep=3"], hooks=[Stop(8)])
    resume(folder.path, hooks=[Stop(9)])
    resume(folder.path, ["optimizer.lr=0.02"])
    changed = [line for line in folder.lines("events.jsonl") if line["event"] == "changed"]

    assert [(line["step"], line["settings"]) for line in changed] == [
        (5, {"optimizer.lr": [0.05, 0.01], "train.keep": [2, 3]}),
        (9, {"optimizer.lr": [0.01, 0.02]}),
    ]
    assert load(folder.path / "recipe.toml").optimizer.lr == 0.02
    from penstock.report import write_report

    page = write_report(folder).read_text()
    assert "<dt>changed at step 5</dt><dd>optimizer.lr 0.05 to 0.01; train.keep 2 to 3</dd>" in page


def test_resume_at_every_step_ends_the_same(packed, whole_run, tmp_path):
    """Stopped after every single step and resumed, in turn: bytes of weights, optimizer, average, metrics, origins."""
    folder, outcome = train(recipe(packed.folder), tmp_path, hooks=[Stop(1)])
    for step in range(2, 12):
        assert (outcome.status, outcome.step) == ("stopped", step - 1)
        _, outcome = resume(folder.path, hooks=[Stop(step)])
    _, outcome = resume(folder.path)

    assert outcome.status == "finished"
    expected, found = state(whole_run), state(folder.path)
    assert json.loads(found["state.json"])["hooks"].keys() ^ json.loads(expected["state.json"])["hooks"].keys() == set()
    assert found == expected


def test_resuming_a_finished_run_changes_nothing(whole_run):
    before = state(whole_run)
    _, outcome = resume(whole_run)

    assert outcome.status == "finished"
    assert state(whole_run) == before


@pytest.mark.parametrize(
    ("schedule", "said"),
    [("poly", ", and the poly schedule of the learning rate is stretched to it"), ("exponential", "")],
)
def test_a_run_can_be_trained_longer(packed, tmp_path, capsys, schedule, said):
    folder, _ = train(apply(recipe(packed.folder, steps=3), [f"optimizer.schedule={schedule}"]), tmp_path)
    _, outcome = resume(folder.path, ["train.steps=5"], on_event=show)

    assert outcome.step == 5
    assert load(folder.path / "recipe.toml").train.steps == 5
    assert f"note: training ends at step 5 instead of 3{said}\n" in capsys.readouterr().out


def test_settings_that_change_are_named(packed, tmp_path, capsys):
    folder, _ = train(recipe(packed.folder, steps=3), tmp_path)
    before = load(folder.path / "recipe.toml").optimizer.lr
    resume(folder.path, ["train.steps=4", "optimizer.lr=0.001", "train.log_every=7"], on_event=show)

    out = capsys.readouterr().out
    assert f"note: settings changed: optimizer.lr {before} -> 0.001, train.log_every 5 -> 7\n" in out


def test_naming_the_optimizer_again_changes_nothing(packed, tmp_path, capsys):
    folder, _ = train(apply(recipe(packed.folder, steps=2), ["optimizer.name=adamw"]), tmp_path)
    code, _, _ = call("train", "--resume", folder.path, "--optimizer", "adamw", "--steps", 3, capsys=capsys)

    assert code == 0
    assert load(folder.path / "recipe.toml").optimizer == AdamW()


def test_mining_that_begins_slowly_is_resumed_where_it_was(packed, tmp_path):
    chosen = dataclasses.replace(recipe(packed.folder), loss=Objective(ohem_ratio=0.2, ohem_warmup_steps=8, dice=0.5))
    whole, _ = train(chosen, tmp_path / "whole")

    stopped, _ = train(chosen, tmp_path / "stopped", hooks=[Stop(5)])
    resume(stopped.path)
    kept = {"state.json", "manifest.json"}  # the hook above is in them

    assert {k: v for k, v in state(stopped.path).items() if k not in kept} == {
        k: v for k, v in state(whole.path).items() if k not in kept
    }
    plain, _ = train(recipe(packed.folder), tmp_path / "plain")
    assert state(plain.path)["model.safetensors"] != state(whole.path)["model.safetensors"]


def test_a_checkpoint_that_is_not_there_is_named(trained, capsys):
    name = "step-00000099"
    assert call("train", "--resume", trained, "--checkpoint", name, capsys=capsys)[2] == (
        f"error: {trained}/checkpoints/{name}: expected a checkpoint: last, best or one of step-00000003, step-00000004, found "
        "no such checkpoint. Choose one of them.\n"
    )


def test_settings_that_a_finished_run_does_not_use_are_reported(trained, capsys):
    note = "note: the changed settings have no effect, as no step was left to train"

    assert note not in call("train", "--resume", trained, capsys=capsys)[1]
    assert note in call("train", "--resume", trained, "--lr", 0.5, capsys=capsys)[1].splitlines()


def test_a_run_that_was_pruned_goes_on_from_its_best_and_ends_the_same(packed, whole_run, tmp_path):
    shutil.copytree(whole_run, tmp_path / "run", symlinks=True)
    run = ps.Run(tmp_path / "run")
    scores = run.evaluate("val").scores.summary()
    assert run.prune() > 0
    best = CheckpointStore(run.path / "checkpoints").names()
    assert len(best) == 1
    assert run.evaluate("val").scores.summary() == scores
    resume(run.path)
    if best != ["step-00000012"]:
        assert len(CheckpointStore(run.path / "checkpoints").names()) > 1
    assert state(run.path) == state(whole_run)
