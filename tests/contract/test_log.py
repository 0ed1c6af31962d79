"""One suite for the fake and for a real broker: what `Log` promises."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest

from penstock.errors import SourceError
from penstock.extensions.kafka import KafkaLog, TopicAddress


def fetched(log, partition=0, start=0, stop=None):
    stop = log.topic().extents[partition].stop if stop is None else stop
    return [(m.offset, m.value) for m in log.fetch(partition, start, stop)]


def test_what_was_appended_is_read_in_order_with_keys_and_headers(world):
    topic = world.topic(2)
    topic.append(b"a", b"b", key=b"k", headers=[("origin", b"x"), ("more", b"")])
    topic.append(b"c", partition=1)
    found = topic.log.fetch(0, 0, 2)

    assert [(m.offset, m.value, m.key, m.headers) for m in found] == [
        (0, b"a", b"k", (("origin", b"x"), ("more", b""))),
        (1, b"b", b"k", (("origin", b"x"), ("more", b""))),
    ]
    assert fetched(topic.log, 1) == [(0, b"c")]
    assert topic.log.fetch(0, 1, 1) == []
    extents = topic.log.topic().extents
    assert [(e.partition, e.low, e.stop) for e in extents] == [(0, 0, 2), (1, 0, 1)]


def test_the_end_may_be_a_marker(world):
    topic = world.topic()
    with topic.transaction():
        topic.append(b"a", b"b")

    assert topic.log.topic().extents[0].stop == 3
    assert fetched(topic.log) == [(0, b"a"), (1, b"b")]
    assert fetched(topic.log, start=2) == []


def test_aborted_records_are_not_there(world):
    topic = world.topic()
    topic.append(b"a")
    with topic.transaction(commit=False):
        topic.append(b"no", b"no")
    topic.append(b"b")
    with topic.transaction(commit=False):
        topic.append(b"no")

    assert fetched(topic.log) == [(0, b"a"), (4, b"b")]
    assert fetched(topic.log, start=1, stop=4) == []
    assert fetched(topic.log, start=5) == []


def test_a_range_without_any_record_ends(world):
    topic = world.topic()
    for _ in range(3):
        with topic.transaction(commit=False):
            topic.append(*[b"no"] * 5)

    assert topic.log.topic().extents[0].stop == 18
    assert fetched(topic.log) == []


def test_an_open_transaction_ends_what_is_stable(world):
    topic = world.topic()
    topic.append(b"a")
    with topic.transaction():
        topic.append(b"b", b"c")
        assert topic.log.topic().extents[0].stop == 1
        assert fetched(topic.log) == [(0, b"a")]
    assert fetched(topic.log) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_tombstones_have_no_value(world):
    topic = world.topic()
    topic.append(b"a", None, b"b", key=b"k")

    assert fetched(topic.log) == [(0, b"a"), (1, None), (2, b"b")]


def test_any_range_gives_what_lies_in_it(world):
    topic = world.topic()
    for i in range(6):
        topic.append(*[b"%d-%d" % (i, j) for j in range(i + 1)])
        with topic.transaction(commit=bool(i % 2)):
            topic.append(b"t%d" % i)
    whole = fetched(topic.log)
    stop = topic.log.topic().extents[0].stop
    ranges = list(itertools.combinations(range(stop + 1), 2))
    random.Random(0).shuffle(ranges)

    for start, end in ranges[: 60 if world.real else None]:
        assert fetched(topic.log, 0, start, end) == [(o, v) for o, v in whole if start <= o < end], (start, end)


def test_many_threads_read_at_once(world):
    topic = world.topic(3)
    for partition in range(3):
        topic.append(*[b"%d/%d" % (partition, i) for i in range(200)], partition=partition)
    ranges = [(p, a, a + 25) for p in range(3) for a in range(0, 200, 25)]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda r: fetched(topic.log, *r), ranges))

    assert found == [[(o, b"%d/%d" % (p, o)) for o in range(a, b)] for p, a, b in ranges]


def test_deleted_offsets_are_an_error_that_says_which(world):
    topic = world.topic(retention_ms=86_400_000)
    topic.append(*[b"%d" % i for i in range(10)])
    assert fetched(topic.log)[0] == (0, b"0")
    topic.expire(4)

    assert topic.log.topic().extents[0].low == 4
    with pytest.raises(SourceError) as caught:
        topic.log.fetch(0, 1, 10)
    assert str(caught.value) == (
        f"{topic.log.name}/0: the offsets 1 to 3 are needed, but deleted (the topic keeps records for "
        "24 hours). These records are lost: start a new run from its weights with --init RUN. Next time keep records longer "
        "(retention.ms, retention.bytes), or copy the topic to shards with penstock pull."
    )
    assert fetched(topic.log, start=4)[0] == (4, b"4")


def test_a_topic_made_again_has_another_id(world):
    topic = world.topic()
    topic.append(b"old")
    before = topic.log.topic()
    topic.recreate()
    topic.append(b"new")
    after = topic.log.topic()

    assert (before.cluster, before.name) == (after.cluster, after.name)
    assert before.id != after.id


def test_the_id_alone_is_that_of_the_topic_now(world):
    topic = world.topic()
    before = topic.log.topic_id()
    assert before == topic.log.topic().id
    topic.recreate()
    assert before != topic.log.topic_id() == topic.log.topic().id


def test_a_topic_can_grow(world):
    topic = world.topic(1)
    topic.append(b"a")
    topic.grow(3)
    topic.append(b"b", partition=2)

    assert [(e.partition, e.stop) for e in topic.log.topic().extents] == [(0, 1), (1, 0), (2, 1)]


def test_times_lead_to_offsets(world):
    topic = world.topic(2, retention_ms=-1)  # the records are of 2023
    for i in range(5):
        topic.append(b"x", milliseconds=1_700_000_000_000 + 1000 * i)

    assert topic.log.offsets_at(1_700_000_002_500) == {0: 3, 1: 0}
    assert topic.log.offsets_at(1_800_000_000_000) == {0: 5, 1: 0}
    assert topic.log.offsets_at(0) == {0: 0, 1: 0}


def test_settings_are_told(world):
    assert world.topic(retention_ms=3_600_000).log.topic().settings["retention.ms"] == "3600000"


def test_a_group_is_told_offsets_that_nothing_reads(world):
    topic = world.topic(2)
    topic.append(b"a", b"b", b"c")
    topic.log.commit_offsets("lag", {0: 2, 1: 0})

    assert topic.committed("lag") == {0: 2, 1: 0}
    assert fetched(topic.log) == [(0, b"a"), (1, b"b"), (2, b"c")]


class TestBroker:
    """What only a broker has."""

    @pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
    def test_compressed_batches(self, broker, compression):
        topic = broker.topic()
        topic.writing = topic._producer(**{"compression.type": compression, "linger.ms": 50})
        values = [bytes([i]) * 5000 for i in range(50)]
        topic.append(*values)

        assert fetched(topic.log) == list(enumerate(values))
        assert fetched(topic.log, start=17, stop=31) == list(enumerate(values))[17:31]

    def test_large_records(self, broker):
        topic = broker.topic(max_message_bytes=16 << 20)
        values = [bytes([i]) * (10 << 20) for i in range(3)]
        topic.append(*values)

        assert fetched(topic.log) == list(enumerate(values))
        assert fetched(topic.log, start=1, stop=2) == [(1, values[1])]

    def test_a_topic_that_is_not_there(self, broker):
        log = KafkaLog(TopicAddress(broker.servers, "nowhere"))
        with pytest.raises(SourceError) as caught:
            log.topic()
        assert str(caught.value) == (
            f"kafka://{broker.servers}/nowhere: expected a topic of that name, found none. Check the name, or publish "
            "to it with penstock publish DIR URL --create."
        )

    def test_no_broker(self):
        with pytest.raises(SourceError, match=r"^kafka://127\.0\.0\.1:9: no broker answers \("):
            KafkaLog(TopicAddress("127.0.0.1:9", "x")).topic(seconds=1)
        with pytest.raises(SourceError, match=r"^kafka://127\.0\.0\.1:9: no broker answers \("):
            KafkaLog(TopicAddress("127.0.0.1:9", "x")).topic_id(seconds=1)

    def test_many_questions_take_one_connection(self, broker, monkeypatch):
        """To connect takes several times as long as an answer."""
        from penstock.extensions.kafka import admin

        topic, made, real = broker.topic(), [], admin.connect
        monkeypatch.setattr(admin, "connect", lambda servers: made.append(servers) or real(servers))
        for _ in range(3):
            topic.log.topic()
            topic.log.topic_id()
            topic.log.offsets_at(0)
        assert len(made) == 1
        topic.log.close()
        topic.log.topic_id()
        assert len(made) == 2

    def test_one_that_had_no_prediction_is_not_asked_again(self, broker, monkeypatch):
        """It would go on waiting for a controller that is gone."""
        from penstock.extensions.kafka import admin, mistakes

        topic, made, real = broker.topic(), [], admin.connect
        monkeypatch.setattr(admin, "connect", lambda servers: made.append(servers) or real(servers))
        topic.log.topic_id()
        own = admin.topic_id

        def away(*_):
            raise mistakes.unreachable("h:1", "Timed out waiting for controller")

        monkeypatch.setattr(admin, "topic_id", away)
        with pytest.raises(SourceError):
            topic.log.topic_id()
        monkeypatch.setattr(admin, "topic_id", own)
        topic.log.topic_id()
        assert len(made) == 2

    def test_offsets_that_nobody_leads_are_asked_for_again(self, broker, monkeypatch):
        """While a leader is being elected, the answer may be no error, but the offset -1001."""
        from penstock.extensions.kafka import admin

        topic = broker.topic()
        topic.append(b"a", b"b")
        real, asked = admin.connect, []

        class Leaderless:
            def __init__(self, servers):
                self.admin = real(servers)

            def __getattr__(self, name):
                return getattr(self.admin, name)

            def list_offsets(self, *arguments, **options):
                asked.append(1)
                prediction = self.admin.list_offsets(*arguments, **options)
                if len(asked) > 2:
                    return prediction
                return {
                    place: mock.Mock(result=lambda: mock.Mock(offset=-1001, leader_epoch=None)) for place in prediction
                }

        monkeypatch.setattr(admin, "connect", Leaderless)
        (extent,) = topic.log.topic().extents

        assert (extent.low, extent.stop) == (0, 2)
        assert len(asked) == 4

    @pytest.mark.soak  # half a minute
    def test_memory_is_bounded_however_long_the_topic(self, broker):
        """600 MB are read, shuffled; at most 256 MiB of blocks are kept, and what four readers have on their way."""
        topic = broker.topic(2, retention_ms=-1)
        topic.append(*(os.urandom(500_000) for _ in range(1200)))
        program = (
            "import re, sys; from pathlib import Path\n"
            "from penstock.feed import Feed, Field\n"
            "from penstock.order import Plan, Shuffle\n"
            "from penstock.extensions.kafka import TopicAddress, KafkaLog, KafkaSource\n"
            "def peak(): return int(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]) >> 10\n"
            "class Count:\n"
            "    fields = {'size': Field((), 'int64')}\n"
            "    def __call__(self, record, generator, out): out['size'][...] = len(record.payload)\n"
            "source = KafkaSource(KafkaLog(TopicAddress(sys.argv[1], sys.argv[2])))\n"
            "plan = Plan(source.snapshot(), 1, Shuffle(32, 4))\n"
            "before = peak()\n"
            "total = sum(int(b.tensors['size'].sum()) for b in Feed(plan, source, Count(), batch=16, threads=4).walk())\n"
            "print(total, source.blocks.held >> 20, peak() - before)\n"
        )
        command = [sys.executable, "-c", program, broker.servers, topic.log.name]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
        total, held, grown = map(int, done.stdout.split())

        assert total == 600_000_000
        assert held <= 256
        assert grown < 256 + 4 * (16 + 8) + 150
