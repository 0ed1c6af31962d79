from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from support.errors import refused

from penstock.order import Plan, Repeats, Shuffle, repeat_factors, whole_counts
from penstock.values import Cursor, Partition, Snapshot

SNAPSHOT = Snapshot("memory", (Partition("a", 5, 18, "x"), Partition("b", 0, 9, "y"), Partition("c", 2, 3, "z")))
COUNTS = np.random.default_rng(0).integers(1, 5, len(SNAPSHOT))
ADDRESSES = [(p.name, offset) for p in SNAPSHOT.partitions for offset in range(p.start, p.stop)]


def plan(shuffle=None, seed=3):
    return Plan(SNAPSHOT, seed, shuffle, Repeats.of(COUNTS))


@pytest.mark.parametrize("shuffle", [None, Shuffle(), Shuffle(4, 3), Shuffle(100, 2), Shuffle(1, 5)])
def test_every_record_comes_as_often_as_is_said_in_every_epoch(shuffle):
    ordered = plan(shuffle)
    expected = Counter(dict(zip(ADDRESSES, COUNTS.tolist(), strict=True)))

    assert len(ordered) == COUNTS.sum()
    for epoch in range(3):
        places = range(epoch * len(ordered), (epoch + 1) * len(ordered))
        assert Counter(tuple(ordered.at(place)) for place in places) == expected


def test_epochs_differ():
    ordered = plan(Shuffle())
    first, second = ([ordered.at(k + e * len(ordered)) for k in range(len(ordered))] for e in range(2))

    assert first != second
    assert ordered.epoch(len(ordered)) == 1


@pytest.mark.parametrize("shuffle", [None, Shuffle(8, 1), Shuffle(4, 3)])
def test_what_is_wanted_together_holds_what_comes(shuffle):
    ordered = plan(shuffle)
    position = 0
    while position < 2 * len(ordered):
        end, runs = ordered.reach(position, 8)
        held = {(name, offset) for name, start, stop in runs for offset in range(start, stop)}
        assert {tuple(ordered.at(k)) for k in range(position, end)} <= held
        assert held <= set(ADDRESSES)
        position = end


def test_other_repeats_are_another_order():
    other = Plan(SNAPSHOT, 3, Shuffle(), Repeats.of(COUNTS + 1))
    plain = Plan(SNAPSHOT, 3, Shuffle())

    assert len({plan(Shuffle()).digest, other.digest, plain.digest}) == 3
    message = (
        f"position 4 of memory: expected a cursor of this order of records ({other.digest}), found a cursor of another order "
        f"({plain.digest}). The records, the seed or the shuffle changed since the checkpoint. Restore them, or start a new "
        "run from its weights with --init RUN."
    )
    refused(other.start, Cursor(4, plain.digest), message=message)


def test_factors_are_those_of_the_paper():
    """Class 0 is in all ten records, class 1 in one, class 2 in four: at 0.4 the second comes twice as often."""
    present = np.zeros((10, 3), bool)
    present[:, 0], present[0, 1], present[1:5, 2] = True, True, True

    assert np.allclose(repeat_factors(present, 0.4), [2.0] + [1.0] * 9)
    assert np.allclose(repeat_factors(present, 1.0), [10**0.5] + [2.5**0.5] * 4 + [1.0] * 5)
    assert np.allclose(repeat_factors(present, 0.05), 1.0)
    assert np.allclose(repeat_factors(np.zeros((4, 2), bool), 1.0), 1.0)


def test_whole_numbers_are_factors_on_average_and_follow_from_the_seed():
    factors = np.full(20_000, 2.3)
    counts = whole_counts(factors, 7)

    assert set(counts.tolist()) == {2, 3}
    assert abs(counts.mean() - 2.3) < 0.01
    assert np.array_equal(counts, whole_counts(factors, 7))
    assert not np.array_equal(counts, whole_counts(factors, 8))
    assert np.array_equal(whole_counts(np.array([1.0, 4.0]), 1), [1, 4])
    assert whole_counts(np.full(8, 1.5), 0).tolist() == whole_counts(np.full(9, 1.5), 0).tolist()[:8]
