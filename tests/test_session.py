from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from test_cli import call
from torch import nn
from torch.optim import lr_scheduler as schedules
from training import Stop, recipe, state

from penstock.assembly import open_parts
from penstock.assembly.parts import freeze_backbone
from penstock.cli.events import show
from penstock.config import apply, load
from penstock.errors import CheckpointError, NonFiniteError, PenstockError, RecipeError, RunError, WeightsError
from penstock.events import Events
from penstock.models import build_detector, build_segmenter
from penstock.ranks import Ranks
from penstock.runs import RunFolder
from penstock.session import (
    Attached,
    CheckpointStore,
    Hook,
    Learner,
    OptimizerSpec,
    Options,
    Outcome,
    Saver,
    Session,
    Steps,
)
from penstock.session.hook import POINTS, keys
from penstock.session.optimizer import make_optimizer
from penstock.tasks import Objective
from penstock.training import resume, train
from penstock.training.compatibility import check_optimizer
from penstock.training.weights import initial_model


class Story(Hook):
    """Writes down what is called."""

    def __init__(self):
        self.told = []

    def on_start(self, session):
        self.told.append(f"start {session.step}")

    def before_step(self, session):
        self.told.append(f"before {session.step}")

    def after_backward(self, session):
        assert any(p.grad is not None for p in session.model.parameters())
        self.told.append(f"backward {session.step}")

    def after_step(self, session):
        self.told.append(f"after {session.step}")

    def after_eval(self, session, scores, loss):
        saved = sorted(path.name for path in session.saver.store.folder.iterdir() if path.name.startswith("step"))
        assert f"step-{session.step:08d}" in saved  # saved before it was evaluated
        self.told.append(f"eval {session.step}{' best' * session.is_best}")

    def on_exception(self, session, error):
        self.told.append(f"exception {type(error).__name__}")

    def on_end(self, session):
        self.told.append(f"end {session.outcome.status}")

    def state_dict(self):
        self.told.append("save")
        return {}


@pytest.fixture(scope="module")
def whole(packed, tmp_path_factory):
    """An uninterrupted run."""
    folder, outcome = train(recipe(packed.folder), tmp_path_factory.mktemp("runs"))
    assert outcome.status == "finished"
    return folder.path


def test_every_step_is_in_the_metrics_once(whole):
    lines = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]

    assert [line["step"] for line in lines if "loss" in line] == list(range(1, 13))
    assert [line["step"] for line in lines if "evaluation" in line] == [4, 8, 12]


def test_resume_at_every_step_ends_the_same(packed, whole, tmp_path):
    """Stopped after every single step and resumed, in turn: bytes of weights, optimizer, average, metrics, origins."""
    folder, outcome = train(recipe(packed.folder), tmp_path, hooks=[Stop(1)])
    for step in range(2, 12):
        assert (outcome.status, outcome.step) == ("stopped", step - 1)
        _, outcome = resume(folder.path, hooks=[Stop(step)])
    _, outcome = resume(folder.path)

    assert outcome.status == "finished"
    expected, found = state(whole), state(folder.path)
    assert json.loads(found["state.json"])["hooks"].keys() ^ json.loads(expected["state.json"])["hooks"].keys() == set()
    assert found == expected


def test_resuming_a_finished_run_changes_nothing(whole):
    before = state(whole)
    _, outcome = resume(whole)

    assert outcome.status == "finished"
    assert state(whole) == before


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


def test_naming_the_optimizer_again_changes_nothing(packed, tmp_path, capsys):
    folder, _ = train(apply(recipe(packed.folder, steps=2), ["optimizer.name=adamw"]), tmp_path)
    code, _, _ = call("train", "--resume", folder.path, "--optimizer", "adamw", "--steps", 3, capsys=capsys)

    assert code == 0
    assert load(folder.path / "recipe.toml").optimizer == OptimizerSpec("adamw", lr=0.05)


@pytest.mark.parametrize(
    "objective",
    [
        Objective(),
        Objective(class_weights="median", label_smoothing=0.1),
        Objective(ohem_ratio=0.25),
        Objective(ohem_threshold=0.3, dice=0.5),
        Objective(cross_entropy=0.0, focal=1.0, lovasz=1.0, tversky=0.5),
    ],
    ids=["plain", "weighted", "hardest", "threshold and dice", "focal, lovasz and tversky"],
)
def test_accumulation_is_the_same_mathematics(packed, tmp_path, objective):
    """Without batch statistics, micro-batches give the gradients of the whole batch, up to rounding."""
    losses = {}
    for pieces in (1, 2, 3):
        parts = open_parts(dataclasses.replace(recipe(packed.folder, accumulate=pieces), loss=objective))
        session = make_session(parts, tmp_path / str(pieces), Options(steps=1, accumulate=pieces), freeze=True)
        session.train()
        losses[pieces] = (session.loss, [p.grad.clone() for p in session.model.parameters() if p.grad is not None])
    for pieces in (2, 3):
        assert losses[pieces][0] == pytest.approx(losses[1][0], rel=1e-5)
        for a, b in zip(losses[pieces][1], losses[1][1], strict=True):
            assert torch.allclose(a, b, rtol=1e-3, atol=1e-5)


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


def test_frozen_norms_keep_their_statistics_and_learn_their_weights(packed, tmp_path):
    chosen = recipe(packed.folder, batch=2, freeze_bn=True)
    before = open_parts(chosen).model().state_dict()
    run, _ = train(chosen, tmp_path)
    after = load_file(run.path / "checkpoints" / "last" / "model.safetensors")
    statistics = [name for name in before if "running_" in name]

    assert statistics
    assert all(torch.equal(before[name], after[name]) for name in statistics)
    assert not torch.equal(before["encoder.model.bn1.weight"], after["encoder.model.bn1.weight"])


def make_session(parts, folder, options, hooks=(), *, freeze=False, evaluate=None):
    model = parts.model()
    if freeze:
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.forward = torch.nn.Identity().forward
    folder.mkdir(exist_ok=True)
    ranks, device = Ranks(), torch.device("cpu")
    return Session(
        parts.task,
        Learner.of(model, options=options, optimizer=OptimizerSpec(), ranks=ranks, device=device),
        parts.training_feed(),
        saver=Saver(CheckpointStore(folder), ranks, device),
        attached=Attached(tuple(hooks)),
        evaluate=evaluate,
    )


def test_a_frozen_backbone_stays_as_it_is_and_all_else_learns(packed, tmp_path):
    chosen = recipe(packed.folder, steps=3, evaluate_every=3, freeze_backbone=True, ema_decay=0.0)
    before = open_parts(chosen).model().state_dict()
    folder, _ = train(chosen, tmp_path / "whole")
    stopped, _ = train(chosen, tmp_path / "stopped", hooks=[Stop(2)])
    resume(stopped.path)
    after = load_file(folder.path / "checkpoints" / "last" / "model.safetensors")

    assert state(stopped.path) == state(folder.path)
    for name, tensor in after.items():
        assert torch.equal(tensor, before[name]) == name.startswith("encoder."), name


def test_what_has_no_backbone_cannot_freeze_it():
    with pytest.raises(RecipeError) as caught:
        freeze_backbone(nn.Linear(2, 2), "cifar10-fast")

    assert str(caught.value) == (
        "train.freeze_backbone: expected a model with a backbone: one for segmentation, mattes or classes, found "
        "cifar10-fast. Leave it out; train.freeze_bn keeps the statistics of norms."
    )


class TestHooks:
    def test_points_are_called_in_the_designs_order(self, packed, tmp_path):
        story = Story()
        train(recipe(packed.folder, steps=3, evaluate_every=2, save_every=9), tmp_path, hooks=[story])
        told = [line.removesuffix(" best") for line in story.told]

        assert told == [
            *("start 0", "before 0", "backward 0", "after 1", "before 1", "backward 1", "after 2", "save", "eval 2"),
            *("before 2", "backward 2", "after 3", "save", "eval 3", "end finished"),
        ]

    def test_every_says_how_often(self, packed, tmp_path):
        story = Story()
        story.every = Steps(2)
        make_session(open_parts(recipe(packed.folder)), tmp_path, Options(steps=5), [story]).train()

        assert [line for line in story.told if line.startswith("after")] == ["after 2", "after 4"]

    def test_an_error_in_a_hook_names_it_and_the_end_is_called(self, packed, tmp_path):
        class Broken(Hook):
            def after_step(self, session):
                raise KeyError("oh")

        class WorseAtTheEnd(Hook):
            def on_end(self, session):
                raise ValueError("and this")

        story = Story()
        session = make_session(
            open_parts(recipe(packed.folder)), tmp_path, Options(steps=3), [Broken(), WorseAtTheEnd(), story]
        )
        with pytest.raises(KeyError, match="oh") as caught:
            session.train()
        assert caught.value.__notes__ == [
            "in Broken.after_step, step 1",
            "WorseAtTheEnd.on_end then failed too: ValueError('and this')",
        ]
        assert story.told[-2:] == ["exception KeyError", "end failed"]
        assert list(tmp_path.iterdir()) == []

    def test_a_misspelt_point_is_an_error(self):
        with pytest.raises(TypeError, match=r"Wrong\.after_stpe is no hook point; the points are on_start, "):

            class Wrong(Hook):
                def after_stpe(self, session):
                    pass

    def test_hooks_can_ask_for_saves_and_evaluations(self, packed, tmp_path):
        class Ask(Hook):
            def after_step(self, session):
                if session.step == 1:
                    session.request_save()
                if session.step == 2:
                    session.request_eval()

        story = Story()
        train(recipe(packed.folder, steps=3, evaluate_every=99, save_every=99), tmp_path, hooks=[Ask(), story])
        told = [line.removesuffix(" best") for line in story.told if line.startswith(("save", "eval"))]

        assert told == ["save", "save", "eval 2", "save", "eval 3"]

    def test_states_of_two_hooks_of_a_kind_are_kept_apart(self):
        assert keys([Stop(1), Story(), Stop(2)]) == ["Stop", "Story", "Stop#2"]
        assert all(hasattr(Hook, point) for point in POINTS)


class Poison(Hook):
    """Makes the weights infinite before a step."""

    def __init__(self, step):
        self.step = step

    def before_step(self, session):
        if session.step == self.step:
            next(session.model.parameters()).data.fill_(float("inf"))


def test_steps_are_recorded_as_traces(packed, tmp_path):
    chosen = recipe(packed.folder, steps=5, evaluate_every=5, profile_every=2)
    plain, _ = train(recipe(packed.folder, steps=5, evaluate_every=5), tmp_path / "plain")
    folder, _ = train(chosen, tmp_path / "traced")
    traces = sorted((folder.path / "profiles").iterdir())

    assert [trace.name for trace in traces] == ["profile-00000002.json", "profile-00000004.json"]
    names = {event.get("name") for event in json.loads(traces[0].read_text())["traceEvents"]}
    assert "aten::convolution_backward" in names
    ours, theirs = (state(each.path) for each in (folder, plain))
    assert {name: ours[name] for name in ours if "json" not in name} == {
        n: theirs[n] for n in theirs if "json" not in n
    }
    assert ours["metrics.jsonl"] == theirs["metrics.jsonl"]


def test_adamw_is_that_of_pytorch():
    ours, theirs = (nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3)) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    ours = ours.to(memory_format=torch.channels_last)
    optimizers = (
        make_optimizer(OptimizerSpec("adamw", 0.01, weight_decay=0.1), ours),
        torch.optim.AdamW(
            [
                {"params": [p for p in theirs.parameters() if p.ndim > 1], "weight_decay": 0.1},
                {"params": [p for p in theirs.parameters() if p.ndim == 1], "weight_decay": 0.0},
            ],
            lr=0.01,
        ),
    )
    for step in range(5):
        pictures = torch.randn((2, 3, 9, 9), generator=torch.Generator().manual_seed(step))
        for model, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            model(pictures).square().mean().backward()
            optimizer.step()

    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


def test_a_step_that_is_not_finite_is_never_saved(packed, tmp_path):
    with pytest.raises(NonFiniteError) as caught:
        train(recipe(packed.folder, save_every=1, evaluate_every=99), tmp_path, hooks=[Poison(2)])
    message = str(caught.value)
    assert message.startswith(
        "step 3: expected a finite loss and finite gradients, found loss nan, gradient norm nan, from train-0000"
    )
    assert message.endswith(
        ". Nothing was saved of this step. Look at its images with penstock replay RUN --step 3, or lower the "
        "learning rate."
    )
    (run,) = tmp_path.iterdir()
    assert sorted(p.name for p in (run / "checkpoints").glob("step-*")) == ["step-00000001", "step-00000002"]
    model = CheckpointStore(run / "checkpoints").load().tensors["model"]
    assert all(bool(t.isfinite().all()) for t in model.values())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_save_and_end(packed, tmp_path, number):
    class Signal(Hook):
        def before_step(self, session):
            if session.step == 2:
                os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    # Nothing else saves at that step.
    folder, outcome = train(recipe(packed.folder, save_every=99, evaluate_every=99), tmp_path, hooks=[Signal()])

    assert outcome == Outcome("interrupted", signal.Signals(number).name, 3, int(number))
    assert CheckpointStore(folder.checkpoints).load().step == 3
    assert signal.getsignal(number) == before


def test_an_outcome_says_why_training_ended(packed, tmp_path):
    short = recipe(packed.folder, steps=2, evaluate_every=9)

    assert train(short, tmp_path)[1] == Outcome("finished", "step 2 reached", 2)
    assert train(short, tmp_path, hooks=[Stop(1)])[1] == Outcome("stopped", "the test asks", 1)


@pytest.mark.parametrize(("number", "reported"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_who_interrupts_has_a_report_and_who_terminates_is_not_kept_waiting(
    packed, tmp_path, capsys, monkeypatch, number, reported
):
    def interrupted(chosen, root, name, on_event):
        class Signal(Hook):
            def before_step(self, session):
                if session.step == 2:
                    os.kill(os.getpid(), number)

        return train(recipe(packed.folder), root, name, hooks=[Signal()], on_event=on_event)

    monkeypatch.setattr("penstock.cli.training.train_recipe", interrupted)
    code, out, err = call("train", packed.folder, "--runs", tmp_path, capsys=capsys)
    (run,) = tmp_path.iterdir()

    assert (code, err) == (128 + number, "")
    assert f"saved; go on with: penstock train --resume {run}" in out.splitlines()
    assert (run / "report.html").is_file() == reported
    assert (f"report {run / 'report.html'}" in out.splitlines()) == reported


def test_the_last_step_has_a_line(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=3, log_every=50), tmp_path)

    assert [
        line[:12]
        for line in (folder.path / "log.txt").read_text().splitlines()
        if "  loss " in line and "evaluation" not in line
    ] == ["step      3  "[:12]]


def test_a_signal_during_an_evaluation_ends_it_and_a_resume_does_it(packed, whole, tmp_path):
    class Once(Hook):
        def after_step(self, session):
            if session.step == 4:
                session.evaluate_with = interrupted(session.evaluate_with)

    def interrupted(evaluate):
        def run(model, stop):
            os.kill(os.getpid(), signal.SIGTERM)
            return evaluate(model, stop)

        return run

    folder, outcome = train(recipe(packed.folder), tmp_path, hooks=[Once()])
    assert (outcome.status, outcome.step) == ("interrupted", 4)
    lines = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    assert not any("evaluation" in line for line in lines)
    resume(folder.path)
    assert folder.metrics.read_bytes() == (whole / "metrics.jsonl").read_bytes()


class TestCheckpoints:
    def test_damage_is_named_and_an_older_one_can_be_used(self, packed, tmp_path):
        folder, _ = train(recipe(packed.folder, steps=6), tmp_path)
        path = (folder.checkpoints / "last").resolve() / "model.safetensors"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        with pytest.raises(CheckpointError) as caught:
            resume(folder.path, checkpoint="step-00000006")
        message = str(caught.value)
        assert message.startswith(f"{path}: expected a file with SHA-256 ")
        assert message.endswith(". Sound ones, for --checkpoint: step-00000004.")
        path.unlink()
        with pytest.raises(CheckpointError, match="found no such file"):
            resume(folder.path, checkpoint="step-00000006")
        _, outcome = resume(folder.path, checkpoint="step-00000004")
        assert outcome.status == "finished"

    def test_old_ones_go_and_the_best_stays(self, packed, tmp_path):
        folder, _ = train(recipe(packed.folder, save_every=1, keep=2), tmp_path)
        store = CheckpointStore(folder.checkpoints)
        best = store.load("best").step

        assert store.names() == sorted({f"step-{s:08d}" for s in (11, 12, best)})
        assert store.load("last").step == 12
        with pytest.raises(CheckpointError) as caught:
            store.load("step-00000001")
        assert str(caught.value) == (
            f"{folder.checkpoints}/step-00000001: expected a checkpoint: last, best or one of "
            f"{', '.join(store.names())}, found nothing of that name. Name one of those."
        )

    def test_leftovers_of_a_kill_are_swept(self, packed, tmp_path):
        folder, _ = train(recipe(packed.folder, steps=3), tmp_path)
        (folder.checkpoints / ".step-00000009.123.partial").mkdir()
        (folder.checkpoints / ".last.77.partial").symlink_to("nowhere")
        resume(folder.path, ["train.steps=4"])

        assert [p.name for p in folder.checkpoints.iterdir() if p.name.startswith(".")] == []


class TestRefusals:
    def test_other_data(self, packed, raw, tmp_path):
        from penstock.datasets import PackOptions, inspect, pack

        folder, _ = train(recipe(packed.folder, steps=3), tmp_path / "runs")
        other = pack(inspect(raw), tmp_path / "other", PackOptions(seed=9))
        with pytest.raises(RunError) as caught:
            resume(folder.path, [f"data.path={other.folder}"])
        assert str(caught.value).endswith("Restore the dataset, or start a new run from these weights with --init.")

    @pytest.mark.parametrize(
        ("setting", "was", "found"),
        [
            ("seed=4", "3", "4"),
            ("train.batch=5", "4", "5"),
            ("model.name=unet:test_convnext", "unet:test_resnet", "unet:test_convnext"),
            ("optimizer.name=adamw", "sgd", "adamw"),
            ("train.ema_decay=0.5", "0.9", "0.5"),
            ("loss.dice=1.0", "0.0", "1.0"),
        ],
    )
    def test_another_training(self, packed, whole, setting, was, found):
        """What a run learns is fixed at its start; the attempt leaves the run as it was."""
        before = (whole / "recipe.toml").read_bytes()
        with pytest.raises(RecipeError) as caught:
            resume(whole, [setting])
        assert str(caught.value) == (
            f"{whole}: {setting.split('=')[0]}: expected {was}, as the run was started with, found {found}. Leave it, "
            "or start a new run from these weights with --init."
        )
        assert (whole / "recipe.toml").read_bytes() == before

    @pytest.mark.parametrize(
        "setting",
        [
            "data.train=val", "data.block=4", "data.window=4", "follow.on=true", "follow.replay_ratio=0.5",
            "model.deeplab.channels=8", "augment.flip=0.1", "augment.jitter.hue=0.1", "regularize.mixup=1.0",
            "loss.class_weights=inverse", "train.freeze_bn=true", "train.freeze_backbone=true", "train.sync_bn=true",
            "init=other", "init_partial=true", "train.window=64", "model.weights=pretrained", "data.start=earliest",
            "data.until=0:5",
        ],
    )  # fmt: skip
    def test_whatever_decides_what_is_learnt_and_in_which_order(self, whole, setting):
        """All that may not change, written out; optimizer, steps and what is only kept or said may."""
        before = (whole / "recipe.toml").read_bytes()
        name = setting.partition("=")[0]
        with pytest.raises(RecipeError) as caught:
            resume(whole, [setting])
        assert str(caught.value).startswith(f"{whole}: {name}: expected ")
        assert ", as the run was started with, found " in str(caught.value)
        assert (whole / "recipe.toml").read_bytes() == before

    def test_a_run_that_is_being_trained(self, packed, whole):
        from penstock.runs import RunFolder

        with RunFolder(whole).locked(), pytest.raises(RunError) as caught:
            resume(whole)
        assert str(caught.value) == (
            f"{whole}: expected a run that nobody is training, found another process at it. Wait for it, or end it."
        )

    def test_no_run(self, tmp_path):
        with pytest.raises(RunError) as caught:
            resume(tmp_path)
        assert str(caught.value) == (
            f"{tmp_path}: expected a run folder, with a recipe.toml, found a folder without one. Name a folder that "
            "penstock train made, for example runs/0001-..."
        )

    def test_cut_metrics(self, packed, tmp_path):
        folder, _ = train(recipe(packed.folder, steps=3), tmp_path)
        folder.metrics.write_text("")
        with pytest.raises(RunError, match=r"metrics\.jsonl: expected at least the \d+ bytes that the checkpoint"):
            resume(folder.path, ["train.steps=4"])

    def test_crops_that_the_model_cannot_take(self, packed, tmp_path):
        with pytest.raises(PenstockError) as caught:
            train(apply(recipe(packed.folder), ["augment.crop=[33, 60]"]), tmp_path)
        assert str(caught.value) == (
            "augment.crop: expected sides that divide by 32, the output stride of unet:test_resnet, found 33 x 60. "
            "Use --crop 32 64."
        )


class TestInit:
    def test_other_classes_take_over_all_but_the_last_layer(self, packed, whole, tmp_path, capsys):
        described = dataclasses.replace(packed.description, classes=(*packed.description.classes, "more"))
        other = dataclasses.replace(packed, description=described)
        parts = dataclasses.replace(open_parts(recipe(packed.folder)), dataset=other)
        parts = dataclasses.replace(parts, recipe=dataclasses.replace(parts.recipe, init=str(whole)))
        initial_model(parts, Events(show))
        printed = capsys.readouterr().out

        assert f"init from {whole}, step 12:" in printed
        assert "another shape, left as initialised: segmentation_head.* (2)" in printed
        assert "not in the run" not in printed

    def test_another_model_is_refused(self, packed, whole, tmp_path):
        with pytest.raises(WeightsError, match="expected weights of the same model, but perhaps other classes"):
            train(apply(recipe(packed.folder), ["model.name=fpn:test_convnext", f"init={whole}"]), tmp_path)


class TestOptimizer:
    def test_schedules(self):
        poly = OptimizerSpec(lr=1.0, warmup_steps=4)
        assert [round(poly.rate(s, 14), 4) for s in (0, 3, 4, 9, 14)] == [0.2, 0.8, 1.0, 0.5359, 0.0]
        cosine = OptimizerSpec("adamw", 2.0, schedule="cosine")
        assert [cosine.rate(s, 10) for s in (0, 5, 10)] == pytest.approx([2.0, 1.0, 0.0])
        assert OptimizerSpec(schedule="constant", lr=0.3).rate(7, 10) == 0.3

    @pytest.mark.parametrize(
        ("spec", "theirs"),
        [
            (OptimizerSpec(schedule="step", decay=0.5, decay_steps=3), lambda o: schedules.StepLR(o, 3, 0.5)),
            (
                OptimizerSpec(schedule="multistep", decay=0.1, milestones=(2, 7)),
                lambda o: schedules.MultiStepLR(o, [2, 7], 0.1),
            ),
            (
                OptimizerSpec(schedule="exponential", decay=0.9, decay_steps=1),
                lambda o: schedules.ExponentialLR(o, 0.9),
            ),
            (OptimizerSpec(schedule="poly"), lambda o: schedules.PolynomialLR(o, 12, 0.9)),
            (
                OptimizerSpec(schedule="cosine", min_lr_ratio=0.2),
                lambda o: schedules.CosineAnnealingLR(o, 12, eta_min=0.2 * 0.01),
            ),
        ],
        ids=lambda value: getattr(value, "schedule", ""),
    )
    def test_schedules_are_those_of_pytorch(self, spec, theirs):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=spec.lr)
        other, rates = theirs(optimizer), []
        for _ in range(13):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            other.step()

        assert [spec.rate(step, 12) for step in range(13)] == pytest.approx(rates, abs=1e-12)

    def test_slow_starts(self):
        slow = OptimizerSpec(lr=1.0, schedule="constant", warmup_steps=3, warmup_start_ratio=0.25)
        assert [slow.rate(step, 10) for step in range(5)] == [0.25, 0.25, 0.25, 1.0, 1.0]
        low = OptimizerSpec(lr=2.0, schedule="step", decay=0.1, decay_steps=1, min_lr_ratio=0.05)
        assert [low.rate(step, 10) for step in range(4)] == pytest.approx([2.0, 0.2, 0.1, 0.1])

    def test_heads_and_biases_may_learn_faster(self, packed):
        model = open_parts(recipe(packed.folder)).model()
        optimizer = make_optimizer(OptimizerSpec(bias_lr_mult=2.0, head_lr_mult=10.0), model)
        shares = {id(p): group["share"] for group in optimizer.param_groups for p in group["params"]}
        named = {name: shares[id(p)] for name, p in model.named_parameters()}

        norms = {f"{name}.bias" for name, each in model.named_modules() if isinstance(each, nn.BatchNorm2d)}

        assert {share for name, share in named.items() if name.startswith("encoder.")} == {1.0}, "its biases are norms'"
        assert named["segmentation_head.0.weight"] == 10.0
        assert named["segmentation_head.0.bias"] == 20.0
        assert norms
        assert {named[name] for name in norms} == {1.0, 10.0}

    def test_the_logits_alone_may_learn_faster(self):
        model = build_segmenter("deeplab:test_resnet", 3, "none")
        optimizer = make_optimizer(OptimizerSpec(head_lr_mult=10, bias_lr_mult=2, head="logits"), model)
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        shares = {names[id(p)]: group["share"] for group in optimizer.param_groups for p in group["params"]}

        assert (shares.pop("logits.weight"), shares.pop("logits.bias")) == (10, 20)
        assert set(shares.values()) == {1}, "all other biases are norms'"
        assert any(name.startswith("aspp.") for name in shares)
        with pytest.raises(
            RecipeError, match=r"optimizer.head: expected all, as ssd:test_resnet has no layer of that name"
        ):
            check_optimizer(
                apply(recipe("x"), ["model.name=ssd:test_resnet", "optimizer.head=logits"]),
                build_detector("ssd:test_resnet", 2, "none"),
            )

    def test_gradients_are_cut_to_a_norm(self, packed, tmp_path):
        norms = []

        class Looks(Hook):
            def before_step(self, session):
                session.optimizer.register_step_pre_hook(
                    lambda *_: norms.append(
                        torch.nn.utils.get_total_norm(
                            [p.grad for p in session.model.parameters() if p.grad is not None]
                        )
                    )
                )

        train(apply(recipe(packed.folder, steps=1), ["optimizer.grad_clip=0.001"]), tmp_path, hooks=[Looks()])
        assert norms[0].item() == pytest.approx(0.001, rel=1e-3)

    @pytest.mark.parametrize("name", ["adamw", "rmsprop"])
    def test_a_resumed_run_is_the_same_with_every_optimizer(self, packed, tmp_path, name):
        settings = [
            f"optimizer.name={name}",
            "optimizer.lr=0.001",
            "optimizer.grad_clip=0.5",
            "optimizer.head_lr_mult=3",
        ]
        chosen = apply(recipe(packed.folder), settings)

        whole, _ = train(chosen, tmp_path / "whole")
        stopped, _ = train(chosen, tmp_path / "stopped", hooks=[Stop(5)])
        resume(stopped.path)

        for kind in ("model", "optimizer", "ema"):
            key = f"{kind}.safetensors"
            assert state(stopped.path)[key] == state(whole.path)[key]

    @pytest.mark.parametrize("name", ["sgd", "adamw", "rmsprop"])
    def test_biases_and_norms_do_not_decay(self, name):
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Linear(4, 2))
        optimizer = make_optimizer(OptimizerSpec(name, weight_decay=0.1), model)
        decayed = {id(p) for g in optimizer.param_groups if g["weight_decay"] for p in g["params"]}

        assert decayed == {id(model[0].weight), id(model[2].weight)}


@pytest.fixture(scope="module")
def plain(packed, tmp_path_factory):
    """The losses of three steps in float32."""
    folder, _ = train(recipe(packed.folder, steps=3), tmp_path_factory.mktemp("plain"))
    return [line["loss"] for line in folder.lines("metrics.jsonl") if "loss" in line]


class TestPrecision:
    """The options that change kernels must not change what is learnt beyond rounding."""

    def test_bfloat16(self, packed, tmp_path, plain):
        folder, _ = train(recipe(packed.folder, steps=3, precision="bfloat16"), tmp_path)
        losses = [line["loss"] for line in folder.lines("metrics.jsonl") if "loss" in line]

        assert losses != plain
        assert losses == pytest.approx(plain, rel=0.05)

    @pytest.mark.slow
    @pytest.mark.skipif(shutil.which("c++") is None, reason="torch.compile needs a C++ compiler")
    def test_torch_compile(self, packed, tmp_path, plain):
        program = (
            "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[3])\n"
            "from training import recipe; from penstock.training import train\n"
            "train(recipe(sys.argv[1], steps=3, evaluate_every=100, compile=True), Path(sys.argv[2]))"
        )
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            program,
            str(packed.folder),
            str(tmp_path),
            str(Path(__file__).parent),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        (run,) = tmp_path.iterdir()
        losses = [line["loss"] for line in RunFolder(run).lines("metrics.jsonl") if "loss" in line]

        assert losses == pytest.approx(plain, rel=1e-3)
        assert CheckpointStore(run / "checkpoints").load("last").tensors["model"].keys() == _names(packed, tmp_path)


def _names(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path / "names")
    return CheckpointStore(folder.checkpoints).load("last").tensors["model"].keys()
