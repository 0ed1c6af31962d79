from __future__ import annotations

import dataclasses
import itertools
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import batch_slices, plans, shuffles, snapshots
from support.training import recipe

from penstock.assembly import open_experiment
from penstock.errors import PlanError
from penstock.order import Plan, Repeats, Shuffle
from penstock.values import Address, BatchSlice, Cursor, Partition, Snapshot


def one(n, name="a"):
    return Snapshot("test", (Partition(name, 0, n, str(n)),))


def everything(snapshot):
    return Counter(Address(p.name, offset) for p in snapshot.partitions for offset in range(p.start, p.stop))


@given(plans(), st.integers(0, 3))
def test_every_epoch_holds_every_record_once(plan, epoch):
    n = len(plan)

    assert Counter(plan.at(epoch * n + i) for i in range(n)) == everything(plan.snapshot)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 97, 100])
@pytest.mark.parametrize("block", [1, 2, 3, 7, 16, 96, 97, 98, 200])
@pytest.mark.parametrize("window", [1, 2, 3, 8, 100])
def test_every_epoch_holds_every_record_once_by_exhaustion(n, block, window):
    plan = Plan(one(n), 1, Shuffle(block, window))

    for epoch in range(4):
        assert Counter(plan.at(epoch * n + i).offset for i in range(n)) == Counter(range(n))


@given(plans(), st.booleans(), st.integers(0, 300), st.integers(0, 500))
def test_many_positions_at_once_have_the_records_of_each(plan, repeated, first, count):
    if repeated:
        plan = dataclasses.replace(plan, repeats=Repeats.of(1 + np.arange(len(plan)) % 3))
    positions = np.arange(first, first + count)

    found = plan.records(positions)

    assert [plan.address(record) for record in found.tolist()] == [plan.at(position) for position in positions.tolist()]


@given(plans(), st.integers(1, 30), st.integers(1, 8), st.integers(0, 5))
def test_slices_put_together_are_the_global_batch_at_any_number_of_ranks(plan, size, of, k):
    together = [address for rank in range(of) for address in plan.batch(k, size, BatchSlice(rank, of))]

    assert together == [plan.at(k * size + i) for i in range(size)]


@given(batch_slices(), st.integers(1, 40))
def test_slices_differ_by_at_most_one(part, size):
    assert size // part.world_size <= len(part.rows(size)) <= -(-size // part.world_size)


def test_order_is_pinned():
    """Checkpoints hold positions: a position must mean the same record for ever."""
    snapshot = Snapshot("golden", (Partition("a", 0, 7, "x"), Partition("b", 5, 11, "y")))

    assert [plan_origin(Plan(snapshot, 3, Shuffle()), i) for i in range(15)] == GLOBAL
    assert [plan_origin(Plan(snapshot, 3, Shuffle(4, 2)), i) for i in range(15)] == BLOCKS
    assert Plan(snapshot, 3, Shuffle(4, 2)).digest == DIGEST


def plan_origin(plan, i):
    return plan.at(i).origin


GLOBAL = ["b#5", "b#8", "a#6", "a#0", "a#4", "a#2", "a#5", "a#1", "b#10", "b#6", "a#3", "b#7", "b#9", "b#6", "b#8"]


BLOCKS = ["a#1", "b#10", "a#2", "a#0", "b#8", "a#4", "b#9", "a#3", "b#6", "b#7", "b#5", "a#6", "a#5", "b#7", "a#5"]


DIGEST = "c771320b59a2b03f425029f463f31f0b"


def test_natural_order_is_natural():
    snapshot = Snapshot("test", (Partition("a", 2, 4, "x"), Partition("b", 0, 0, "y"), Partition("c", 0, 2, "z")))

    assert [plan_origin(Plan(snapshot), i) for i in range(5)] == ["a#2", "a#3", "c#0", "c#1", "a#2"]


@given(snapshots(), shuffles)
def test_epochs_and_seeds_differ(snapshot, shuffle):
    if len(snapshot) < 12:
        return
    n = len(snapshot)
    orders = [
        tuple(Plan(snapshot, seed, shuffle).at(epoch * n + i) for i in range(n)) for seed in (0, 1) for epoch in (0, 1)
    ]

    assert len(set(orders)) == 4


def test_blocks_are_read_together():
    """With blocks of 16 and windows of 4, 64 positions in a row touch at most 4 runs of records (5 where one wraps)."""
    plan = Plan(one(1024), 5, Shuffle(16, 4))

    for start in range(0, 1024, 64):
        offsets = sorted(plan.at(start + i).offset for i in range(64))
        runs = 1 + sum(b - a > 1 for a, b in itertools.pairwise(offsets))
        assert runs <= 5


def test_a_billion_records_need_no_table():
    """A plan over a billion records gives any position from a few kilobytes."""
    snapshot = Snapshot("big", tuple(Partition(f"p{i}", 0, 10**6, str(i)) for i in range(1000)))
    plan = Plan(snapshot, 1, Shuffle())
    tracemalloc.start()
    try:
        seen = len({plan.at(i * 7_919_333) for i in range(1000)})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert seen > 990
    assert peak < 2**20


def test_digest_tells_orders_apart():
    snapshot = one(10)
    digests = {
        Plan(snapshot, 1, Shuffle()).digest,
        Plan(snapshot, 2, Shuffle()).digest,
        Plan(snapshot, 1, None).digest,
        Plan(snapshot, 1, Shuffle(2, 1)).digest,
        Plan(snapshot, 1, Shuffle(1, 2)).digest,
        Plan(one(11), 1, Shuffle()).digest,
        Plan(one(10, "b"), 1, Shuffle()).digest,
    }

    assert len(digests) == 7


def test_cursor_of_another_plan_is_refused():
    plan = Plan(one(10), 1, Shuffle())
    other = Plan(one(10), 2, Shuffle())

    assert plan.start(Cursor(5, plan.digest)) == 5
    assert plan.start(Cursor()) == 0
    with pytest.raises(PlanError) as caught:
        plan.start(Cursor(1234, other.digest))
    assert str(caught.value) == (
        f"position 1,234 of test: expected a cursor of this order of records ({plan.digest}), found a cursor of another "
        f"order ({other.digest}). The records, the seed or the shuffle changed since the checkpoint. Restore them, or start a new run from its "
        "weights with --init RUN."
    )


def test_empty_snapshots_and_senseless_shuffles_are_refused():
    with pytest.raises(PlanError) as caught:
        Plan(one(0))
    assert str(caught.value) == (
        "test: expected at least one record to train on, found none. Check that the right split was packed and named."
    )
    with pytest.raises(ValueError, match="a shuffle needs a block and a window of at least 1, not 0 and 1"):
        Shuffle(0)
    with pytest.raises(ValueError, match="rank 2 is not one of 2 ranks"):
        BatchSlice(2, 2)


@given(plans(), st.integers(0, 500))
def test_the_reach_of_a_position_is_what_its_window_wants(plan, position):
    stop, runs = plan.reach(position)
    addresses = [(name, offset) for name, start, end in runs for offset in range(start, end)]
    number = position // len(plan)
    inside = [p for p in range(number * len(plan), (number + 1) * len(plan)) if tuple(plan.at(p)) in set(addresses)]

    assert len(set(addresses)) == len(addresses) == len(inside)
    assert inside[0] <= position < stop == inside[-1] + 1
    assert inside == list(range(inside[0], stop))


def test_a_cursor_names_the_plan_that_it_counts_in(packed):
    from penstock.errors import PlanError

    feeds = [open_experiment(dataclasses.replace(recipe(packed.folder), seed=seed)).training_feed() for seed in (3, 4)]
    batches = feeds[0].batches()
    cursor = next(batches).cursor
    batches.close()

    assert (cursor.position, cursor.plan) == (4, feeds[0].plan.digest)
    with pytest.raises(PlanError, match="found a cursor of another order"):
        next(feeds[1].batches(cursor))
