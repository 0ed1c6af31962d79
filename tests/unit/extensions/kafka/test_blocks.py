from __future__ import annotations

import threading
import time

import pytest
from support.topics import filled, refused

from penstock.errors import SourceError
from penstock.extensions.kafka import FakeLog, KafkaSource
from penstock.sources import waiting


class TestBlocks:
    def test_each_is_fetched_once_however_many_want_it(self):
        log = filled(1, 64)
        slow = threading.Event()
        fetch = log.fetch
        log.fetch = lambda *range_: (slow.wait(0.2), fetch(*range_))[1]
        source = KafkaSource(log, block=16)
        source.snapshot()
        threads = [threading.Thread(target=lambda: list(source.read("t/0", 5, 9))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert log.fetched.count((0, 0, 16)) == 1

    def test_memory_is_bounded_and_the_last_used_are_kept(self):
        log = FakeLog("t")
        for _ in range(100):
            log.append(bytes(1000))
        source = KafkaSource(log, block=10, memory=60_000)
        source.snapshot()
        for start in (0, 10, 20, 0, 30, 0):
            list(source.read("t/0", start, start + 10))

        assert source.blocks.held == 30 * (1000 + 700)
        assert source.blocks.fetched == 4

    def test_many_small_messages_weigh_what_python_keeps_of_them(self):
        log = FakeLog("t")
        for _ in range(1000):
            log.append(b"12345")
        source = KafkaSource(log, block=10, memory=100_000)
        source.snapshot()
        list(source.read("t/0", 0, 1000))

        assert source.blocks.held == 140 * (5 + 700)

    def test_what_one_feed_gives_up_another_fetches(self):
        log, given_up, fetching = filled(1, 16), threading.Event(), threading.Event()
        fetch = log.fetch

        def held(*range_):
            if not fetching.is_set():
                fetching.set()
                given_up.wait(10)
                waiting.check()
            return fetch(*range_)

        source = KafkaSource(log, block=16)
        source.snapshot()
        log.fetch = held
        found = []

        def unwanted():
            waiting.bind(given_up.is_set)
            with pytest.raises(InterruptedError):
                list(source.read("t/0", 5, 9))

        first = threading.Thread(target=unwanted)
        second = threading.Thread(target=lambda: found.extend(source.read("t/0", 5, 9)))
        first.start()
        fetching.wait(10)
        second.start()
        time.sleep(0.1)
        given_up.set()
        first.join()
        second.join()

        assert len(found) == 4

    def test_an_error_is_everyones_and_is_not_kept(self):
        log = filled(1, 10)
        source = KafkaSource(log)
        source.snapshot()
        log.away = SourceError("t", expected="x", found="y", remedy="z")
        with pytest.raises(SourceError, match="expected x"):
            list(source.read("t/0", 0, 5))
        log.away = None

        assert len(list(source.read("t/0", 0, 5))) == 5

    def test_other_partitions_are_refused(self):
        source = KafkaSource(filled())
        source.snapshot()
        for name in ("t/7", "u/0", "t"):
            refused(
                lambda name=name: list(source.read(name, 0, 1)),
                f"t: expected a partition {name}, found none of that name. Read the partitions that the snapshot names.",
            )
