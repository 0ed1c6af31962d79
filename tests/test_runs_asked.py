"""Runs: weights of others, promises of exactness, undone steps, and the ends of output; each as a user met it."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import processes
import pytest
import timm
import torch
from processes import quiet
from safetensors.torch import load_file
from test_cli import call
from training import Stop, recipe, state

from penstock.assembly import open_run
from penstock.config import apply, dump
from penstock.errors import RecipeError, WeightsError
from penstock.events import Events
from penstock.inference import evaluate_run, load_model
from penstock.models import build_segmenter, load_matching
from penstock.progress import Progress
from penstock.runs import RunFolder
from penstock.session import CheckpointStore, Hook
from penstock.training import reproducibility, resume, train


@pytest.fixture(scope="module")
def whole(packed, tmp_path_factory):
    return train(recipe(packed.folder, steps=4), tmp_path_factory.mktemp("runs"))[0].path


class TestInit:
    def test_half_of_a_network_must_be_asked_for(self, packed, whole, tmp_path, capsys):
        """A pyramid's backbone for a U-Net: its decoder would learn from nothing without a word."""
        chosen = apply(recipe(packed.folder, steps=1), ["model.name=fpn:test_resnet", f"init={whole}"])
        with pytest.raises(WeightsError) as caught:
            train(chosen, tmp_path)
        saved = CheckpointStore(whole / "checkpoints").load().tensors["model"]
        encoder = sum(name.startswith("encoder.") for name in saved)
        message = str(caught.value)
        assert message.startswith(
            f"{whole} (unet:test_resnet): expected weights of the same model, but perhaps other classes, found "
            f"{encoder + 1} of "
        )
        assert message.endswith(
            "Train the model that the other run trained, with --model, or take what fits with --partial."
        )
        assert "; not decoder.* (89), segmentation_head.0.weight. Train" in message
        assert not list(tmp_path.iterdir())

        words = [
            "--init",
            whole,
            "--partial",
            "--model",
            "fpn:test_resnet",
            "--steps",
            1,
            "--batch",
            4,
            "--crop",
            32,
            32,
        ]
        code, out, err = call("train", packed.folder, *words, "--weights", "none", "--runs", tmp_path, capsys=capsys)
        lines = out.splitlines()
        first = next(number for number, line in enumerate(lines) if line.startswith(f"init from {whole}, step "))
        assert (code, err) == (0, "")
        assert [line.strip() for line in lines[first + 2 : first + 6]] == [
            f"loaded: encoder.* ({encoder}), segmentation_head.0.bias",
            "another shape, left as initialised: segmentation_head.0.weight",
            "not in the run, left as initialised: decoder.* (29)",
            "in the run only, not used: decoder.blocks.* (60)",
        ]

    def test_every_tensor_is_accounted_for_once(self):
        first, second = (build_segmenter("unet:test_resnet", classes, "none") for classes in (2, 3))
        tensors = {**first.state_dict(), "extra": torch.zeros(1), "more.a": torch.zeros(1), "more.b": torch.zeros(1)}
        del tensors["encoder.model.conv1.0.weight"]
        account = load_matching(second, tensors, "x", partial=True)
        lines = account.lines()

        assert lines[2:] == [
            "  another shape, left as initialised: segmentation_head.* (2)",
            "  not in the run, left as initialised: encoder.model.conv1.0.weight",
            "  in the run only, not used: extra, more.* (2)",
        ]
        listed = lines[1].removeprefix("  loaded: ").split(", ")
        counts = [int(each.partition("(")[2].rstrip(")") or 1) for each in listed]
        assert sum(counts) == len(account.loaded) == len(second.state_dict()) - 3
        with pytest.raises(
            WeightsError, match=r"; not encoder\.model\.conv1\.0\.weight, extra, more\.\* \(2\)\. Train the model"
        ):
            load_matching(second, tensors, "x")

    def test_a_file_of_a_backbone_is_accounted_for(self, packed, tmp_path, capsys):
        torch.save(timm.create_model("test_resnet").state_dict(), tmp_path / "w.pth")
        words = ["--model", "unet:test_resnet", "--weights", tmp_path / "w.pth", "--steps", 1, "--batch", 4]
        words += ["--crop", 32, 32, "--runs", tmp_path / "runs"]
        out = call("train", packed.folder, *words, capsys=capsys)[1].splitlines()
        place = out.index(f"backbone from {tmp_path / 'w.pth'}:")
        total = len(timm.create_model("test_resnet", num_classes=0).state_dict())

        assert out[place + 1].strip() == f"loaded {total} of {total} tensors"
        assert out[place + 3].strip() == "in the file only, not used: fc.* (2)"

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["train", "{DATA}", "--partial"], "--partial: expected --init RUN, whose weights they are, found none. Leave it out."),
            (["train", "{DATA}", "--init", "{RUN}", "--weights", "{FILE}"],
             "model.weights: expected none, as --init gives weights, found {FILE}. Leave one of them out."),
            (["train", "--resume", "{RUN}", "--name", "x", "--runs", "y"],
             "--resume {RUN}: expected no dataset, name or place beside it: a run knows its own, found --name, --runs. Leave "
             "out one of the two."),
            (["recipe", "{RUN}/recipe.toml", "--model", "unet:resnet18"],
             "--task, --model: expected no recipe beside them: they choose among the defaults, found {RUN}/recipe.toml. Change "
             "the recipe with --set, for example --set model.name=unet:resnet50."),
            (["train", "--resume", "{RUN}", "--set", "data.validation=train"],
             "{RUN}: data.validation: expected val, as the run was evaluated on, found train. Leave it; penstock evaluate RUN "
             "--split scores any split."),
        ],
    )  # fmt: skip
    def test_options_without_effect_are_refused(self, packed, whole, tmp_path, capsys, words, message):
        (tmp_path / "w.pth").write_bytes(b"")
        names = {"RUN": str(whole), "DATA": str(packed.folder), "FILE": str(tmp_path / "w.pth")}
        words = [str(word).format(**names) for word in words]
        assert call(*words, capsys=capsys)[::2] == (2, f"error: {message.format(**names)}\n")


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


class TestOutput:
    def test_whoever_reads_may_go_and_training_goes_on(self, packed, tmp_path):
        """`penstock train | head -1`: the lines after it are in log.txt, and the run ends well."""
        (tmp_path / "recipe.toml").write_text(dump(recipe(packed.folder, log_every=1)))
        command = [sys.executable, "-m", "penstock", "train", tmp_path / "recipe.toml", "--runs", tmp_path / "runs"]
        process = subprocess.Popen([*map(str, command)], env=quiet(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout.readline().startswith(b"run ")
        process.stdout.close()
        _, err = process.communicate(timeout=240)
        (run,) = (tmp_path / "runs").iterdir()

        assert (process.returncode, err) == (0, b"")
        assert (run / "log.txt").read_text().splitlines()[-1].startswith("finished at step 12")
        assert (run / "report.html").is_file()

    def test_ctrl_c_that_ends_the_reader_too_saves(self, packed, tmp_path):
        """As `penstock train 2>&1 | tee log` gets it: the whole group is interrupted."""
        (tmp_path / "recipe.toml").write_text(dump(recipe(packed.folder, log_every=1, steps=100_000)))
        words = f"{sys.executable} -m penstock train {tmp_path / 'recipe.toml'} --runs {tmp_path / 'runs'} 2>&1 | tee {tmp_path / 'log'}"
        process = subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", words], env=quiet(), start_new_session=True, stdout=subprocess.DEVNULL
        )
        end = time.monotonic() + 120
        while time.monotonic() < end and "step      5" not in (
            (tmp_path / "log").read_text() if (tmp_path / "log").exists() else ""
        ):
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=120)
        (run,) = (tmp_path / "runs").iterdir()
        while time.monotonic() < end and not (run / "report.html").exists():
            time.sleep(0.05)
        step = CheckpointStore(run / "checkpoints").load().step

        assert step >= 5
        assert json.loads((run / "events.jsonl").read_text().splitlines()[-1])["event"] == "interrupted"
        assert (run / "log.txt").read_text().splitlines()[-1] == f"interrupted at step {step}: SIGINT"

    def test_nothing_saved_is_not_called_saved(self, packed, tmp_path, capsys, monkeypatch):
        def interrupted(chosen, root, name, on_event):
            return train(recipe(packed.folder), root, name, hooks=[Nothing()], on_event=on_event)

        class Nothing(Hook):
            def on_start(self, session):
                os.kill(os.getpid(), signal.SIGINT)
                session.feed = dataclasses.replace(session.feed, prepare=Slow(session.feed.prepare))

        monkeypatch.setattr("penstock.cli.training.train_recipe", interrupted)
        code, out, _ = call("train", packed.folder, "--runs", tmp_path, capsys=capsys)
        (run,) = tmp_path.iterdir()

        assert code == 130
        assert f"go on with: penstock train --resume {run}" in out.splitlines()
        assert not CheckpointStore(run / "checkpoints").names()
        assert resume(run)[1].step == 12

    def test_a_bar_leaves_lines_where_they_were_sent(self, capsys, monkeypatch):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        with Progress("train", "steps") as progress:
            progress(1, 2)
            print("a line")
        assert capsys.readouterr().out == "a line\n"

    @pytest.mark.slow
    def test_one_of_several_ranks_speaks(self, packed, tmp_path):
        (tmp_path / "recipe.toml").write_text(dump(recipe(packed.folder, steps=2)))
        words = ["-m", "penstock", "train", tmp_path / "recipe.toml", "--runs", tmp_path / "runs"]
        done = processes.ranks(2, *words)

        assert done.returncode == 0, done.stderr
        assert sum(line.startswith("report ") for line in done.stdout.splitlines()) == 1

    def test_a_path_that_is_no_text_is_named(self, packed, tmp_path, capsys):
        place = tmp_path / os.fsdecode(b"donn\xe9es")
        shutil.copytree(packed.folder, place)
        words = ["--model", "unet:test_resnet", "--weights", "none", "--crop", 32, 32, "--runs", tmp_path / "runs"]
        code, _, err = call("train", place, *words, capsys=capsys)

        assert code == 2
        assert err == (
            f"error: data.path: expected a path in UTF-8, found {tmp_path}/donn\\udce9es. Rename the file or its folder.\n"
        )
        assert not (tmp_path / "runs").exists()


class Slow:
    """Prepares nothing before it is too late."""

    def __init__(self, prepare):
        self.prepare, self.fields = prepare, prepare.fields

    def __call__(self, *arguments):
        time.sleep(1)
        self.prepare(*arguments)


def test_validation_may_begin_and_end(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=3), tmp_path, hooks=[Stop(2)])
    assert resume(folder.path, ["data.validation="])[1].step == 3
    with pytest.raises(RecipeError, match="no_such"):
        resume(folder.path, ["no_such=1"])


def test_tensorboard_shows_curves_and_what_weights_are_like(packed, tmp_path):
    """A resume replaces what it repeats."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder, _ = train(
        recipe(packed.folder, keep=9, log_every=1, save_every=3, evaluate_every=4), tmp_path, hooks=[Stop(5)]
    )
    resume(folder.path, checkpoint="step-00000003")
    found = accumulator.EventAccumulator(str(folder.path / "tensorboard"), size_guidance={"histograms": 0})
    found.Reload()
    lines = [json.loads(line) for line in (folder.path / "metrics.jsonl").read_text().splitlines()]
    losses = {line["step"]: line["loss"] for line in lines if "loss" in line}

    assert {event.step: event.value for event in found.Scalars("train/loss")} == pytest.approx(losses)
    assert [event.step for event in found.Scalars("evaluation/mean_iou")] == [4, 8, 12]
    name = "segmentation_head.0.weight"
    weight = CheckpointStore(folder.checkpoints).load().tensors["model"][name]
    last = found.Histograms(name)[-1]
    assert (last.step, last.histogram_value.num) == (12, weight.numel())
    assert last.histogram_value.sum == pytest.approx(float(weight.double().sum()), abs=1e-4)


def test_the_average_is_what_is_evaluated(packed, tmp_path, capsys):
    """In training and after it: the moving average's weights, and not those of the last step."""
    folder, _ = train(recipe(packed.folder, steps=4), tmp_path)
    during = json.loads((folder.path / "evaluations/step-00000004.json").read_text())
    trained = load_model(folder.path, "last", "cpu", open_run(folder.path))
    found = {}
    for name in ("ema", "model"):
        trained.model.load_state_dict(load_file(folder.checkpoints / "last" / f"{name}.safetensors"))
        found[name] = evaluate_run(folder.path, trained).loss

    assert during["loss"] == found["ema"] != found["model"]


def test_minutes_between_checkpoints_are_a_setting(packed, tmp_path):
    """So short that every step has one; 0 counts steps alone."""
    for minutes, names in ((1e-6, 4), (0.0, 1)):
        chosen = recipe(packed.folder, steps=4, keep=9, save_every=99, evaluate_every=99, save_minutes=minutes)
        folder, _ = train(chosen, tmp_path)
        assert len(CheckpointStore(folder.checkpoints).names()) == names
