"""Batches that do not come: an error that names the records, and where the threads wait."""

from __future__ import annotations

import re
import threading
import time

import pytest
from support.feeds import Text, frozen

from penstock.errors import StalledError
from penstock.feed import Feed
from penstock.order import Plan
from penstock.sources import MemorySource, waiting


class Held(MemorySource):
    """Holds whoever reads some records until it is let go, and answers no question meanwhile."""

    def __init__(self, held, *, asks=False):
        super().__init__({"a": [b"%d" % number for number in range(22)]})
        self.held, self.free, self.asks = held, threading.Event(), asks

    def read(self, partition, start, stop):
        if start in self.held:
            if self.asks:
                while not self.free.wait(0.01):
                    waiting.check()
            self.free.wait(20)
        return super().read(partition, start, stop)


@pytest.fixture
def held():
    made = []

    def make(records, **options):
        source = Held(records, **options)
        made.append(source)
        return source

    yield make
    for source in made:
        source.free.set()
    end = time.monotonic() + 10
    while feed_threads() and time.monotonic() < end:
        time.sleep(0.01)
    assert not feed_threads()


def feed_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("penstock-feed")]


def feed_of(source, **options):
    return Feed(Plan(source.snapshot()), source, Text(), batch=8, threads=4, prefetch=1, **options)


@pytest.mark.parametrize("walks", [False, True])
def test_what_does_not_come_is_named_with_the_stacks_of_those_who_read(held, walks):
    """Records 9 and 20 are held, each in a piece of two; the second is asked for first where it is in the batch at hand."""
    source = held({9, 20})
    stalling = feed_of(source, stall_timeout=0.5)
    iterator = stalling.walk() if walks else stalling.batches()
    next(iterator)
    with pytest.raises(StalledError) as caught:
        next(iterator)
    message, *stacks = re.split(r"\n(?=penstock-feed_\d:)", str(caught.value))

    assert feed_threads()  # nobody has waited for them
    assert message == (
        "a#8 and 1 other record: expected to be read within 0.5 seconds (train.stall_timeout), found nothing. Check the disk "
        "or the network that holds them, or make the time longer. Threads of the feed are here:"
    )
    assert len(stacks) == 2
    for stack in stacks:
        first, *_, last = stack.splitlines()
        assert re.fullmatch(r"penstock-feed_\d:", first)
        assert last.strip()
        assert "self.free.wait(20)" in stack
        assert "concurrent" not in stack
    assert caught.value.where == "a#8"


def test_blank_rows_of_the_last_batch_are_not_counted(held):
    """It has the records 18 to 21 and five blank rows, of which two are in the piece that waits for record 21."""
    source = held({21})
    stalling = Feed(Plan(source.snapshot()), source, Text(), batch=9, threads=3, prefetch=9, stall_timeout=0.3)
    iterator = stalling.walk()
    for _ in range(2):
        next(iterator)
    with pytest.raises(StalledError, match=r"^a#21: expected to be read within 0\.3 seconds") as caught:
        next(iterator)
    assert caught.value.where == "a#21"


@pytest.mark.parametrize("limit", [0.0, 30.0])
def test_what_comes_in_time_is_waited_for(held, limit):
    source = held({9}, asks=True)
    threading.Timer(0.7, source.free.set).start()
    batches = [frozen(batch) for batch in feed_of(source, stall_timeout=limit).walk()]
    free = held(set())
    assert batches == [frozen(batch) for batch in feed_of(free).walk()]


def test_a_feed_that_is_closed_leaves_held_threads_to_the_system_after_a_while(held, monkeypatch):
    monkeypatch.setattr("penstock.feed.feed._PATIENCE", 0.3)
    iterator = feed_of(held({9})).batches()
    next(iterator)
    iterator.close()
    assert len(feed_threads()) == 1  # it is held for longer
