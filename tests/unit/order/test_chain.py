from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import shuffles, snapshots

from penstock.errors import PlanError
from penstock.order import Chain, Shuffle, Stage, seen, trimmed
from penstock.values import Address, Cursor, Partition, Snapshot


def one(start, stop, name="a"):
    return Snapshot("test", (Partition(name, start, stop, f"{start}-{stop}"),))


@st.composite
def chains(draw):
    """Up to four stages over growing partitions, each of whole batches."""
    batch = draw(st.integers(1, 9))
    mixed = draw(st.integers(0, batch - 1))
    stages, at = [], 0
    for number in range(draw(st.integers(1, 4))):
        older = one(draw(st.integers(0, at - 1)), at) if number and draw(st.booleans()) else None
        fresh = batch - (mixed if older else 0)
        size = fresh * draw(st.integers(1, 12))
        stages.append(Stage(one(at, at + size), older))
        at += size
    return Chain(tuple(stages), batch, mixed, draw(st.integers(0, 99)), draw(shuffles))


def pieces(chain):
    """Every stage with its first position and the one behind its last."""
    edges = [0]
    for stage in chain.stages:
        edges.append(edges[-1] + len(stage.new) // chain.fresh(stage) * chain.batch)
    return [(stage, a, b) for stage, (a, b) in zip(chain.stages, pairwise(edges), strict=True)]


@given(chains())
def test_every_new_record_comes_once_in_its_own_stage(chain):
    assert len(chain) == chain.end == pieces(chain)[-1][2]
    for number, (stage, first, stop) in enumerate(pieces(chain)):
        found = [chain.at(position) for position in range(first, stop)]
        new = Counter(address for address in found if address.offset >= stage.new.partitions[0].start)
        assert new == everything(stage.new)
        assert {chain.stage(position) for position in range(first, stop)} == {number}
        epochs = [number + (position - first) / (stop - first) for position in range(first, stop)]
        assert [chain.epoch(position) for position in range(first, stop)] == pytest.approx(epochs)


@given(chains())
def test_every_batch_holds_the_same_number_of_older_records_without_repeating_them_too_soon(chain):
    for stage, first, stop in pieces(chain):
        begin = stage.new.partitions[0].start
        drawn = []
        for k in range(first, stop, chain.batch):
            places = [chain.at(position) for position in range(k, k + chain.batch)]
            older = [address for address in places if address.offset < begin]
            assert len(older) == (chain.mixed if stage.older else 0)
            drawn += older
        if stage.older:
            size = len(stage.older)
            for at in range(0, len(drawn) - size + 1, size):
                assert Counter(drawn[at : at + size]) == everything(stage.older)
            assert set(drawn) <= set(everything(stage.older))


def test_older_records_are_spread_over_the_batch_so_that_every_rank_gets_some():
    chain = Chain((Stage(one(0, 8)), Stage(one(8, 20), one(0, 8))), 8, 4)

    assert [chain.at(8 + place).offset < 8 for place in range(8)] == [False, True] * 4


@given(chains(), st.integers(1, 40))
def test_what_is_reached_ahead_holds_everything_and_gets_on(chain, natural):
    position, held = 0, set()
    while position < chain.end:
        further, runs = chain.reach(position, natural)
        assert further > position
        wanted = Counter(Address(name, offset) for name, start, stop in runs for offset in range(start, stop))
        begin = chain.stages[chain.stage(position)].new.partitions[0].start
        assert all(count == 1 for address, count in wanted.items() if address.offset >= begin)  # no window twice
        held |= set(wanted)
        assert {chain.at(p) for p in range(position, min(further, chain.end))} <= held
        position = further
    assert position == chain.end


@given(chains())
def test_a_longer_chain_has_the_same_beginning(chain):
    extended = Chain(
        (*chain.stages, Stage(one(10_000, 10_000 + chain.batch))), chain.batch, chain.mixed, chain.seed, chain.shuffle
    )

    assert [extended.at(p) for p in range(chain.end)] == [chain.at(p) for p in range(chain.end)]
    assert extended.digest != chain.digest
    assert extended.end == chain.end + chain.batch


def test_order_is_pinned():
    """Checkpoints hold positions: a position must mean the same record for ever."""
    chain = Chain((Stage(one(0, 8)), Stage(one(8, 17), one(2, 8))), 4, 1, 3, Shuffle(2, 2))

    assert [chain.at(p).offset for p in range(chain.end)] == PINNED
    assert chain.digest == DIGEST


def test_the_end_and_what_lies_behind_it():
    chain = Chain((Stage(one(0, 8)),), 4)

    assert (chain.end, chain.epoch(0), chain.epoch(4), chain.epoch(8)) == (8, 0.0, 0.5, 1.0)
    with pytest.raises(IndexError, match="position 8 lies behind the end of the chain, 8"):
        chain.at(8)
    assert (Chain((), 4).end, len(Chain((), 4)), Chain((), 4).epoch(0)) == (0, 0, 0.0)


def test_stages_of_broken_batches_are_refused():
    with pytest.raises(ValueError, match="stage 0 holds 7 records, no whole batches of 4"):
        Chain((Stage(one(0, 7)),), 4)
    with pytest.raises(ValueError, match="4 older records do not leave room for new ones in a batch of 4"):
        Chain((), 4, 4)


def test_a_cursor_of_another_chain_is_refused():
    chain = Chain((Stage(one(0, 8)),), 4, seed=1)
    assert chain.start(Cursor(8, chain.digest)) == 8
    longer = Chain((*chain.stages, Stage(one(8, 12))), 4, seed=1)
    assert [longer.start(Cursor(position, chain.digest)) for position in (0, 4, 8)] == [0, 4, 8]
    assert longer.start(Cursor(0, Chain((), 4, seed=1).digest)) == 0
    with pytest.raises(PlanError, match="position 12 of 2 snapshots"):
        longer.start(Cursor(12, chain.digest))
    other = Chain((Stage(one(0, 8)),), 4, seed=2)
    with pytest.raises(PlanError) as caught:
        other.start(Cursor(4, chain.digest))
    assert str(caught.value) == (
        f"position 4 of 1 snapshots: expected a cursor of this order of records ({other.digest}), up to 8, found a cursor of "
        f"another order ({chain.digest}). The snapshots, the seed or the shuffle changed since the checkpoint. Restore them, or start a new run from its "
        "weights with --init RUN."
    )


@given(snapshots(), st.integers(1, 50))
def test_trimming_leaves_a_multiple_and_cuts_the_ends_of_the_largest(snapshot, multiple):
    cut = trimmed(snapshot, multiple)
    stops = {partition.name: partition.stop for partition in cut.partitions}

    assert len(cut) == len(snapshot) // multiple * multiple
    before = {partition.name: partition for partition in snapshot.partitions}
    assert all(before[partition.name].start == partition.start for partition in cut.partitions)
    lost = {name: part.stop - stops.get(name, part.start) for name, part in before.items()}
    largest = max(len(partition) for partition in snapshot.partitions)
    if largest >= multiple:  # then one partition alone is cut, one of the largest
        assert all(len(before[name]) == largest for name, count in lost.items() if count)
        assert sum(count > 0 for count in lost.values()) <= 1


def test_what_was_seen_is_put_together_over_stages():
    stages = (
        Stage(Snapshot("t", (Partition("a", 3, 5, "x"),))),
        Stage(Snapshot("t", (Partition("a", 5, 9, "y"), Partition("b", 0, 4, "z")))),
    )

    assert seen(stages) == (Partition("a", 3, 9, "y"), Partition("b", 0, 4, "z"))
    assert seen(stages[1:], seen(stages[:1])) == seen(stages)


def test_a_stage_is_read_from_its_older_records_to_its_new_ones():
    older = Snapshot("t", (Partition("a", 2, 5, "x"), Partition("c", 1, 2, "x")))
    stage = Stage(Snapshot("t", (Partition("a", 5, 9, "y"), Partition("b", 0, 4, "z"))), older)

    assert stage.together.partitions == (
        Partition("a", 2, 9, "y"),
        Partition("c", 1, 2, "x"),
        Partition("b", 0, 4, "z"),
    )


PINNED = [5, 1, 4, 0, 6, 3, 7, 2, 16, 15, 9, 5, 10, 14, 12, 6, 13, 11, 8, 7]


DIGEST = "8ac3f5ce1e212818f4cbe6dd38e857c9"


def everything(snapshot):
    return Counter(Address(p.name, offset) for p in snapshot.partitions for offset in range(p.start, p.stop))
