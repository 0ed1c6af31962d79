from __future__ import annotations

import pytest
import torch
from support.line import CPU, SPEC, Line, numbers, session
from torch import nn

from penstock.errors import RecipeError
from penstock.feed import Batch
from penstock.ranks import Ranks
from penstock.session import Learner
from penstock.settings import Train
from penstock.values import Cursor


class TestCuts:
    """Where micro-batches begin and end."""

    @pytest.mark.parametrize(
        ("rows", "size", "pieces", "expected"),
        [
            (6, 6, 4, [(0, 1), (1, 3), (3, 4), (4, 6)]),
            (6, 6, 1, [(0, 6)]),
            (2, 2, 5, [(0, 1), (1, 2)]),
            (5, 6, 4, [(0, 0), (0, 2), (2, 2), (2, 5)]),  # beside holes, whole pairs
            (7, 8, 2, [(0, 2), (2, 7)]),
            (0, 4, 2, [(0, 0), (0, 0)]),
        ],
    )
    def test_are_as_many_whatever_is_left(self, tmp_path, rows, size, pieces, expected):
        assert session(tmp_path, accumulate=pieces).learner.gradients.cuts(rows, size) == expected


class Dropping(Line):
    """Learns with dropout; samples of weight 0 are left out."""

    def model(self):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(2, 16), nn.Dropout(0.5), nn.Linear(16, 1))

    def mask_padding(self, tensors, weight):
        return tensors


def learner(model, ranks=None, accumulate=1):
    options = Train(steps=9, accumulate=accumulate)
    made = Learner.of(model, options=options, optimizer=SPEC, ranks=ranks or Ranks(), device=CPU, seed=4)
    made.begin()
    return made


def gradients(accumulate=1, step=0, first=8, rows=slice(None), weight=None):
    """Of some rows of a batch whose first sample has a position."""
    tensors = {name: tensor[rows] for name, tensor in numbers(8).items()}
    size = len(tensors["y"])
    batch = Batch(tensors, torch.ones(size) if weight is None else weight, Cursor(12), ("n",) * size, first)
    task = Dropping()
    made = learner(task.model(), accumulate=accumulate)
    made.backward(task, batch, step, 0)
    return torch.cat([parameter.grad.flatten() for parameter in made.model.parameters()])


class TestDropout:
    """What is dropped of a sample follows from its position and the step."""

    @pytest.mark.parametrize("accumulate", [2, 3, 4])
    def test_is_the_same_in_micro_batches(self, accumulate):
        torch.testing.assert_close(gradients(accumulate), gradients())

    def test_is_that_of_the_samples_of_a_share(self):
        whole = gradients()
        parts = gradients(rows=slice(0, 1)) + 3 * gradients(first=9, rows=slice(1, 4))
        torch.testing.assert_close(parts / 4, whole)

    def test_is_that_of_the_samples_beside_holes(self):
        beside = gradients(weight=torch.tensor([0.0, 1.0, 0.0, 1.0]))
        alone = gradients(first=9, rows=slice(1, 2)) + gradients(first=11, rows=slice(3, 4))
        torch.testing.assert_close(beside, alone / 2)

    def test_is_another_at_another_step_and_position(self):
        found = [gradients(), gradients(step=1), gradients(first=12)]
        assert not any(torch.allclose(one, other) for one, other in zip(found, [*found[1:], found[0]], strict=True))


class OneOfTwo(Ranks):
    """One of two ranks, of which the other has nothing to add."""

    def __init__(self):
        super().__init__(0, 2)

    def sum(self, tensor):
        return tensor

    def wrap(self, model, device):
        return model


def test_ranks_name_parameters_that_get_no_gradient():
    """Others wait for them in vain."""

    class Spare(nn.Linear):
        def __init__(self):
            super().__init__(2, 1)
            self.spare = nn.Linear(3, 3)

    batch = Batch(numbers(0), torch.ones(4), Cursor(4), ("n",) * 4)
    learner(Spare()).backward(Line(), batch, 0, 0)
    with pytest.raises(RecipeError) as caught:
        learner(Spare(), OneOfTwo()).backward(Line(), batch, 0, 0)
    frozen = Spare()
    frozen.spare.requires_grad_(False)
    learner(frozen, OneOfTwo()).backward(Line(), batch, 0, 0)

    assert str(caught.value) == (
        "model.name: expected a model that uses all its parameters, as several ranks add up the gradients of each, found 2 "
        "parameters without a gradient, such as spare.weight. Remove these from the model, or set their requires_grad to "
        "False."
    )
