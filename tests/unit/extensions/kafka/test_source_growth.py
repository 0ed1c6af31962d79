from __future__ import annotations

import time

import pytest

from penstock.errors import ExpiredError, SourceError
from penstock.extensions.kafka import FakeLog, KafkaSource, Range, mistakes
from penstock.values import Partition, Snapshot


class TestGrowth:
    def test_nothing_is_new_of_what_was_seen(self):
        log = FakeLog("t", 2)
        for number in range(5):
            log.append(b"x", number % 2)
        source = KafkaSource(log)
        first, held = source.growth(())
        assert [(p.name, p.start, p.stop) for p in first.partitions] == [("t/0", 0, 3), ("t/1", 0, 2)]
        assert len(held) == 0
        log.append(b"y", 1)
        log.grow(3)
        log.append(b"z", 2)
        new, held = source.growth(first.partitions)

        assert [(p.name, p.start, p.stop) for p in new.partitions] == [("t/0", 3, 3), ("t/1", 2, 3), ("t/2", 0, 1)]
        assert [(p.name, p.start, p.stop) for p in held.partitions] == [("t/0", 0, 3), ("t/1", 0, 2)]

    def test_it_ends_at_the_last_stable_offset(self):
        log = FakeLog("t")
        log.append(b"x")
        log.open_transaction()
        log.append(b"y")
        source = KafkaSource(log)
        assert len(source.growth(())[0]) == 1
        log.commit()
        assert len(source.growth(())[0]) == 3

    def test_a_tenth_of_what_retention_cuts_is_not_held(self):
        log = FakeLog("t")
        for _ in range(100):
            log.append(b"x")
        source = KafkaSource(log)
        first, _ = source.growth(())
        log.settings["retention.bytes"] = "1000"
        assert source.growth(first.partitions)[1].partitions[0].start == 10
        log.expire(0, 50)
        assert source.growth(first.partitions)[1].partitions[0].start == 55

    def test_what_is_lost_another_topic_and_a_cut_end_are_errors(self):
        log = FakeLog("t")
        for _ in range(10):
            log.append(b"x")
        source = KafkaSource(log)
        first, _ = source.growth(())
        for _ in range(10):
            log.append(b"x")
        log.expire(0, 15)
        with pytest.raises(SourceError, match=r"t/0: the offsets 10 to 14 are needed, but deleted"):
            source.growth(first.partitions)
        log.recreate()
        with pytest.raises(SourceError, match="t: expected the topic with id first, found "):
            source.growth(first.partitions)
        log = FakeLog("t")
        for _ in range(10):
            log.append(b"x")
        first, _ = KafkaSource(log).growth(())
        log.truncate(0, 8)
        for _ in range(5):  # grown beyond what was seen: only the leader's epoch tells
            log.append(b"y")
        with pytest.raises(
            SourceError, match="t/0#9: expected a record written in leader epoch 0 or before, found one of"
        ):
            KafkaSource(log).growth(first.partitions)
        other = FakeLog("t")
        other.append(b"x")
        first, _ = KafkaSource(log).growth(())
        with pytest.raises(SourceError, match="t/0: expected offsets up to 12, found an end at 1"):
            KafkaSource(other).growth(first.partitions)
        other.settings["cleanup.policy"] = "compact"
        with pytest.raises(SourceError, match=r"cleanup\.policy=compact"):
            KafkaSource(other).growth(())

    def test_a_start_that_is_not_reached_yet_is_waited_for(self):
        log = FakeLog("t", 2)
        for _ in range(6):
            log.append(b"x", 0)
        source = KafkaSource(log, Range({0: 4, 1: 2}))
        first, _ = source.growth(())
        assert [(p.name, p.start, p.stop) for p in first.partitions] == [("t/0", 4, 6)]
        for _ in range(3):
            log.append(b"x", 1)

        assert [(p.name, p.start, p.stop) for p in source.growth(first.partitions)[0].partitions] == [
            ("t/0", 6, 6),
            ("t/1", 2, 3),
        ]

    def test_what_retention_takes_of_older_records_is_left_out_and_said(self, caplog):
        log = FakeLog("t")
        for number in range(20):
            log.append(bytes([number]))
        source = KafkaSource(log, block=5, recheck=0)
        (name,) = (partition.name for partition in source.snapshot().partitions)
        mark = source.snapshot().partitions[0].fingerprint
        needed = Snapshot("t", (Partition(name, 12, 20, mark),))
        source.pin(Snapshot("t", (Partition(name, 2, 20, mark),)), needed)
        log.expire(0, 8)

        assert [record.payload[0] for record in source.read(name, 2, 20)] == list(range(8, 20))
        assert [record.message for record in caplog.records] == [
            "t/0: retention deleted records before offset 8 that were to be drawn again; they are left out"
        ]
        source.pin(Snapshot("t", (Partition(name, 2, 20, mark),)), needed)  # what a resume does
        log.expire(0, 14)
        fresh = KafkaSource(log, block=5)
        with pytest.raises(ExpiredError, match="t/0: the offsets 12 to 13 are needed, but deleted"):
            fresh.pin(Snapshot("t", (Partition(name, 2, 20, mark),)), needed)
        with pytest.raises(ExpiredError):
            list(KafkaSource(log, Range({0: 12}), block=5).read(name, 12, 20))

    def test_a_broker_that_is_away_is_waited_for_when_a_stage_begins(self, monkeypatch):
        log = FakeLog("t")
        log.append(b"x")
        source = KafkaSource(log, recheck=0)
        snapshot = source.snapshot()
        log.away = mistakes.unreachable("h", "away")
        with pytest.raises(SourceError, match="no broker answers"):
            source.pin(snapshot)
        source._look_again()  # reading itself waits
        asked = []

        def sleep(seconds):
            asked.append(seconds)
            log.away = None if len(asked) == 3 else log.away

        monkeypatch.setattr(time, "sleep", sleep)
        assert source.pin(snapshot, timeout=60) == snapshot
        assert len(asked) == 3
