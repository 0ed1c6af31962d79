from __future__ import annotations

import math

import pytest
import torch
from safetensors.torch import load_file
from support.datasets import classes
from support.training import recipe

from penstock.config import apply
from penstock.errors import NonFiniteError
from penstock.session import CheckpointStore, Hook, finite
from penstock.training import resume, train


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
    next(session.learner.ema.model.parameters()).data.fill_(float("-inf"))


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
        "step 3: expected finite weights, statistics and optimizer states to save, found NaN or infinity in "
    )
    assert str(caught.value).endswith(". This checkpoint was not written. Resume from the last one with a lower --lr.")
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


class Spoil(Hook):
    """Makes the gradients of a step infinite, or the loss alone."""

    def __init__(self, what):
        self.what = what

    def before_step(self, session):
        if session.step == 1 and self.what == "loss":
            next(session.model.parameters()).data.fill_(math.inf)

    def after_backward(self, session):
        if session.step == 1:
            for parameter in session.model.parameters():
                parameter.grad.fill_(math.inf if self.what == "gradients" else 0.0)


@pytest.mark.parametrize(
    ("what", "found"),
    [("gradients", r"found loss \d\.\d+, gradient norm inf"), ("loss", "found loss nan, gradient norm 0.0")],
)
def test_a_loss_or_a_gradient_alone_may_not_be_infinite(packed, tmp_path, what, found):
    with pytest.raises(NonFiniteError, match=found):
        train(recipe(packed.folder, steps=3, save_every=1), tmp_path, hooks=[Spoil(what)])
    (run,) = tmp_path.iterdir()

    assert [path.name for path in (run / "checkpoints").glob("step-*")] == ["step-00000001"]


class TestFinite:
    good, bad = torch.ones(2), torch.tensor([1.0, math.nan])

    def refused(self, tensors, any_rank=bool):
        with pytest.raises(NonFiniteError) as caught:
            finite.check_saved(tensors, 1200, any_rank)
        return str(caught.value)

    @pytest.mark.parametrize(
        ("tensors", "found"),
        [
            ({"model": {"a": good, "b": bad}}, "NaN or infinity in model b"),
            ({"model": {"a": bad}, "ema": {"a": good, "b": bad}}, "NaN or infinity in model a and 1 more"),
            ({"model": {"a": bad * 0, "b": bad, "c": bad}}, "NaN or infinity in model a and 2 more"),
        ],
    )
    def test_what_is_saved_is_named(self, tensors, found):
        assert self.refused(tensors) == (
            f"step 1,200: expected finite weights, statistics and optimizer states to save, found {found}. This "
            "checkpoint was not written. Resume from the last one with a lower --lr."
        )

    def test_what_another_rank_has_is_not_saved_either(self):
        assert ", found NaN or infinity on another rank. " in self.refused({"model": {"a": self.good}}, lambda _: True)

    def test_whole_numbers_are_always_finite(self):
        finite.check_saved({"optimizer": {"step": torch.tensor(3)}, "model": {"a": self.good}}, 1, bool)


class Poison(Hook):
    """Makes the weights infinite before a step."""

    def __init__(self, step):
        self.step = step

    def before_step(self, session):
        if session.step == self.step:
            next(session.model.parameters()).data.fill_(float("inf"))


def test_a_step_that_is_not_finite_is_never_saved(packed, tmp_path):
    with pytest.raises(NonFiniteError) as caught:
        train(recipe(packed.folder, save_every=1, evaluate_every=99), tmp_path, hooks=[Poison(2)])
    message = str(caught.value)
    assert message.startswith(
        "step 3: expected a finite loss and finite gradients, found loss nan, gradient norm nan, from train-0000"
    )
    assert message.endswith(
        "; it began in encoder.model.conv1.0. The images are in the run's folder nonfinite. Resume with --set "
        "train.nonfinite=skip to leave this step out, or lower the learning rate."
    )
    (run,) = tmp_path.iterdir()
    assert sorted(p.name for p in (run / "checkpoints").glob("step-*")) == ["step-00000001", "step-00000002"]
    model = CheckpointStore(run / "checkpoints").load().tensors["model"]
    assert all(bool(t.isfinite().all()) for t in model.values())
