"""A learning rate and a batch that suit a training."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.commands import call
from support.training import recipe

from penstock.config import apply
from penstock.errors import RecipeError
from penstock.session.learner import Update
from penstock.session.step import Gradients
from penstock.training import find_batch, find_lr, find_time, finders


@pytest.fixture
def bowl(monkeypatch):
    """A training of one number, whose loss is its square: rates below 2 / 2 shrink it, larger ones make it grow."""
    weight = torch.nn.Parameter(torch.tensor(1.0))

    class Learner:
        def __init__(self, spec=None):
            self.spec = spec

        @classmethod
        def of(cls, *_, **__):
            with torch.no_grad():
                weight.fill_(1.0)
            return cls()

        def begin(self):
            pass

        def backward(self, *_):
            return (30 * weight**2).sum()

        def update(self, loss, batch, step):
            value = loss.item()
            with torch.no_grad():
                weight.sub_(self.spec.lr * 60 * weight)
            return Update(value, self.spec.lr, 1.0)

    monkeypatch.setattr(finders, "Learner", Learner)
    monkeypatch.setattr(finders, "replace", lambda each, **changes: _replaced(each, changes, Learner))
    return weight


def _replaced(each, changes, kind):
    from dataclasses import replace

    return kind(changes["spec"]) if isinstance(each, kind) else replace(each, **changes)


class TestRate:
    def test_rates_rise_in_equal_factors_and_the_steepest_fall_is_found(self, packed, bowl):
        seen = []
        found = find_lr(recipe(packed.folder), steps=40, progress=lambda done, of: seen.append((done, of)))
        ratios = np.diff(np.log(found.rates))

        assert found.rates[0] == pytest.approx(1e-6)
        assert np.allclose(ratios, ratios[0])
        assert found.rates[-1] < 1  # it diverges once a step goes further than to the other side
        assert found.losses[-1] > 4 * min(found.losses)
        assert 0.003 < found.suggested < 1 / 30  # at half of that one step would reach the bottom
        assert seen[0] == (1, 40)

    def test_the_first_losses_which_fall_by_chance_are_passed_over(self, packed, bowl, monkeypatch):
        losses = [2.0, *(1.0 for _ in range(24)), *(0.95**n for n in range(15))]
        monkeypatch.setattr(finders.Learner, "backward", lambda self, *_: torch.tensor(1.0))
        monkeypatch.setattr(finders.Learner, "update", lambda self, loss, batch, step: Update(losses[step], 0.1, 1.0))

        assert 1e-3 < find_lr(recipe(packed.folder), steps=40).suggested < 1

    def test_the_rate_is_that_of_every_step_whatever_the_warm_up(self, packed, bowl, monkeypatch):
        warm, update = [], finders.Learner.update
        monkeypatch.setattr(
            finders.Learner, "update", lambda self, *more: warm.append(self.spec.warmup_steps) or update(self, *more)
        )
        find_lr(apply(recipe(packed.folder), ["optimizer.warmup_steps=5"]), steps=40)

        assert set(warm) == {0}

    def test_a_loss_that_never_falls_is_said(self, packed, bowl, monkeypatch):
        monkeypatch.setattr(finders.Learner, "backward", lambda self, *_: torch.tensor(1.0))
        monkeypatch.setattr(finders.Learner, "update", lambda self, loss, batch, step: Update(1.0 + step, 0.1, 1.0))
        with pytest.raises(RecipeError) as caught:
            find_lr(recipe(packed.folder), steps=20)
        assert str(caught.value) == (
            "--find-lr: expected a loss that falls at some learning rate from 1e-06 to 1, found one that does not. Try a "
            "larger batch with --set train.batch=N, as small ones are noisy. If --lr 0.001 does not lower the loss "
            "either, check the labels with penstock show."
        )

    def test_a_real_network_learns_at_the_rate_and_leaves_no_trace(self, packed, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        before = torch.get_rng_state()
        chosen = apply(recipe(packed.folder, steps=4), ["optimizer.name=adamw", "optimizer.warmup_steps=2"])
        found = find_lr(chosen, steps=30)

        assert 1e-6 < found.suggested < 1
        assert min(found.losses) < found.losses[0]
        assert find_lr(chosen, steps=30) == found
        assert torch.equal(torch.get_rng_state(), before)
        assert list(tmp_path.iterdir()) == []


class TestBatch:
    def test_a_cpu_has_no_limit_of_its_own(self, packed):
        with pytest.raises(RecipeError) as caught:
            find_batch(recipe(packed.folder))
        assert str(caught.value) == (
            "--find-batch: expected a GPU, whose memory sets the limit, found a CPU. Remove --find-batch, and choose the "
            "batch with --set train.batch=N."
        )

    def limited(self, monkeypatch, most, words="CUDA out of memory. Tried to allocate 2 GiB"):
        """A device whose memory holds so many images; what was tried."""
        compute, tried = Gradients.compute, []

        def computed(self, task, batch, kept):
            tried.append(len(batch))
            if len(batch) > most:
                raise torch.OutOfMemoryError(words)
            return compute(self, task, batch, kept)

        monkeypatch.setattr(finders, "_is_limited", lambda device: True)
        monkeypatch.setattr(Gradients, "compute", computed)
        return tried

    def test_the_largest_that_trains_is_found(self, packed, monkeypatch):
        tried = self.limited(monkeypatch, 9)
        found = find_batch(recipe(packed.folder))
        assert (found.fits, found.fails) == (8, 16)
        assert [*dict.fromkeys(tried)] == [2, 4, 8, 16]

    def test_no_more_than_asked_is_tried(self, packed, monkeypatch):
        self.limited(monkeypatch, 100)
        found = find_batch(recipe(packed.folder), largest=4)
        assert (found.fits, found.fails) == (4, 0)

    def test_a_device_that_holds_nothing_is_said(self, packed, monkeypatch):
        self.limited(monkeypatch, 1)
        with pytest.raises(RecipeError) as caught:
            find_batch(recipe(packed.folder))
        assert str(caught.value) == (
            "--find-batch: expected a training with 2 images to fit into the memory of the device, found too little "
            "memory. Make the crop smaller with --set augment.crop, or choose a smaller model."
        )

    def test_other_faults_are_not_taken_for_it(self, packed, monkeypatch):
        self.limited(monkeypatch, 1, "an illegal instruction")
        with pytest.raises(torch.OutOfMemoryError, match="an illegal instruction"):
            find_batch(recipe(packed.folder))


class TestTime:
    def test_a_step_takes_the_median_of_those_after_the_first(self, packed, bowl, monkeypatch):
        moments = iter([100.0, 103.0, 109.0, 111.0])
        monkeypatch.setattr(finders, "time", SimpleNamespace(perf_counter=lambda: next(moments)))
        monkeypatch.setattr(finders.Learner, "update", lambda self, *_: Update(1.0, 0.1, 1.0))
        found = find_time(recipe(packed.folder, steps=500))

        assert found == finders.TimeFound(3.0, 500, "cpu")

    def test_a_real_training_leaves_nothing_behind(self, packed, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert find_time(recipe(packed.folder)).seconds > 0
        assert not list(tmp_path.iterdir())


def test_doctor_prints_what_was_found(packed, capsys, monkeypatch):
    rate = finders.LRFinding((1e-6, 0.001, 0.5), (2.0, 0.25, 9.0), 0.001)
    monkeypatch.setattr(finders, "find_lr", lambda recipe, progress: rate if recipe.seed == 9 else None)
    found = finders.BatchFound(32, 64, "cuda:0")
    monkeypatch.setattr(finders, "find_batch", lambda recipe: found)
    monkeypatch.setattr(finders, "find_time", lambda recipe: finders.TimeFound(12.345, 730, "cpu"))
    words = ("--find-lr", "--find-time", "--find-batch", "--set", "seed=9")
    code, out, err = call("doctor", packed.folder, *words, capsys=capsys)
    lines = [" ".join(line.split()) for line in out.splitlines()]

    assert (code, err) == (0, "")
    assert lines[-3:] == [
        "batch found 32 images fit into the memory of cuda:0; 64 images do not",
        "time found 2 h 30 min 730 steps of 12.3 s on cpu; evaluations come on top",
        "lr found 0.001 the loss falls fastest there, from 2 to 0.25 in all; 3 steps from 1e-06 to 0.5",
    ]


def test_a_batch_is_tried_whole(monkeypatch):
    """In parts it would need less memory than it is said to."""
    seen = []

    @contextlib.contextmanager
    def training(chosen, *_):
        seen.append((chosen.train.batch, chosen.train.accumulate))
        yield None, None, []

    monkeypatch.setattr(finders, "_training", training)
    chosen = apply(recipe("x"), ["train.accumulate=4", "train.batch=8"])

    assert finders._trains(chosen, torch.device("cpu"), 16)
    assert seen == [(16, 1)]
