from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.topics import filled, refused

from penstock.errors import RecipeError, SourceError
from penstock.extensions.kafka import FakeLog, KafkaLog, KafkaSource, Range, TopicAddress
from penstock.feed import Feed, Field
from penstock.order import Plan, Shuffle
from penstock.values import BatchSlice, Cursor


class Bytes:
    """A sample that is the record's number."""

    fields: ClassVar = {"value": Field((), "int64")}

    def __call__(self, record, generator, out):
        out["value"][...] = int(record.payload)


NEW_RUN = "start a new run from its weights with --init RUN."


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
            "t/0: the offsets 10 to 11 are needed, but deleted (the topic keeps 1,000 bytes a partition). "
            f"These records are lost: {NEW_RUN.removesuffix('.')}. Next time keep records longer (retention.ms, "
            "retention.bytes), or copy the topic to shards with penstock pull.",
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
            "t/1: the offsets 0 to 2 are needed, but deleted (the topic keeps records for 0.5 hours). "
            f"These records are lost: {NEW_RUN.removesuffix('.')}. Next time keep records longer (retention.ms, "
            "retention.bytes), or copy the topic to shards with penstock pull.",
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
        source = KafkaSource(log, recheck=0.0, block=8)
        source.pin(before)
        list(source.read("t/0", 0, 8))
        log.expire(1, 5)
        with pytest.raises(SourceError, match="the offsets 0 to 4 are needed, but deleted"):
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

    def test_those_that_stay_for_longer_are_not(self, caplog):
        log = FakeLog("t")
        log.settings["retention.ms"] = str(10 * 3_600_000)
        log.append(b"1", milliseconds=int(1000 * (time.time() - 8.5 * 3600)))
        KafkaSource(log).snapshot()

        assert caplog.messages == []

    def test_while_a_snapshot_is_read_too(self, caplog):
        log = FakeLog("t")
        for _ in range(8):
            log.append(b"1", milliseconds=int(1000 * (time.time() - 9.5 * 3600)))
        source = KafkaSource(log, recheck=0.0, block=4)
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
            feed = Feed(plan, source, Bytes(), batch=batch, batch_slice=BatchSlice(rank, ranks), threads=1)
            for number in range(0, 200 // batch, 7):
                batches = feed.batches(Cursor(number * batch, plan.digest))
                got = next(batches)
                batches.close()
                rows = feed.batch_slice.rows(batch)
                assert got.origins == tuple(whole[number * batch + row].origin for row in rows)
                expected = [
                    0 if a.offset in holes else 1000 * int(a.partition[-1]) + a.offset
                    for a in (whole[number * batch + row] for row in rows)
                ]
                assert got.tensors["value"].tolist() == expected


def test_without_the_client_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(RecipeError) as caught:
        KafkaLog(TopicAddress("h:1", "t")).topic()
    assert str(caught.value) == "Reading Kafka topics needs confluent-kafka. Install penstock[kafka]."
