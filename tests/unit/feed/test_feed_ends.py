from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.feeds import Text, feed, memory, take

from penstock.errors import CorruptRecord, PlanError
from penstock.feed import Feed
from penstock.order import Plan
from penstock.sources import Fault, MemorySource, waiting
from penstock.values import BatchSlice, Cursor


def num_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("penstock-feed")]


class TestErrors:
    def test_an_error_comes_with_its_batch_and_not_before(self):
        source = memory(20)
        source.partitions["a"][7] = b"bad"
        iterator = feed(source=source, shuffle=None, threads=4, prefetch=3).batches()

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
            feed(batch=2, batch_slice=BatchSlice(0, 3))
        assert str(caught.value) == (
            "the global batch: expected at least one sample for each of 3 ranks, found a batch of 2. Make the batch "
            "larger or use fewer ranks."
        )


class TestEnds:
    """No thread outlives its iterator, however that ends."""

    def test_a_thread_that_has_hardly_begun_is_waited_for(self, monkeypatch):
        bind, begun = waiting.bind, []

        def begin_slowly(given_up):
            begun.append(given_up)
            if len(begun) == 2:
                time.sleep(0.3)
            bind(given_up)

        monkeypatch.setattr(waiting, "bind", begin_slowly)
        iterator = feed(threads=2).batches()
        next(iterator)
        iterator.close()

        assert len(begun) == 2
        assert not num_threads()

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
        slow = Feed(Plan(source.snapshot()), source, Slow(), batch=8, threads=4, prefetch=4)
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
        slow = Feed(Plan(source.snapshot()), source, Text(), batch=4, threads=3, prefetch=2)
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


def test_a_program_may_end_while_it_holds_a_feed():
    """The iterator is closed as the interpreter ends, when no thread starts any more."""
    code = (
        "from penstock.feed import Feed\nfrom penstock.order import Plan\nfrom penstock.sources import MemorySource\n"
        "from support.feeds import Text, memory\nsource = memory(23)\n"
        "batches = Feed(Plan(source.snapshot(), 1), source, Text(), batch=5).batches()\nnext(batches)\nprint('done')\n"
    )
    tests = str(Path(__file__).parents[2])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([tests, *filter(None, [os.environ.get("PYTHONPATH")])])}
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, env=env, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
