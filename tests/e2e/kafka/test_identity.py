"""A topic that is made again under its name, or compacted, while it is read: never taken for the one it was."""

from __future__ import annotations

import json

import pytest
from support.training import recipe

from penstock import config as recipes
from penstock.errors import SourceError
from penstock.extensions.kafka import About, FakeLog, KafkaSource, TopicAddress, TopicDataset
from penstock.extensions.kafka.blocks import RecordRun
from penstock.sources.waiting import bound
from penstock.training import train

pytestmark = pytest.mark.slow

AGAIN = "expected the topic with id "


COMPACT = "compaction removes records between epochs"


def fill(topic, letter, count=40):
    topic.append(*(b"%s%d" % (letter, number) for number in range(count)))


def read(source, start, stop):
    return [record.payload for record in source.read(source.snapshot_name, start, stop)]


def opened(topic, **options):
    source = KafkaSource(topic.log, block=4, **options)
    source.snapshot_name = source.snapshot().partitions[0].name
    return source


class TestMadeAgain:
    def test_what_is_fetched_from_another_topic_is_never_given(self, world):
        """The same offsets are there again: with any number of blocks read before, none of the new ones comes."""
        topic = world.topic()
        fill(topic, b"a")
        sources = [opened(topic) for _ in range(4)]
        for number, source in enumerate(sources):
            assert read(source, 0, 4 * number) == [b"a%d" % n for n in range(4 * number)]
        topic.recreate()
        fill(topic, b"b")
        for number, source in enumerate(sources):
            with pytest.raises(SourceError, match=AGAIN):
                read(source, 4 * number, 4 * number + 4)

    def test_one_that_is_all_in_memory_is_asked_again_too(self, world):
        topic = world.topic()
        fill(topic, b"a")
        source = opened(topic, recheck=0.0)
        assert len(read(source, 0, 40)) == 40
        topic.recreate()
        fill(topic, b"b")
        with pytest.raises(SourceError, match=AGAIN):
            read(source, 0, 4)

    def test_at_bounded_intervals(self):
        log = FakeLog("t")
        topic = FakeTopic(log)
        fill(topic, b"a")
        source = opened(topic, recheck=1000.0)
        read(source, 0, 40)
        asked = counted(log, "topic")
        for _ in range(50):
            read(source, 0, 40)
        assert asked == []
        source.recheck = 0.0
        for _ in range(5):
            read(source, 0, 4)
        assert len(asked) == 5

    def test_threads_that_read_at_once_share_an_prediction(self):
        log = FakeLog("t")
        fill(FakeTopic(log), b"a")
        source = opened(FakeTopic(log))
        asked = counted(log, "topic_id")
        for _ in range(2):
            source._still_the_same(RecordRun(0, 0, 4), 0.0)

        assert asked == []  # the snapshot asked since

    def test_a_read_asks_a_single_question(self):
        log = FakeLog("t")
        fill(FakeTopic(log), b"a")
        source = opened(FakeTopic(log))
        whole, alone = counted(log, "topic"), counted(log, "topic_id")
        read(source, 0, 12)

        assert (len(whole), len(alone)) == (0, 3)  # blocks of 4


def counted(log, method):
    """The questions that a log is asked from now on."""
    asked, before = [], getattr(log, method)
    setattr(log, method, lambda *words: asked.append(words) or before(*words))
    return asked


class FakeTopic:
    def __init__(self, log):
        self.log = log

    def append(self, *values):
        for value in values:
            self.log.append(value)


class TestCompacted:
    def test_while_it_is_read(self):
        log = FakeLog("t")
        fill(FakeTopic(log), b"a")
        source = opened(FakeTopic(log))
        assert len(read(source, 0, 8)) == 8
        log.settings["cleanup.policy"] = "compact"
        log.compact(0, *range(8, 40))
        with pytest.raises(SourceError, match=COMPACT):
            read(source, 8, 12)

    def test_while_all_is_there_yet(self):
        log = FakeLog("t")
        fill(FakeTopic(log), b"a")
        source = opened(FakeTopic(log), recheck=0.0)
        log.settings["cleanup.policy"] = "compact"
        with pytest.raises(SourceError, match=COMPACT):
            read(source, 8, 12)

    def test_at_a_resume(self):
        log = FakeLog("t")
        fill(FakeTopic(log), b"a")
        before = KafkaSource(log).snapshot()
        log.settings["cleanup.policy"] = "compact,delete"
        with pytest.raises(SourceError, match=COMPACT):
            KafkaSource(log).pin(before)


def test_a_broker_that_is_away_after_a_read_is_waited_for_and_ctrl_c_is_heard(monkeypatch):
    from penstock.extensions.kafka import mistakes

    log = FakeLog("t")
    fill(FakeTopic(log), b"a")
    source = opened(FakeTopic(log))
    fetch = log.fetch

    def then_away(*words):
        found = fetch(*words)
        log.away = mistakes.unreachable("h:1", "gone")
        return found

    log.fetch = then_away
    with bound(lambda: True), pytest.raises(InterruptedError):
        read(source, 0, 4)


@pytest.fixture
def topic(packed, monkeypatch):
    """The packed records in a topic in memory, the second and the last but one of them blanks, and its dataset."""
    log, described = FakeLog("t"), packed.description
    about = About.of(described, described.splits["train"])
    source = packed.source("train")
    for number, part in enumerate(source.snapshot().partitions):
        for record in source.read(part.name, 0, len(part)):
            if number < 2 and not log.topic().extents[0].stop:
                log.hole()
            log.append(record.payload, headers=[("penstock-dataset", about.encoded())])
            if log.topic().extents[0].stop == 5:
                log.hole()
    dataset = TopicDataset(TopicAddress("h", "t"), open_log=lambda _: log)
    monkeypatch.setattr("penstock.assembly.experiment.open_dataset", lambda data, known=None: dataset)
    return log


def test_blanks_are_called_so_in_the_origins(topic, packed, tmp_path):
    chosen = recipes.apply(
        recipe("kafka://h/t", steps=6, evaluate_every=6), ['data.validation=""', "train.ema_decay=0"]
    )
    folder, _ = train(recipes.apply(chosen, ["train.evaluate_every=1000"]), tmp_path)
    lines = [json.loads(line) for line in (folder.path / "origins.jsonl").read_text().splitlines()]
    origins = [origin for line in lines for origin in line["origins"]]
    there = {f"t/0#{message.offset}" for message in topic.fetch(0, 0, topic.topic().extents[0].stop)}

    assert len(origins) == 24
    assert sum(origin.endswith(" (blank)") for origin in origins) >= 2
    for origin in origins:
        assert (origin in there) != origin.endswith(" (blank)")
