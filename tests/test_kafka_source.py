"""Topics as sources: snapshots, holes, blocks, and everything that must not have changed in the meantime."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ExpiredError, SourceError
from penstock.feed import Feed, Field
from penstock.order import Plan, Shuffle
from penstock.sources import waiting
from penstock.sources.kafka import Address, FakeLog, KafkaLog, KafkaSource, Range, is_topic, mistakes, settings
from penstock.values import Cursor, Partition, Share, Snapshot


class Bytes:
    """A sample that is the record's number."""

    fields: ClassVar = {"value": Field((), "int64")}

    def __call__(self, record, generator, out):
        out["value"][...] = int(record.payload)


def filled(partitions=2, records=50, holes=()):
    log = FakeLog("t", partitions)
    for partition in range(partitions):
        for i in range(records):
            if i in holes:
                log.hole(partition)
            else:
                log.append(b"%d" % (1000 * partition + i), partition)
    return log


def refused(action, message):
    with pytest.raises(SourceError) as caught:
        action()
    assert str(caught.value) == message


NEW_RUN = "start a new run from these weights with --init."


class TestSnapshot:
    def test_it_is_what_retention_left_and_transactions_closed(self):
        log = filled()
        log.expire(0, 7)
        log.open_transaction(1)
        log.append(b"9", 1)
        found = KafkaSource(log).snapshot()

        assert [(p.name, p.start, p.stop) for p in found.partitions] == [("t/0", 7, 50), ("t/1", 0, 50)]
        assert found.source == "kafka://t"

    def test_a_range_narrows_it(self):
        source = KafkaSource(filled(), Range({0: 10}, {1: 20}))

        assert [(p.start, p.stop) for p in source.snapshot().partitions] == [(10, 50), (0, 20)]

    def test_a_start_that_is_deleted_is_refused(self):
        log = filled()
        log.settings["retention.bytes"] = "1000"
        log.expire(0, 12)
        refused(
            KafkaSource(log, Range({0: 10})).snapshot,
            "t/0: expected offsets from 10 on, found that 10 to 11 are deleted (the topic keeps records 1,000 bytes a "
            "partition). Records are lost. Keep them longer next time (retention.ms, retention.bytes), or pull the topic "
            f"to shards with penstock pull; now {NEW_RUN}",
        )

    def test_nothing_and_compacted_topics_are_refused(self):
        refused(
            KafkaSource(FakeLog("t")).snapshot,
            "t: expected at least one record, found none between the start and the end of the snapshot. Publish some "
            "with penstock publish, or choose another --from and --until.",
        )
        log = filled()
        log.settings["cleanup.policy"] = "compact,delete"
        refused(
            KafkaSource(log).snapshot,
            "t: expected a topic that keeps its records (cleanup.policy=delete), found cleanup.policy=compact,delete: "
            "compaction removes records between epochs. Set cleanup.policy=delete, or publish the records to another topic.",
        )

    def test_sizes_are_told_from_what_is_needed(self):
        """Of older records that a run draws from, retention may have taken the beginning."""
        log = filled()
        before = KafkaSource(log).snapshot()
        log.expire(0, 12)
        later = [replace(part, start=12) if part.name == "t/0" else part for part in before.partitions]
        source = KafkaSource(log)
        source.pin(before, replace(before, partitions=tuple(later)))

        assert source.record_bytes > 0
        assert source.few >= 1

    def test_growth_belongs_to_the_next_one(self):
        log = filled()
        source = KafkaSource(log)
        before = source.snapshot()
        log.append(b"7", 0)
        log.grow(3)

        assert source.pin(before) == before
        assert len(source.snapshot()) == len(before) + 1
        assert [p.name for p in source.snapshot().partitions] == ["t/0", "t/1", "t/2"]


class TestPin:
    """A snapshot of before is refused when it cannot be had again, all of it."""

    @pytest.fixture
    def log(self):
        return filled()

    @pytest.fixture
    def before(self, log):
        return KafkaSource(log).snapshot()

    def test_retention(self, log, before):
        log.settings["retention.ms"] = "1800000"
        log.expire(1, 3)
        refused(
            lambda: KafkaSource(log).pin(before),
            "t/1: expected offsets from 0 on, found that 0 to 2 are deleted (the topic keeps records for 0.5 hours). "
            "Records are lost. Keep them longer next time (retention.ms, retention.bytes), or pull the topic to shards "
            f"with penstock pull; now {NEW_RUN}",
        )

    def test_truncation(self, log, before):
        log.truncate(0, 40)
        refused(
            lambda: KafkaSource(log).pin(before),
            "t/0: expected offsets up to 49, found an end at 40. The broker lost records (an unclean leader election?). "
            f"Restore them, or {NEW_RUN}",
        )

    def test_truncation_that_was_written_over(self, log, before):
        log.truncate(0, 40)
        for i in range(20):
            log.append(b"%d" % (5000 + i), 0)
        source = KafkaSource(log)
        source.pin(before)
        refused(
            lambda: list(source.read("t/0", 0, 50)),
            "t/0#40: expected a record written in leader epoch 0 or before, found one of epoch 1. The broker lost "
            f"records and wrote others in their place. Restore them, or {NEW_RUN}",
        )

    def test_another_topic_or_cluster_of_the_same_name(self, log, before):
        log.recreate("second")
        for i in range(50):
            log.append(b"%d" % i, 0)
            log.append(b"%d" % i, 1)
        refused(
            lambda: KafkaSource(log).pin(before),
            "t: expected the topic with id first, found second. Name the cluster and the topic that the run was started "
            f"with, or {NEW_RUN}",
        )
        log.move("elsewhere")
        refused(
            lambda: KafkaSource(log).pin(before),
            "t: expected cluster fake, found elsewhere. Name the cluster and the topic that the run was started with, or "
            f"{NEW_RUN}",
        )

    def test_what_happens_while_reading_is_noticed(self, log, before):
        source = KafkaSource(log, look=0.0, block=8)
        source.pin(before)
        list(source.read("t/0", 0, 8))
        log.expire(1, 5)
        with pytest.raises(SourceError, match="found that 0 to 4 are deleted"):
            list(source.read("t/0", 8, 16))

    def test_records_that_retention_will_soon_delete_are_named(self, caplog):
        log = FakeLog("t")
        log.settings["retention.ms"] = str(10 * 3_600_000)
        log.append(b"1", milliseconds=int(1000 * (time.time() - 9.5 * 3600)))
        KafkaSource(log).snapshot()

        assert caplog.messages == [
            "t/0: retention may delete the oldest records in 30 minutes (the topic keeps records for 10 hours): pull the "
            "topic to shards, or keep them longer"
        ]

    def test_while_a_snapshot_is_read_too(self, caplog):
        log = FakeLog("t")
        for _ in range(8):
            log.append(b"1", milliseconds=int(1000 * (time.time() - 9.5 * 3600)))
        source = KafkaSource(log, look=0.0, block=4)
        source.snapshot()
        assert caplog.messages == []
        log.settings["retention.ms"] = str(10 * 3_600_000)
        list(source.read("t/0", 0, 4))
        assert caplog.messages[0].startswith("t/0: retention may delete the oldest records in 30 minutes (")


class TestHoles:
    def test_they_are_samples_of_no_weight_at_their_own_place(self):
        source = KafkaSource(filled(1, 30, holes={3, 4, 29}))
        feed = Feed(Plan(source.snapshot(), 1, Shuffle(4, 2)), source, Bytes(), batch=7, threads=2)
        batches = feed.batches()
        seen = {}
        for _ in range(30):
            batch = next(batches)
            for value, weight, origin in zip(batch.tensors["value"], batch.weight, batch.origins, strict=True):
                offset = int(origin.rpartition("#")[2])
                assert bool(weight) == (offset not in {3, 4, 29})
                assert int(value) == (offset if weight else 0)
                seen[offset] = seen.get(offset, 0) + 1
        batches.close()

        assert seen == dict.fromkeys(range(30), 7)

    def test_tombstones_are_holes(self):
        log = FakeLog("t")
        for value in (b"0", None, b"2"):
            log.append(value)
        source = KafkaSource(log)
        source.snapshot()

        assert [r.origin for r in source.read("t/0", 0, 3)] == ["t/0#0", "t/0#2"]
        assert [m.offset for m in source.messages("t/0", 0, 3)] == [0, 1, 2]

    @given(st.integers(1, 60), st.sets(st.integers(0, 40)), st.integers(1, 20), st.integers(1, 5))
    def test_restoring_at_every_position_gives_the_same(self, block, holes, batch, ranks):
        source = KafkaSource(filled(2, 41, holes), block=block)
        plan = Plan(source.snapshot(), 5, Shuffle(6, 3))
        batch = max(batch, ranks)
        whole = [plan.at(p) for p in range(200)]
        for rank in range(ranks):
            feed = Feed(plan, source, Bytes(), batch=batch, share=Share(rank, ranks), threads=1)
            for number in range(0, 200 // batch, 7):
                batches = feed.batches(Cursor(number * batch, plan.digest))
                got = next(batches)
                batches.close()
                rows = feed.share.slice(batch)
                assert got.origins == tuple(whole[number * batch + row].origin for row in rows)
                expected = [
                    0 if a.offset in holes else 1000 * int(a.partition[-1]) + a.offset
                    for a in (whole[number * batch + row] for row in rows)
                ]
                assert got.tensors["value"].tolist() == expected


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


class TestAddress:
    def test_urls(self):
        assert Address.parse("kafka://a,b:1/t") == Address("a:9092,b:1", "t")
        assert str(Address.parse("kafka://a/t")) == "kafka://a:9092/t"
        assert is_topic("kafka://a/t")
        assert not is_topic("data")

    def test_others_are_refused_without_their_secrets(self):
        refused(
            lambda: Address.parse("kafka://me:secret@host/t"),
            "kafka://.../t: expected kafka://HOST:PORT/TOPIC, found a user or password in it. Put secrets into the file "
            "that PENSTOCK_KAFKA_PROPERTIES names.",
        )
        refused(
            lambda: Address.parse("kafka://host"),
            "kafka://host: expected kafka://HOST:PORT/TOPIC, found something else. Write the topic's address so.",
        )

    def test_properties_come_from_a_file_and_from_variables(self, tmp_path):
        file = tmp_path / "p"
        file.write_text("# a comment\nsecurity.protocol = SASL_SSL\nsasl.username=me=you\n\n")
        found = settings.properties(
            {"PENSTOCK_KAFKA_PROPERTIES": str(file), "PENSTOCK_KAFKA_SASL_PASSWORD": "x", "OTHER": "y"}
        )

        assert found == {"security.protocol": "SASL_SSL", "sasl.username": "me=you", "sasl.password": "x"}
        file.write_text("nonsense")
        refused(
            lambda: settings.properties({"PENSTOCK_KAFKA_PROPERTIES": str(file)}),
            f"{file}, line 1: expected key=value, found no equals sign. Fix that line.",
        )

    def test_what_exactness_rests_on_is_fixed_and_said(self, monkeypatch, caplog):
        monkeypatch.setenv("PENSTOCK_KAFKA_AUTO_OFFSET_RESET", "latest")
        monkeypatch.setenv("PENSTOCK_KAFKA_ISOLATION_LEVEL", "read_committed")
        monkeypatch.setenv("PENSTOCK_KAFKA_ACKS", "1")
        monkeypatch.setenv("PENSTOCK_KAFKA_FETCH_WAIT_MAX_MS", "7")
        settings._say_fixed.cache_clear()
        settings.reading("h:1")  # said once
        reading = settings.reading("h:1")
        writing = settings.writing("h:1")

        assert (reading["auto.offset.reset"], reading["isolation.level"], writing["acks"]) == (
            "error",
            "read_committed",
            "all",
        )
        assert reading["fetch.wait.max.ms"] == "7"
        assert [record.message for record in caplog.records] == [
            "auto.offset.reset=latest is not used: exactness needs error",
            "acks=1 is not used: exactness needs all",
        ]


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
        with pytest.raises(SourceError, match=r"t/0: expected offsets from 10 on, found that 10 to 14 are deleted"):
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
        source = KafkaSource(log, block=5, look=0)
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
        with pytest.raises(ExpiredError, match="t/0: expected offsets from 12 on, found that 12 to 13 are deleted"):
            fresh.pin(Snapshot("t", (Partition(name, 2, 20, mark),)), needed)
        with pytest.raises(ExpiredError):
            list(KafkaSource(log, Range({0: 12}), block=5).read(name, 12, 20))

    def test_a_broker_that_is_away_is_waited_for_when_a_stage_begins(self, monkeypatch):
        log = FakeLog("t")
        log.append(b"x")
        source = KafkaSource(log, look=0)
        snapshot = source.snapshot()
        log.away = mistakes.unreachable("h", "away")
        with pytest.raises(SourceError, match="expected a broker that answers"):
            source.pin(snapshot)
        source._look_again()  # reading itself waits
        asked = []

        def sleep(seconds):
            asked.append(seconds)
            log.away = None if len(asked) == 3 else log.away

        monkeypatch.setattr(time, "sleep", sleep)
        assert source.pin(snapshot, patience=60) == snapshot
        assert len(asked) == 3


def test_without_the_client_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    refused(
        lambda: KafkaLog(Address("h:1", "t")).topic(),
        "kafka://: expected the Kafka client, found that confluent-kafka is not installed. Install it with pip install "
        "'penstock[kafka]'.",
    )
