from __future__ import annotations

import pytest
import torch

from penstock.ranks import Ranks
from penstock.session.requests import Due, Requests, due_after
from penstock.settings import Train

CPU = torch.device("cpu")
NOTHING = Due(stop=False, save=False, evaluate=False)


class OneMoreAsks(Ranks):
    """Another rank, which asks for the same as this one, and to be saved."""

    def __init__(self):
        super().__init__(0, 2)

    def sum(self, tensor):
        return 2 * tensor + torch.tensor([0, 1, 0])


def test_saves_and_evaluations_are_asked_for_once_and_stops_for_good():
    asked = Requests(stop="enough", save=True, evaluate=True)

    assert asked.agree(Ranks(), CPU, interrupted=False) == (True, True, True)
    assert asked == Requests(stop="enough")
    assert asked.agree(Ranks(), CPU, interrupted=False) == (True, False, False)


def test_a_signal_is_a_request_to_stop():
    asked = Requests()

    assert asked.agree(Ranks(), CPU, interrupted=True) == (True, False, False)
    assert asked.agree(Ranks(), CPU, interrupted=False) == NOTHING


def test_what_any_rank_was_asked_for_all_do():
    assert Requests(evaluate=True).agree(OneMoreAsks(), CPU, interrupted=False) == (False, True, True)


@pytest.mark.parametrize(
    ("step", "asked", "last", "due"),
    [
        (1, NOTHING, False, (False, False, False)),
        (2, NOTHING, False, (False, True, False)),
        (3, NOTHING, False, (False, True, True)),
        (1, NOTHING, True, (False, True, True)),
        (1, Due(stop=True, save=False, evaluate=False), False, (True, True, False)),
        (1, Due(stop=False, save=True, evaluate=False), False, (False, True, False)),
        (1, Due(stop=False, save=False, evaluate=True), False, (False, True, True)),
    ],
)
def test_what_is_evaluated_or_stopped_is_saved(step, asked, last, due):
    assert due_after(step, Train(steps=9, save_every=2, evaluate_every=3), asked, last=last) == due
