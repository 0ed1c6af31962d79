from __future__ import annotations

import torch
from support.line import BATCH, CPU, SPEC, Line, numbers

from penstock.feed import Batch
from penstock.ranks import Ranks
from penstock.session import Learner
from penstock.settings import Train
from penstock.values import Cursor


def learner(**options):
    return Learner.of(Line().model(), options=Train(steps=9, **options), optimizer=SPEC, ranks=Ranks(), device=CPU)


def learn(one, steps, start=0):
    for step in range(start, start + steps):
        tensors = numbers(step * BATCH)
        batch = Batch(tensors, torch.ones(BATCH), Cursor(), ("origin",) * BATCH)
        loss = one.backward(Line(), batch, step, 0)
        one.update(loss, batch, step)


def test_what_is_evaluated_is_the_average_where_there_is_one():
    assert (plain := learner()).evaluated is plain.model
    averaged = learner(ema_decay=0.5)
    assert averaged.evaluated is averaged.ema.model
    assert not averaged.evaluated.training


def test_what_is_put_back_learns_as_if_nothing_had_been():
    whole, cut, begun = (learner(ema_decay=0.5) for _ in range(3))
    learn(whole, 5)
    learn(cut, 3)
    begun.load(cut.tensors(), "checkpoint")
    learn(begun, 2, start=3)

    assert set(whole.tensors()) == {"model", "optimizer", "ema"}
    for name, tensors in whole.tensors().items():
        assert tensors.keys() == begun.tensors()[name].keys()
        assert all(torch.equal(tensor, begun.tensors()[name][key]) for key, tensor in tensors.items()), name


def test_frozen_norms_stay_in_evaluation_mode():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4))
    for frozen in (True, False):
        one = Learner.of(
            model, options=Train(steps=9, freeze_bn=frozen), optimizer=SPEC, ranks=Ranks(), device=torch.device("cpu")
        )
        one.begin()
        assert (one.model.training, one.model[1].training) == (True, not frozen)
