from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter, deque
from types import MappingProxyType

import numpy as np
import pytest
from support.feeds import Text, feed, memory, take
from support.training import recipe

from penstock.assembly import open_experiment
from penstock.feed import Feed, Field
from penstock.images.color import Jitter
from penstock.order import Plan, Shuffle
from penstock.settings import Augment
from penstock.settings.views import ResizedCrop, ScaleCrop
from penstock.sources import MemorySource
from penstock.tasks import PrepareSegmentation
from penstock.values import BatchSlice, Cursor


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
@pytest.mark.parametrize(("n", "batch"), [(23, 8), (7, 11), (40, 10), (1, 9)])
def test_restore_at_every_position_gives_the_same_bytes(ranks, n, batch):
    """For every rank: a feed restored at every batch of two epochs continues with the bytes of one that ran through."""
    total = 2 * n // batch + 3
    for rank in range(ranks):
        part = BatchSlice(rank, ranks)
        whole = take(feed(n, batch, batch_slice=part).batches(), total)
        for k in range(total):
            cursor = whole[k - 1][2] if k else Cursor()
            assert take(feed(n, batch, batch_slice=part).batches(cursor), min(3, total - k)) == whole[k : k + 3]


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("prefetch", [1, 2, 7])
def test_threads_and_look_ahead_change_nothing(threads, prefetch):
    expected = take(feed(threads=1, prefetch=1).batches(), 20)

    assert take(feed(threads=threads, prefetch=prefetch).batches(), 20) == expected


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
def test_ranks_together_see_the_same_global_batches(ranks):
    alone = take(feed(batch=9).batches(), 12)
    slices = [take(feed(batch=9, batch_slice=BatchSlice(rank, ranks)).batches(), 12) for rank in range(ranks)]

    for k, (tensors, weight, cursor, origins) in enumerate(alone):
        assert tuple(itertools.chain(*(part[k][3] for part in slices))) == origins
        assert b"".join(part[k][1] for part in slices) == weight
        assert {part[k][2] for part in slices} == {cursor}
        for name in tensors:
            assert b"".join(part[k][0][name] for part in slices) == tensors[name]


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_a_batch_knows_the_position_of_its_first_sample(ranks):
    """With their lengths, the slices of a batch are its positions, in order."""
    for start in (0, 9, 27):
        slices = [
            next(feed(batch=9, batch_slice=BatchSlice(rank, ranks)).batches(Cursor(start))) for rank in range(ranks)
        ]
        positions = [part.first + row for part in slices for row in range(len(part))]
        assert positions == list(range(start, start + 9))


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
@pytest.mark.parametrize(("n", "batch"), [(23, 8), (8, 8), (1, 9), (24, 8)])
def test_a_walk_gives_every_record_once_and_pads_the_rest(ranks, n, batch):
    walks = [take(feed(n, batch, batch_slice=BatchSlice(r, ranks), shuffle=None).walk(), 100) for r in range(ranks)]
    origins = Counter(origin for walk in walks for batch_ in walk for origin in batch_[3])
    weights = np.concatenate([np.frombuffer(b[1], np.float32) for walk in walks for b in walk])
    steps = -(-n // batch)

    assert {len(walk) for walk in walks} == {steps}
    assert origins.pop("", 0) == steps * batch - n
    assert set(origins.values()) == {1}
    assert len(origins) == n == weights.sum()


def test_one_sample_is_the_one_in_the_batch():
    fed = feed()
    for k, batch in enumerate(itertools.islice(fed.batches(), 12)):
        for row in range(5):
            sample = fed[5 * k + row]
            assert sample.origin == batch.origins[row]
            assert sample.arrays["text"].tobytes() == batch.tensors["text"][row].numpy().tobytes()
            assert sample.arrays["draw"] == batch.tensors["draw"][row].item()


def test_augmentation_differs_between_epochs_and_positions():
    n = 10
    draws = [batch.tensors["draw"].clone() for batch in itertools.islice(feed(n, n).batches(), 4)]

    assert len({float(value) for draw in draws for value in draw}) == 4 * n


def test_wrappers_that_read_ahead_are_safe():
    """As Lightning's, Accelerate's and DALI's do: a queue of batches that another loop takes from."""
    source, ahead = feed(), deque(maxlen=4)
    for batch in itertools.islice(source.batches(), 20):
        ahead.append(batch)
        first = ahead[0].cursor.position - source.batch
        assert bytes(ahead[0].tensors["text"][0].numpy()) == bytes(source[first].arrays["text"])


def test_the_meter_counts_batches_and_waiting():
    fed = feed()
    take(fed.batches(), 7)

    assert fed.meter.batches == 7
    assert 0 <= fed.meter.ready <= 7
    assert fed.meter.waited >= 0


@pytest.mark.parametrize("view", [ScaleCrop(), ResizedCrop()])
@pytest.mark.parametrize("ranks", [1, 3])
def test_images_with_all_augmentation_restore_byte_for_byte(packed, view, ranks):
    """The real prepare: decode, scale, crop, flip, rotate, jitter; restored at every step, at several thread counts."""
    augment = Augment((48, 64), view, rotate=15, jitter=Jitter(0.2, 0.2, 0.2, 0.05))
    source = packed.source("train")
    plan = Plan(source.snapshot(), 4, Shuffle())
    prepare = PrepareSegmentation(6, 255, (124, 116, 104), augment)

    def make(rank, threads, prefetch):
        return Feed(
            plan, source, prepare, batch=8, batch_slice=BatchSlice(rank, ranks), threads=threads, prefetch=prefetch
        )

    for rank in range(ranks):
        whole = take(make(rank, 1, 1).batches(), 6)
        for k, threads in itertools.product(range(6), (1, 2, 5)):
            cursor = whole[k - 1][2] if k else Cursor()
            assert take(make(rank, threads, threads).batches(cursor), 6 - k) == whole[k:]
        assert len({batch[0]["image"] for batch in whole}) == 6


@pytest.mark.parametrize(("batch", "threads", "most"), [(8, 1, 2), (8, 4, 2), (2, 4, 4), (1, 3, 6), (64, 2, 2)])
def test_so_few_batches_are_prepared_ahead_as_keep_threads_at_work(batch, threads, most):
    """Records that were asked for while the first batch is looked at, and nothing more is taken."""
    asked, source = Counter(), memory(400)
    read = source.read
    source.read = lambda name, start, stop: (asked.update([(name, start)]), read(name, start, stop))[1]
    plain = Feed(Plan(source.snapshot()), source, Text(), batch=batch, threads=threads)
    with contextlib.closing(plain.batches()) as batches:
        next(batches)
        end = time.monotonic() + 5
        while asked.total() < batch * (1 + most) and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.05)

        assert asked.total() == batch * (1 + most)


def test_one_feed_begins_at_any_place_as_often_as_it_is_asked(packed):
    feed = open_experiment(recipe(packed.folder)).training_feed()
    whole = [(batch.origins, batch.cursor) for batch, _ in zip(feed.batches(), range(6), strict=False)]
    for k in (4, 0, 2):
        batches = feed.batches(whole[k][1])
        assert next(batches).origins == whole[k + 1][0]
        batches.close()


def test_samples_are_composed_of_records_of_their_own_batch():
    """So that a batch is the same on one rank and on many, and after a resume."""

    class Composes:
        fields = MappingProxyType({"own": Field((), "int64"), "others": Field((3,), "int64")})

        def __call__(self, record, generator, out):
            raise AssertionError

        def partners(self, generator):
            return 3

        def compose(self, records, generator, out):
            own, *others = (int(record.payload) for record in records)
            out["own"][...], out["others"][...] = own, others

    source = MemorySource({"a": [str(number).encode() for number in range(40)]})
    feed = Feed(Plan(source.snapshot(), 3, Shuffle()), source, Composes(), batch=8)
    seen = set()
    for batch in itertools.islice(feed.batches(), 5):
        own, others = ({*batch.tensors[name].flatten().tolist()} for name in ("own", "others"))
        assert others <= own
        seen |= others

    assert len(seen) > 20
