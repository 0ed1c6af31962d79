"""Checkpoints that are damaged, half removed, or that must not be made at all."""

from __future__ import annotations

import hashlib
import json
import signal

import processes
import pytest
import torch
from safetensors.torch import load_file
from test_mended import classes
from training import Stop, recipe, state

from penstock.cli.events import show
from penstock.config import apply, load
from penstock.errors import CheckpointError, NonFiniteError
from penstock.session import Checkpoint, CheckpointStore, Hook
from penstock.training import resume, train

KEPT = {"state.json", "manifest.json"}  # a hook of the tests is in them


def small(step, value=1.0, **more):
    tensors = {"model": {"weight": torch.full((3,), value)}, "optimizer": {}}
    return Checkpoint(step, tensors, {"cursor": {"position": step, "plan": ""}, "best": None, **more})


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(tmp_path / "deep" / "checkpoints")


def test_the_folder_is_made_with_those_above_it(store):
    store.save(small(1))

    assert store.load().step == 1


def test_no_flipped_bit_of_a_manifest_goes_unnoticed(store):
    """Every bit, one at a time: the checkpoint is refused, or the same."""
    store.save(small(1))
    store.save(small(2))
    path = store.folder / "step-00000002" / "manifest.json"
    sound = path.read_bytes()
    for bit in range(8 * len(sound)):
        damaged = bytearray(sound)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            found = store.load("step-00000002")
        except CheckpointError:
            continue
        assert (found.step, json.loads(damaged)) == (2, json.loads(sound)), damaged


def test_a_file_that_is_gone_or_another_is_named(store):
    store.save(small(1))
    path = store.folder / "step-00000001" / "model.safetensors"
    sums = [hashlib.sha256(content).hexdigest()[:16] for content in (path.read_bytes(), b"another")]
    for content, found in ((b"another", f"{sums[1]}..."), (None, "no such file")):
        path.unlink() if content is None else path.write_bytes(content)
        with pytest.raises(CheckpointError) as caught:
            store.load("step-00000001")
        assert str(caught.value).startswith(f"{path}: expected a file with SHA-256 {sums[0]}..., found {found}. ")


def test_a_checkpoint_in_the_folder_of_another_step_is_refused(store):
    store.save(small(1))
    store.save(small(2))
    (store.folder / "step-00000002").rename(store.folder / "step-00000007")
    with pytest.raises(CheckpointError) as caught:
        store.load("step-00000007")

    assert str(caught.value) == (
        f"{store.folder}/step-00000007/manifest.json: expected a sealed manifest that names the checkpoint's step and "
        "files, found something else. Sound ones, for --checkpoint: step-00000001."
    )


@pytest.mark.parametrize("content", ["[" * 100_000, "null", "[]", '{"step": 1}', "\udcff"])
def test_a_manifest_of_anything_else_is_refused(store, content):
    store.save(small(1))
    (store.folder / "step-00000001" / "manifest.json").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(CheckpointError, match=r"manifest\.json: expected .* No other checkpoint is sound\.$"):
        store.load("step-00000001")


def test_what_is_no_json_says_so(store):
    store.save(small(1))
    path = store.folder / "step-00000001" / "manifest.json"
    path.write_bytes(b"{")
    with pytest.raises(CheckpointError) as caught:
        store.load("step-00000001")
    assert str(caught.value).startswith(
        f"{path}: expected a readable JSON file, found Expecting property name enclosed in double quotes: line 1 column 2 "
    )


def test_a_link_to_itself_is_no_last_checkpoint(store):
    store.save(small(1))
    (store.folder / "last").unlink()
    (store.folder / "last").symlink_to("last")

    assert store.load().step == 1
    (store.folder / "best").symlink_to("best")
    with pytest.raises(
        CheckpointError, match="expected a checkpoint: last, best or one of step-00000001, found nothing"
    ):
        store.load("best")


def spoil(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\xee")


def test_a_damaged_newest_one_is_fallen_back_from_and_the_run_ends_the_same(packed, tmp_path, capsys):
    whole, _ = train(recipe(packed.folder, save_every=1, keep=9), tmp_path / "whole")
    stopped, _ = train(recipe(packed.folder, save_every=1, keep=9), tmp_path / "stopped", hooks=[Stop(7)])
    for step in (7, 6):
        spoil(stopped.checkpoints / f"step-{step:08d}")
    capsys.readouterr()
    resume(stopped.path, on_event=show)
    out = capsys.readouterr().out.splitlines()

    assert [line.partition(": ")[2][:62] for line in out if "damaged" in line] == [
        "going on from step 5, as a newer checkpoint is damaged: " + str(stopped.checkpoints)[:6]
    ] * 2
    assert "note: step-00000006, step-00000007 will go: the run goes on from step 5" in out
    expected, found = state(whole.path), state(stopped.path)
    assert {k: v for k, v in found.items() if k not in KEPT} == {k: v for k, v in expected.items() if k not in KEPT}


def test_where_all_are_damaged_the_newest_is_named(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=4), tmp_path)
    for name in CheckpointStore(folder.checkpoints).names():
        spoil(folder.checkpoints / name)
    with pytest.raises(CheckpointError, match=r"step-00000004/model\.safetensors: .* No other checkpoint is sound\.$"):
        resume(folder.path)


KILLED_WHILE_PRUNING = """
import os, shutil, signal, sys
from pathlib import Path
import penstock.session.checkpoint as checkpoint
from training import recipe
from penstock.training import train

def half(path, **_):
    os.unlink(next(path for path in Path(path).iterdir()))
    os.kill(os.getpid(), signal.SIGKILL)

def armed(self, path, before=checkpoint.CheckpointStore._discard):
    if path.name == sys.argv[3]:
        shutil.rmtree = half
    before(self, path)

checkpoint.CheckpointStore._discard = armed
train(recipe(sys.argv[1], steps=4, save_every=1, evaluate_every=9, keep=1), Path(sys.argv[2]))
"""


@pytest.mark.parametrize("step", [2, 3])
def test_a_kill_while_old_ones_are_removed_leaves_nothing(packed, tmp_path, step):
    """At step 3 the run is finished when it is killed, so nothing is saved any more by whoever resumes it."""
    done = processes.run("-c", KILLED_WHILE_PRUNING, packed.folder, tmp_path, f"step-{step:08d}")
    assert done.returncode == -signal.SIGKILL, done.stderr
    (run,) = tmp_path.glob("0*")
    assert list((run / "checkpoints").glob(".*.partial"))
    resume(run)

    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["best", "last", "step-00000004"]


@pytest.mark.parametrize("score", [0.5, float("nan")])
def test_of_equal_scores_the_newer_is_the_best_and_no_number_never_is(packed, tmp_path, monkeypatch, score):
    monkeypatch.setattr("penstock.metrics.SegmentationScores.summary", lambda _: {"mean_iou": score})
    folder, _ = train(recipe(packed.folder, evaluate_every=4), tmp_path)

    if score == 0.5:
        assert (folder.checkpoints / "best").resolve().name == "step-00000012"
    else:
        assert not (folder.checkpoints / "best").exists()


class Overflow(Hook):
    """After a step, something of the model or of the optimizer is no longer finite; its loss and gradients were."""

    def __init__(self, step, what):
        self.step, self.what = step, what

    def after_step(self, session):
        if session.step == self.step:
            self.what(session)


def spoil_weight(session):
    next(session.model.parameters()).data[0] = float("inf")


def spoil_statistics(session):
    next(b for n, b in session.model.named_buffers() if n.endswith("running_var")).fill_(float("inf"))


def spoil_momentum(session):
    next(iter(session.optimizer.state.values()))["momentum_buffer"].fill_(float("nan"))


def spoil_average(session):
    next(session.learner.average.model.parameters()).data.fill_(float("-inf"))


@pytest.mark.parametrize(
    ("spoiler", "named"),
    [
        (spoil_weight, "model encoder.model.conv1.0.weight"),
        (spoil_statistics, "model encoder.model.conv1.1.running_var"),
        (spoil_momentum, "optimizer encoder.model.conv1.0.weight/momentum_buffer"),
        (spoil_average, "ema encoder.model.conv1.0.weight"),
    ],
)
def test_nothing_that_is_not_finite_is_ever_saved(packed, tmp_path, spoiler, named):
    with pytest.raises(NonFiniteError) as caught:
        train(recipe(packed.folder, save_every=1, evaluate_every=9), tmp_path, hooks=[Overflow(3, spoiler)])
    (run,) = tmp_path.iterdir()

    assert str(caught.value).startswith(
        "step 3: expected finite weights, statistics and optimizer states to save, found others: "
    )
    assert str(caught.value).endswith(". Nothing was saved of it. Resume from the last checkpoint with a lower --lr.")
    assert CheckpointStore(run / "checkpoints").names() == ["step-00000001", "step-00000002"]
    _, outcome = resume(run, ["optimizer.lr=0.001"])
    assert outcome.status == "finished"


@pytest.mark.parametrize("rate", [3e38, 1e9])
@pytest.mark.parametrize("task", ["masks", "classes"])
def test_a_learning_rate_that_diverges_ends_with_a_sentence_and_can_be_resumed(packed, tmp_path, task, rate):
    """Whatever the evaluation meets, it ends; no checkpoint holds a number that is infinite; a lower rate goes on."""
    chosen = recipe(packed.folder, ema_decay=0.0) if task == "masks" else classes(tmp_path / "data")
    settings = ["train.steps=6", "train.save_every=1", "train.evaluate_every=1", "train.batch=4", "train.keep=9"]
    settings += [f"optimizer.lr={rate}", "optimizer.schedule=constant"]
    chosen = apply(chosen, [*settings, f"data.validation={'val' if task == 'masks' else 'train'}"])
    with pytest.raises(NonFiniteError):
        train(chosen, tmp_path / "runs")
    (run,) = (tmp_path / "runs").iterdir()
    for path in (run / "checkpoints").rglob("*.safetensors"):
        assert all(bool(each.isfinite().all()) for each in load_file(path).values() if each.is_floating_point()), path
    if not CheckpointStore(run / "checkpoints").names():
        _, outcome = resume(run, ["optimizer.lr=1e-9", "train.steps=2"])
        assert outcome.status == "finished"


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


def test_classifiers_that_have_diverged_are_scored_as_wrong():
    from penstock.metrics import Answers

    answers = Answers(7)
    probabilities = torch.full((4, 7), float("nan"))
    answers.update(probabilities, torch.tensor([0, 1, 6, 3]))
    found = answers.scores([str(n) for n in range(7)]).as_json()

    assert (found["top1"], found["top5"]) == (0.0, 0.0)
