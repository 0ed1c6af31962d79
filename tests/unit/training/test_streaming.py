"""When the next snapshot of a topic is taken, on the fake: no broker, no training."""

from __future__ import annotations

import dataclasses
import json
import time
from types import SimpleNamespace

import pytest
from support.training import recipe

from penstock.assembly import Experiment
from penstock.assembly.run_data import RunData, plain_stages, read_run_data, stages_of
from penstock.errors import ExpiredError, RecipeError, SourceError
from penstock.extensions.kafka import About, FakeLog, Range, TopicAddress, TopicDataset, mistakes
from penstock.extensions.kafka.dataset import TopicState
from penstock.order import Stage
from penstock.ranks import Ranks
from penstock.runs import RunFolder
from penstock.settings import Follow
from penstock.training import train
from penstock.training.streaming import Follower
from penstock.values import Partition, Snapshot

ABOUT = [("penstock-dataset", About("segmentation", ("a", "b"), height=64, width=96).encoded())]


BATCH = 4


class World:
    """A topic in memory, and followers of it."""

    def __init__(self, folder, partitions=2, range_=None, **follow):
        self.log = FakeLog("t", partitions)
        self.folder = RunFolder.create(folder, "run")
        self.said = []
        chosen = recipe("kafka://h/t", batch=BATCH)
        follow = {"records": 8, "seconds": 0.1, "idle_timeout": 5.0, **follow}
        self.recipe = dataclasses.replace(
            chosen,
            data=dataclasses.replace(chosen.data, path="kafka://h/t", validation=""),
            follow=Follow(True, **follow),
        )
        self.range = range_ or Range()
        RunData("content").write(self.folder, "plan")

    def send(self, partition, count):
        for _ in range(count):
            self.log.append(b"x", partition, headers=ABOUT)

    def follower(self):
        """As a new process makes it."""
        dataset = TopicDataset(TopicAddress("h", "t"), self.range, open_log=lambda _: self.log)
        parts = Experiment(self.recipe, dataset)
        return Follower(parts, read_run_data(self.folder), self.folder, Ranks(), self.said.append, pin_memory=False)

    def resumed(self, follower):
        again = self.follower()
        again.load_state_dict(json.loads(json.dumps(follower.state_dict())))
        return again


def never():
    return False


def spans(stage):
    return [(part.name, part.start, part.stop) for part in stage.new.partitions]


def test_the_ids_of_the_raw_masks_travel_with_a_topic(tmp_path):
    log, about = FakeLog("t"), About("segmentation", ("a", "b"), height=64, width=96, original=(7, 11))
    log.append(b"x", 0, headers=[("penstock-dataset", about.encoded())])
    dataset = TopicDataset(TopicAddress("h", "t"), open_log=lambda _: log)
    folder = RunFolder.create(tmp_path, "run")
    RunData("content", {}, dataset.first_record).write(folder, "plan")

    assert dataset.description.original == (7, 11)
    assert TopicState.of(read_run_data(folder).known) == TopicState(about, 1)


def test_a_partition_that_held_nothing_is_remembered(tmp_path):
    """It begins where `--from` said, whatever happens in between."""
    world = World(tmp_path, range_=Range({0: 4, 1: 6}))
    world.send(0, 8)
    world.send(1, 6)
    follower = world.follower()
    follower.next(never)
    assert spans(follower.parts.stages[0]) == [("t/0", 4, 8), ("t/1", 6, 6)]
    world.send(0, 4)
    world.send(1, 4)
    again = world.resumed(follower)
    again.next(never)

    assert spans(again.parts.stages[1]) == [("t/0", 8, 12), ("t/1", 6, 10)]


def test_records_of_an_empty_partition_that_are_lost_before_they_are_seen_are_an_error(tmp_path):
    world = World(tmp_path)
    world.send(0, 8)
    follower = world.follower()
    follower.next(never)
    world.send(1, 10)
    world.log.expire(1, 7)
    with pytest.raises(ExpiredError, match="t/1: the offsets 0 to 6 are needed, but deleted"):
        follower.next(never)


def test_what_was_trimmed_away_altogether_comes_next(tmp_path):
    world = World(tmp_path, partitions=3)
    world.send(0, 3)
    world.send(1, 1)
    world.send(2, 1)
    follower = world.follower()
    follower.next(never)
    assert sum(stop - start for _, start, stop in spans(follower.parts.stages[0])) == 4
    world.send(2, 3)
    again = world.resumed(follower)
    again.next(never)
    seen = [(name, offset) for stage in again.parts.stages for name, a, b in spans(stage) for offset in range(a, b)]

    assert sorted(seen) == [
        ("t/0", 0),
        ("t/0", 1),
        ("t/0", 2),
        ("t/1", 0),
        ("t/2", 0),
        ("t/2", 1),
        ("t/2", 2),
        ("t/2", 3),
    ]


def test_a_broker_that_is_away_after_a_long_stage_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.training.streaming._SOON", -1.0)
    world = World(tmp_path)
    world.send(0, 8)
    follower = world.follower()
    follower.next(never)
    follower._answered -= 10_000
    world.log.away = mistakes.unreachable("h", "away")
    looks = []

    def stop():
        looks.append(1)
        return len(looks) > 2

    assert follower.next(stop) is None
    world.send(0, 8)
    looks.clear()

    def back():
        world.log.away = None if looks else world.log.away
        looks.append(1)
        return False

    assert follower.next(back) is not None
    assert "waiting for the broker: away" in world.said


def test_the_time_that_a_broker_is_away_does_not_count_as_a_time_without_records(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.training.streaming._AGAIN", 0.02)
    world = World(tmp_path, idle_timeout=0.4, seconds=0.1)
    world.send(0, 8)
    follower = world.follower()
    follower.next(never)
    world.log.away = mistakes.unreachable("h", "away")
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now, sleep=time.sleep)  # a look takes a tenth of a second
    monkeypatch.setattr("penstock.training.streaming.time", clock)

    def back_after_twice_the_patience():
        clock.now += 0.1
        if clock.now > 0.8 and world.log.away:
            world.log.away = None
            world.send(0, 4)
            follower._grown = late(follower._grown)
        return False

    def late(grown):
        """Nothing is seen at the first look after the broker is back."""
        looks = []

        def look(is_late):
            looks.append(1)
            return grown(is_late) if len(looks) > 1 else None

        return look

    feed = follower.next(back_after_twice_the_patience)
    assert feed is not None
    assert spans(follower.parts.stages[-1]) == [("t/0", 8, 12)]


def test_a_broker_that_is_away_for_too_long_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.training.streaming.AWAY", 0.3)
    world = World(tmp_path)
    world.log.away = mistakes.unreachable("h", "away")
    with pytest.raises(SourceError, match=r"no broker answers \(away\)"):
        world.follower().next(never)


def test_a_broker_that_is_away_when_a_snapshot_is_taken_up_again_is_waited_for(tmp_path, monkeypatch):
    world = World(tmp_path)
    world.send(0, 8)
    before = world.follower()
    before.next(never)
    follower = world.resumed(before)
    world.log.away = mistakes.unreachable("h", "away")
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        world.log.away = None if len(slept) == 3 else world.log.away

    monkeypatch.setattr(time, "sleep", sleep)
    follower.parts.hold(0)
    assert len(slept) == 3


def test_the_first_snapshot_is_what_is_there(tmp_path, monkeypatch):
    """Nothing is waited for."""
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it waited"))
    world = World(tmp_path, seconds=60.0, records=1000)
    world.send(0, 9)
    follower = world.follower()
    follower.next(never)

    assert spans(follower.parts.stages[0]) == [("t/0", 0, 8), ("t/1", 0, 0)]


@pytest.mark.parametrize(("come", "follow"), [(8, {"seconds": 60.0}), (4, {"records": 1000})])
def test_a_snapshot_is_taken_of_enough_records_or_after_long_enough(tmp_path, come, follow):
    """Of eight, or of a batch after a tenth of a second, long before idle_timeout is at its end."""
    world = World(tmp_path, partitions=1, **follow)
    world.send(0, 8)
    follower = world.follower()
    follower.next(never)
    world.send(0, come)
    began = time.monotonic()
    assert follower.next(lambda: time.monotonic() > began + 2.5) is not None
    assert spans(follower.parts.stages[1]) == [("t/0", 8, 8 + come)]


def test_waiting_is_said_soon(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.training.streaming._SOON", 0.1)
    world = World(tmp_path, idle_timeout=1.5, records=1000, seconds=60.0)
    world.send(0, 3)
    assert world.follower().next(never) is None
    assert world.said == ["waiting for 4 new records: 3 so far"]


def test_patience_that_is_shorter_than_a_snapshots_time_leaves_nothing_behind(tmp_path):
    world = World(tmp_path, idle_timeout=0.3, seconds=60.0, records=1000)
    world.send(0, 8)
    follower = world.follower()
    follower.next(never)
    world.send(0, 10)
    assert follower.next(never) is not None
    assert spans(follower.parts.stages[1])[0] == ("t/0", 8, 16)
    began = time.monotonic()
    assert follower.next(lambda: time.monotonic() > began + 30) is None  # half of what a snapshot may take
    assert follower.reason == "nothing new came for too long (follow.idle_timeout)"


def test_snapshots_are_on_disk_before_they_are_begun_and_taken_again(tmp_path):
    world = World(tmp_path)
    world.send(0, 8)
    first = world.follower()
    first.next(never)
    world.send(1, 8)
    killed = world.follower()  # before any checkpoint
    killed.next(never)
    assert killed.parts.stages == first.parts.stages
    assert read_run_data(world.folder).stages == first.parts.stages
    killed.next(never)
    assert spans(killed.parts.stages[1]) == [("t/0", 8, 8), ("t/1", 0, 8)] or spans(killed.parts.stages[1]) == [
        ("t/1", 0, 8)
    ]


def test_offsets_of_a_group_that_cannot_be_committed_are_no_error(tmp_path):
    world = World(tmp_path, group="lag", idle_timeout=0.1)
    world.send(0, 8)
    follower = world.follower()
    follower.next(never)
    follower.next(never)
    assert world.log.committed == {("lag", 0): 8, ("lag", 1): 0}
    world.log.away = mistakes.unreachable("h", "away")
    follower._commit_offsets()
    assert world.said[-1] == "the offsets of the group lag were not committed: away"


def test_thousands_of_snapshots_are_small(tmp_path):
    def stage(number):
        parts = [
            Partition(f"camera/{p}", 10 * number, 10 * number + 10, "cluster-id-22-characters topic-id 3")
            for p in range(12)
        ]
        older = [dataclasses.replace(part, start=0, stop=10 * number) for part in parts]
        return Stage(
            Snapshot("kafka://camera", tuple(parts)), Snapshot("kafka://camera", tuple(older)) if number else None
        )

    stages = tuple(stage(number) for number in range(2000))
    text = json.dumps(plain_stages(stages))

    assert len(text) < 2_000_000
    assert stages_of(json.loads(text)) == stages


def test_older_records_without_following_are_refused(tmp_path, packed):
    chosen = dataclasses.replace(recipe(packed.folder), follow=Follow(replay_ratio=0.25))
    with pytest.raises(RecipeError) as caught:
        train(chosen, tmp_path)
    assert str(caught.value) == (
        "follow.replay_ratio = 0.25 has no effect, as no topic is followed. Add --follow, or remove follow.replay_ratio."
    )
