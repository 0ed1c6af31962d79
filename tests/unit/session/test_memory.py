"""Steps that run out of memory. The device of these tests has room for some images at a time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from support.line import CPU, SPEC, Line, numbers

from penstock.errors import OutOfMemoryError
from penstock.feed import Batch
from penstock.ranks import Ranks
from penstock.session import Learner
from penstock.session.kept import KeptValues
from penstock.settings import Train
from penstock.values import Cursor

SIZE = 8
MESSAGE = "CUDA out of memory. Tried to allocate 2.00 GiB."


class Small(torch.nn.Module):
    """A norm and a line, which have room for some rows; what was refused has changed the norm's statistics by then."""

    def __init__(self, room, error=RuntimeError):
        super().__init__()
        self.norm, self.line = torch.nn.BatchNorm1d(2, momentum=0.5), Line().model()
        self.room, self.error, self.rows = room, error, []

    def forward(self, x):
        self.rows.append(len(x))
        normed = self.norm(x)
        if len(x) > self.room:
            raise self.error(MESSAGE)
        return self.line(normed)


def learner(room, notes=None, error=RuntimeError, **options):
    note = [].append if notes is None else notes.append
    options = Train(steps=9, **options)
    return Learner.of(Small(room, error), options=options, optimizer=SPEC, ranks=Ranks(), device=CPU, note=note)


def batch_of(step):
    halves = numbers(step * SIZE), numbers(step * SIZE + 4)
    tensors = {name: torch.cat([half[name] for half in halves]) for name in ("x", "y")}
    return Batch(tensors, torch.ones(SIZE), Cursor(), ("origin",) * SIZE)


def learn(one, steps, kept=None):
    one.begin()
    for step in range(steps):
        one.update(one.backward(Line(), batch_of(step), step, 0, kept), batch_of(step), step)


def state(one):
    return {name: tensor.clone() for name, tensor in one.model.state_dict().items()}


@pytest.mark.parametrize("error", [RuntimeError, MemoryError])
def test_a_batch_is_computed_in_the_fewest_micro_batches_that_fit(error):
    """As a training in these micro-batches from the start: nothing is left of the passes that failed."""
    notes = []
    small, right = learner(2, notes, error, halve_on_oom=True), learner(99, accumulate=4)
    learn(small, 3)
    learn(right, 3)

    assert small.model.rows == [8, 4, *[2] * 12]
    assert all(torch.equal(tensor, state(right)[name]) for name, tensor in state(small).items())
    assert notes == [
        "step 1 ran out of memory: from here on, batches are computed in 4 micro-batches of 2 images (train.halve_on_oom)"
    ]


def test_what_hooks_want_is_that_of_the_pass_that_fits():
    kept = KeptValues({"outputs", "norm"})
    learn(learner(4, [], halve_on_oom=True), 1, kept)
    assert [[len(each) for each in kept.values[name]] for name in ("outputs", "norm")] == [[4, 4], [4, 4]]


def test_who_has_not_asked_for_it_learns_what_fits():
    small = learner(3)
    before = state(small)
    with pytest.raises(OutOfMemoryError) as caught:
        learn(small, 1)

    assert str(caught.value) == (
        f"step 1: expected memory for 8 images on cpu, found too little (RuntimeError: {MESSAGE[:-1]}). 2 images at a time "
        "fit: go on with --set train.accumulate=4, which computes a batch in 4 parts, or start with --batch 2. With "
        "train.halve_on_oom this is done at once."
    )
    small.undo.restore()
    assert all(torch.equal(tensor, before[name]) for name, tensor in state(small).items())
    assert small.gradients.accumulate == 1


@pytest.mark.parametrize("halve", [False, True])
def test_what_does_not_fit_at_all_is_said(halve):
    small = learner(0, halve_on_oom=halve)
    with pytest.raises(OutOfMemoryError) as caught:
        learn(small, 1)

    assert str(caught.value) == (
        f"step 1: expected memory for 8 images on cpu, found too little (RuntimeError: {MESSAGE[:-1]}). Not even one image "
        "at a time fits. Make augment.crop smaller, or choose a smaller model."
    )
    assert small.model.rows == [8, 4, 2, 1]


def test_a_single_image_that_norms_refuse_does_not_fit_either():
    small = learner(1, halve_on_oom=True)
    with pytest.raises(OutOfMemoryError, match="Not even one image"):
        learn(small, 1)


def test_other_errors_stay_what_they_are():
    with pytest.raises(ZeroDivisionError):
        learn(learner(2, [], lambda _: ZeroDivisionError("other"), halve_on_oom=True), 1)


def test_ranks_do_not_go_back_in_a_step():
    small = learner(2, [], halve_on_oom=True)
    small.gradients.ranks = SimpleNamespace(world_size=2, sum=lambda tensor: tensor)
    small.gradients.network = small.model
    with pytest.raises(RuntimeError, match=r"^CUDA out of memory"):
        learn(small, 1)
