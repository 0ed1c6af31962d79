"""The feed, proved by exhaustion: every position, every restore, every number of ranks, all bytes."""

from __future__ import annotations

import contextlib
import gc
import itertools
import threading
import time
from collections import Counter, deque

import numpy as np
import pytest

from penstock.errors import CorruptRecord, PlanError
from penstock.feed import Feed, Field
from penstock.images.color import Jitter
from penstock.order import Plan, Shuffle
from penstock.sources import Fault, MemorySource, waiting
from penstock.tasks import Augment, PrepareSegmentation
from penstock.values import Cursor, Share


class Text:
    """A prepare without images: the payload's bytes, and one random number."""

    fields = {"text": Field((8,), "uint8"), "draw": Field((), "float64")}  # noqa: RUF012 - a constant

    def __call__(self, record, generator, out):
        if record.payload == b"bad":
            message = "no good"
            raise ZeroDivisionError(message)
        out["text"][:] = np.frombuffer(record.payload.ljust(8)[:8], np.uint8)
        out["draw"][...] = generator.uniform() if generator else -1.0


def memory(n):
    half = n // 2
    return MemorySource({"a": [b"a%d" % i for i in range(half)], "b": [b"b%d" % i for i in range(n - half)]})


def feed(n=23, batch=5, *, share=Share(), threads=2, ahead=2, shuffle=Shuffle(3, 2), seed=1, source=None):  # noqa: B008
    source = source or memory(n)
    plan = Plan(source.snapshot(), seed, shuffle)
    return Feed(plan, source, Text(), batch=batch, share=share, threads=threads, ahead=ahead)


def frozen(batch):
    """All that a batch holds, as values that outlive it."""
    tensors = {name: tensor.numpy().tobytes() for name, tensor in batch.tensors.items()}
    return tensors, batch.weight.numpy().tobytes(), batch.cursor, batch.origins


def take(iterator, count):
    return [frozen(batch) for batch in itertools.islice(iterator, count)]


def num_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("penstock-feed")]


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
@pytest.mark.parametrize(("n", "batch"), [(23, 8), (7, 11), (40, 10), (1, 9)])
def test_restore_at_every_position_gives_the_same_bytes(ranks, n, batch):
    """For every rank: a feed restored at every batch of two epochs continues with the bytes of one that ran through."""
    total = 2 * n // batch + 3
    for rank in range(ranks):
        share = Share(rank, ranks)
        whole = take(feed(n, batch, share=share).batches(), total)
        for k in range(total):
            cursor = whole[k - 1][2] if k else Cursor()
            assert take(feed(n, batch, share=share).batches(cursor), min(3, total - k)) == whole[k : k + 3]


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("ahead", [1, 2, 7])
def test_threads_and_look_ahead_change_nothing(threads, ahead):
    expected = take(feed(threads=1, ahead=1).batches(), 20)

    assert take(feed(threads=threads, ahead=ahead).batches(), 20) == expected


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
def test_ranks_together_see_the_same_global_batches(ranks):
    alone = take(feed(batch=9).batches(), 12)
    shares = [take(feed(batch=9, share=Share(rank, ranks)).batches(), 12) for rank in range(ranks)]

    for k, (tensors, weight, cursor, origins) in enumerate(alone):
        assert tuple(itertools.chain(*(share[k][3] for share in shares))) == origins
        assert b"".join(share[k][1] for share in shares) == weight
        assert {share[k][2] for share in shares} == {cursor}
        for name in tensors:
            assert b"".join(share[k][0][name] for share in shares) == tensors[name]


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
@pytest.mark.parametrize(("n", "batch"), [(23, 8), (8, 8), (1, 9), (24, 8)])
def test_a_walk_gives_every_record_once_and_pads_the_rest(ranks, n, batch):
    walks = [take(feed(n, batch, share=Share(r, ranks), shuffle=None).walk(), 100) for r in range(ranks)]
    origins = Counter(origin for walk in walks for batch_ in walk for origin in batch_[3])
    weights = np.concatenate([np.frombuffer(b[1], np.float32) for walk in walks for b in walk])
    steps = -(-n // batch)

    assert {len(walk) for walk in walks} == {steps}
    assert origins.pop("", 0) == steps * batch - n
    assert set(origins.values()) == {1}
    assert len(origins) == n == weights.sum()


def test_padding_holds_nothing_of_older_batches():
    last = take(feed(9, 4, shuffle=None, ahead=1).walk(), 9)[-1]

    assert last[3] == ("b#4", "", "", "")
    assert last[0]["text"][8:] == bytes(24)


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


def test_memory_is_used_again_once_a_batch_is_dropped():
    """Those ahead, the one at hand, and the one that is asked for meanwhile."""
    pointers = [b.tensors["text"].data_ptr() for b in itertools.islice(feed(ahead=3).batches(), 40)]

    assert len(set(pointers)) <= 5


@pytest.mark.parametrize("keep", [lambda t: t, lambda t: t[1:], lambda t: t.numpy(), lambda t: memoryview(t.numpy())])
def test_a_batch_owns_its_memory_until_it_and_all_views_of_it_are_gone(keep):
    """All of many batches are kept, by themselves or by a view; each still holds its own samples at the end."""
    source = feed(ahead=2, threads=2)
    kept = [(keep(b.tensors["text"]), b.weight, b.cursor.position) for b in itertools.islice(source.batches(), 12)]
    for view, weight, position in kept:
        fresh = [source[place].arrays["text"] for place in range(position - source.batch, position)]
        whole = np.stack(fresh)

        assert bytes(np.asarray(view)) == bytes(whole[-len(view) :])
        assert weight.tolist() == [1.0] * len(fresh)
    assert len(list(itertools.islice(source.batches(), 9))) == 9


def test_wrappers_that_read_ahead_are_safe():
    """As Lightning's, Accelerate's and DALI's do: a queue of batches that another loop takes from."""
    source, ahead = feed(), deque(maxlen=4)
    for batch in itertools.islice(source.batches(), 20):
        ahead.append(batch)
        first = ahead[0].cursor.position - source.batch
        assert bytes(ahead[0].tensors["text"][0].numpy()) == bytes(source[first].arrays["text"])


class TestErrors:
    def test_an_error_comes_with_its_batch_and_not_before(self):
        source = memory(20)
        source.partitions["a"][7] = b"bad"
        iterator = feed(source=source, shuffle=None, threads=4, ahead=3).batches()

        assert len(next(iterator)) == 5
        with pytest.raises(ZeroDivisionError, match="no good") as caught:
            next(iterator)
        assert caught.value.__notes__ == ["while preparing a#7 (position 7)"]
        assert not num_threads()

    def test_a_readers_error_comes_as_it_is(self):
        error = CorruptRecord("a#3", expected="x", found="y", remedy="z")
        source = memory(20)
        source.partitions["a"][3] = Fault(error)
        with pytest.raises(CorruptRecord) as caught:
            take(feed(source=source, shuffle=None).batches(), 3)
        assert caught.value is error

    def test_a_cursor_between_batches_is_refused(self):
        with pytest.raises(PlanError) as caught:
            next(feed().batches(Cursor(7, "")))
        assert str(caught.value) == (
            "position 7: expected a multiple of the global batch of 5, found a remainder of 2. Resume with the batch "
            "size that the checkpoint was made with."
        )

    def test_more_ranks_than_samples_are_refused(self):
        with pytest.raises(PlanError) as caught:
            feed(batch=2, share=Share(0, 3))
        assert str(caught.value) == (
            "the global batch: expected at least one sample for each of 3 ranks, found a batch of 2. Make the batch "
            "larger or use fewer ranks."
        )


class TestEnds:
    """No thread outlives its iterator, however that ends."""

    def test_closed_before_it_began(self):
        feed().batches().close()
        assert not num_threads()

    def test_closed_in_the_middle(self):
        iterator = feed(threads=4).batches()
        next(iterator)
        assert num_threads()
        iterator.close()
        assert not num_threads()

    def test_dropped(self):
        iterator = feed(threads=4).batches()
        next(iterator)
        del iterator
        gc.collect()
        assert not num_threads()

    def test_exhausted(self):
        assert len(take(feed(23, 5, shuffle=None).walk(), 100)) == 5
        assert not num_threads()

    def test_closed_while_workers_are_slow(self):
        class Slow(Text):
            def __call__(self, record, generator, out):
                time.sleep(0.05)
                super().__call__(record, generator, out)

        source = memory(40)
        slow = Feed(Plan(source.snapshot()), source, Slow(), batch=8, threads=4, ahead=4)
        iterator = slow.batches()
        next(iterator)
        iterator.close()
        assert not num_threads()

    @pytest.mark.parametrize("walks", [False, True])
    def test_given_up_or_closed_while_nothing_comes(self, walks):
        away = threading.Event()

        class Away(MemorySource):
            def read(self, *place):
                while away.is_set():
                    waiting.check()
                    time.sleep(0.01)
                return super().read(*place)

        source = Away({"a": [b"%d" % i for i in range(40)]})
        slow = Feed(Plan(source.snapshot()), source, Text(), batch=4, threads=3, ahead=2)
        asked = []
        give_up = lambda: bool(asked.append(1)) or len(asked) == 3  # noqa: E731
        iterator = slow.walk(give_up) if walks else slow.batches(give_up=give_up)
        next(iterator)
        away.set()
        with pytest.raises(InterruptedError):
            list(iterator)
        assert (len(asked), num_threads()) == (3, [])

        away.clear()
        iterator = slow.batches()
        next(iterator)
        away.set()
        iterator.close()
        assert not num_threads()
        waiting.check()  # this thread was never told to give up

    def test_closed_twice_and_asked_again(self):
        iterator = feed().batches()
        next(iterator)
        iterator.close()
        iterator.close()
        with pytest.raises(StopIteration):
            next(iterator)


def test_the_meter_counts_batches_and_waiting():
    fed = feed()
    take(fed.batches(), 7)

    assert fed.meter.batches == 7
    assert 0 <= fed.meter.ready <= 7
    assert fed.meter.waited >= 0


@pytest.mark.parametrize("method", ["scale-crop", "resized-crop"])
@pytest.mark.parametrize("ranks", [1, 3])
def test_pictures_with_all_augmentation_restore_byte_for_byte(packed, method, ranks):
    """The real prepare: decode, scale, crop, flip, rotate, jitter; restored at every step, at several thread counts."""
    augment = Augment((48, 64), method=method, rotate=15, jitter=Jitter(0.2, 0.2, 0.2, 0.05))
    source = packed.source("train")
    plan = Plan(source.snapshot(), 4, Shuffle())
    prepare = PrepareSegmentation(6, 255, (124, 116, 104), augment)

    def make(rank, threads, ahead):
        return Feed(plan, source, prepare, batch=8, share=Share(rank, ranks), threads=threads, ahead=ahead)

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
