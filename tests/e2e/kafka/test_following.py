from __future__ import annotations

import collections
import dataclasses
import json
import re
import signal
import threading
import time

import pytest
from support import processes
from support.commands import call
from support.following import begun_again, offsets, origins, taken
from support.processes import kill_tree
from support.training import recipe, state, stops

from penstock import config as recipes
from penstock.assembly import open_run
from penstock.assembly.run_data import stages_of
from penstock.cli.events import show
from penstock.errors import PenstockError, RunError
from penstock.extensions.kafka import About
from penstock.session import Hook
from penstock.settings import Follow
from penstock.training import resume, train

pytestmark = pytest.mark.slow

BATCH = 4


@pytest.fixture(scope="module")
def images(packed):
    """A record's payload for every number, and the header that tells what they are."""
    shards = packed.split("train").shards
    found = [r.payload for shard in shards for r in packed.source("train").read(shard.name, 0, shard.records)]
    about = About("segmentation", packed.description.classes, height=64, width=96)
    return found, [("penstock-dataset", about.encoded())]


class Camera:
    """Puts records into a topic."""

    def __init__(self, topic, images):
        self.topic, (self.payloads, self.headers) = topic, images
        self.sent = 0

    def take(self, count, partition=0):
        for _ in range(count):
            payload = self.payloads[self.sent % len(self.payloads)]
            self.topic.append(payload, partition=partition, headers=self.headers)
            self.sent += 1


@pytest.fixture
def camera(broker, images):
    def make(partitions=1, **settings):
        return Camera(broker.topic(partitions, **{"retention_ms": -1, **settings}), images)

    return make


def following(camera, *, records=8, seconds=0.5, replay_ratio=0.0, idle_timeout=3.0, **options):
    chosen = recipe(camera.topic.log.address, **{"steps": 1000, "evaluate_every": 1000, **options})
    return dataclasses.replace(
        chosen,
        data=dataclasses.replace(chosen.data, block=2, shuffle_window=2, validation=""),
        follow=Follow(True, records, seconds, replay_ratio, idle_timeout),
    )


def everything_seen(stages):
    """The last partition of each name, with where it ends."""
    return {part.name: part for stage in stages for part in stage.new.partitions}.values()


def assert_exact(run, *, older=0, batch=BATCH):
    """Stage after stage, every new record once; the older ones, as many as there should be, from what it may draw on."""
    steps = origins(run)
    place = 0
    for stage in taken(run):
        new, allowed = offsets(stage.new), offsets(stage.older) if stage.older else set()
        fresh = batch - (older if allowed else 0)
        count = len(new) // fresh
        seen = collections.Counter(origin for step in steps[place : place + count] for origin in step)
        assert {origin: seen.pop(origin) for origin in new} == dict.fromkeys(new, 1)
        assert set(seen) <= allowed
        assert seen.total() == count * (older if allowed else 0)
        place += count
    assert place == len(steps)


class Takes(Hook):
    """Has the camera take images after some steps."""

    def __init__(self, camera, plan):
        self.camera, self.plan = camera, plan

    def after_step(self, session):
        for count, partition in self.plan.pop(session.step, ()):
            self.camera.take(count, partition)


class Asks(Hook):
    """Asks for an end after a step."""

    def __init__(self, step):
        self.step = step

    def after_step(self, session):
        if session.step == self.step:
            session.request_stop("asked")


def test_every_record_is_trained_once_as_it_comes(camera, tmp_path):
    source = camera(2)
    source.take(9)
    hooks = [Takes(source, {1: [(6, 1)], 3: [(5, 0), (4, 1)], 5: [(2, 0)]})]
    chosen = following(source)
    chosen = dataclasses.replace(chosen, follow=dataclasses.replace(chosen.follow, group="lag"))
    run, outcome = train(chosen, tmp_path, hooks=hooks)

    assert (outcome.status, outcome.reason) == ("stopped", "nothing new came for too long (follow.idle_timeout)")
    assert_exact(run.path)
    trained = [origin for step in origins(run.path) for origin in step]
    assert len(trained) == len(set(trained)) == source.sent // BATCH * BATCH
    snapshots = [line for line in run.lines("events.jsonl") if line["event"] == "snapshot"]
    assert [line["number"] for line in snapshots] == list(range(1, len(taken(run.path)) + 1))
    assert len(snapshots) > 1
    kept = stages_of(json.loads((run.path / "checkpoints/last/state.json").read_text())["follow"]["stages"])
    assert kept == taken(run.path)
    told = source.topic.committed("lag")
    assert told == {int(part.name[-1]): part.stop for part in everything_seen(kept)}
    assert "snapshot 1: 8 new records" in (run.path / "log.txt").read_text()


def test_older_records_are_mixed_in(camera, tmp_path):
    source = camera(1)
    source.take(8)
    hooks = [Takes(source, {2: [(9, 0)], 5: [(9, 0)]})]
    run, _ = train(following(source, records=9, replay_ratio=0.25), tmp_path, hooks=hooks)

    stages = taken(run.path)
    assert len(stages) == 3
    assert [len(stage.older or ()) for stage in stages] == [0, 8, 17]
    assert_exact(run.path, older=1)


def test_a_fixed_set_is_evaluated_between_snapshots(camera, images, tmp_path):
    source = camera(1)
    source.topic.world.create(f"{source.topic.log.name}.val", 1, {})
    held = dataclasses.replace(source.topic.log.address, topic=f"{source.topic.log.name}.val")
    from penstock.extensions.kafka.producer import TopicWriter

    with TopicWriter(held) as writer:
        for payload in images[0][:3]:
            writer.send(payload, b"key", images[1], partition=0)
    source.take(8)
    chosen = following(source, seconds=0.1)
    chosen = dataclasses.replace(chosen, data=dataclasses.replace(chosen.data, validation="val"))
    run, _ = train(chosen, tmp_path, hooks=[Takes(source, {1: [(8, 0)], 3: [(8, 0)]})])

    steps = [line["step"] for line in run.lines("events.jsonl") if line["event"] == "evaluated"]
    assert steps == [2, 4, 6]
    assert [line["epoch"] for line in run.lines("metrics.jsonl") if "epoch" in line] == [0.5, 1, 1.5, 2, 2.5, 3]


@pytest.mark.every_step
def test_stopped_at_every_step_it_ends_as_if_it_had_not_been(camera, tmp_path):
    source = camera(2)
    source.take(8)
    hooks = [Takes(source, {2: [(6, 1), (2, 0)], 4: [(5, 0), (4, 1)]})]
    first, outcome = train(following(source, replay_ratio=0.25, idle_timeout=2.0), tmp_path / "first", hooks=hooks)
    whole = begun_again(first.path, tmp_path / "whole")
    resume(whole)
    assert outcome.step > 4
    for step in stops(range(1, outcome.step)):
        stopped = begun_again(first.path, tmp_path / f"stopped-{step}")
        resume(stopped, hooks=[Asks(step)])
        resume(stopped)

        assert state(stopped) == state(whole), step
        assert taken(stopped) == taken(first.path)


def begin(folder, *words, ranks=1):
    command, log = ["-m", "penstock", "train", *words], folder / "out.txt"
    return processes.Child(command, log=log) if ranks == 1 else processes.Ranks(ranks, command, log=log)


def write_recipe(camera, folder, **options):
    folder.mkdir(exist_ok=True)
    path = folder / "recipe.toml"
    path.write_text(recipes.dump(following(camera, **options)))
    return path


def wait_for(condition, process, folder, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, (folder / "out.txt").read_text()
        assert time.monotonic() < end, (folder / "out.txt").read_text()
        time.sleep(0.01)


@pytest.mark.soak  # half a minute; ranks are killed once below
def test_killed_again_and_again_while_records_come(camera, tmp_path):
    """SIGKILL at random moments, records coming all the while; then the same snapshots without a kill: the same bytes."""
    source, done = camera(2), threading.Event()
    source.take(4)
    runs = tmp_path / "runs"
    path = write_recipe(source, tmp_path, idle_timeout=6.0, seconds=0.3, replay_ratio=0.25, save_every=2)

    def produce():
        number = 0
        while not done.is_set():
            source.take(1 + number % 3, number % 2)
            number += 1
            time.sleep(0.4)

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        process, before = begin(tmp_path, path, "--runs", runs), set()
        for kill in range(3):
            wait_for(lambda b=before: set(runs.glob("*/checkpoints/step-*")) - b, process, tmp_path)
            time.sleep(0.5 + 0.37 * kill)
            before = set(runs.glob("*/checkpoints/step-*"))
            kill_tree(process)
            (run,) = runs.iterdir()
            process = begin(tmp_path, "--resume", run)
        time.sleep(5)
        wait_for(lambda: len(taken(run)) >= 3, process, tmp_path)  # a slow machine spends the time on starting again
    finally:
        done.set()
        producer.join()
    assert process.wait(120) == 0, (tmp_path / "out.txt").read_text()
    assert_exact(run, older=1)
    again = begun_again(run, tmp_path / "again")
    assert begin(tmp_path, "--resume", again).wait(120) == 0
    assert state(again) == state(run)


@pytest.mark.soak  # ranks agree on a snapshot below, and share a topic in test_training.py
def test_ranks_take_the_same_snapshots_and_a_killed_run_goes_on_with_another_number(camera, tmp_path):
    source = camera(2)
    source.take(8)
    runs = tmp_path / "runs"
    path = write_recipe(source, tmp_path, idle_timeout=8.0, seconds=0.3, save_every=1, batch=6)
    process = begin(tmp_path, path, "--runs", runs, ranks=3)
    for total in (2, 4):
        source.take(7, 1)
        source.take(6, 0)
        wait_for(lambda n=total: list(runs.glob(f"*/checkpoints/step-*{n}")), process, tmp_path)
    process.kill()
    (run,) = runs.iterdir()
    source.take(7, 1)
    process = begin(tmp_path, "--resume", run, ranks=2)
    assert process.wait(180) == 0, (tmp_path / "out.txt").read_text()

    assert_exact(run, batch=6)
    trained = [origin for step in origins(run) for origin in step]
    assert len(trained) == len(set(trained)) == source.sent // 6 * 6


def test_ranks_agree_on_the_snapshot_of_a_topic_that_grows_while_they_start(camera, tmp_path):
    source, done = camera(1), threading.Event()
    source.take(40)

    def produce():
        while not done.is_set():
            source.take(1)

    producer = threading.Thread(target=produce)
    producer.start()
    path = write_recipe(source, tmp_path, steps=6)
    path.write_text(re.sub(r"\[follow\]\n(?:\w.*\n)*", "", path.read_text()))
    try:
        process = begin(tmp_path, path, "--runs", tmp_path / "runs", ranks=2)
        assert process.wait(180) == 0, (tmp_path / "out.txt").read_text()
    finally:
        done.set()
        producer.join()
    (run,) = (tmp_path / "runs").iterdir()
    plan = open_run(run).plan

    assert origins(run) == [[plan.at(p).origin for p in range(k, k + BATCH)] for k in range(0, 6 * BATCH, BATCH)]


def test_ctrl_c_while_waiting_ends_at_once_and_the_run_goes_on(camera, tmp_path):
    source = camera(1)
    source.take(8)
    runs = tmp_path / "runs"
    path = write_recipe(source, tmp_path, idle_timeout=0.0)
    process = begin(tmp_path, path, "--runs", runs)
    wait_for(lambda: list(runs.glob("*/checkpoints/last")), process, tmp_path)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130, (tmp_path / "out.txt").read_text()
    (run,) = runs.iterdir()
    source.take(8)
    resume(run, ["follow.idle_timeout=2"])

    assert_exact(run)
    assert len(origins(run)) == 4


def test_a_run_whose_topic_was_emptied_goes_on(camera, tmp_path, capsys):
    """The first record said what is learnt; it is not needed a second time."""
    source = camera(1)
    source.take(8)
    run, _ = train(following(source, idle_timeout=1.0), tmp_path)
    source.topic.expire(8)
    resume(run.path)
    source.take(8)
    resume(run.path)

    assert_exact(run.path)
    assert len(origins(run.path)) == 4
    code, _, err = call("replay", run.path, "--step", 3, capsys=capsys)
    assert code == 0, err
    code, _, err = call("replay", run.path, "--step", 1, capsys=capsys)
    assert code == 2
    assert "the offsets 0 to 7 are needed, but deleted" in err


def test_a_run_without_a_snapshot_has_no_step_to_replay(camera, tmp_path, capsys):
    source = camera(1)
    source.take(2)
    run, _ = train(following(source, idle_timeout=0.5), tmp_path)
    code, _, err = call("replay", run.path, "--step", 1, capsys=capsys)

    assert (code, err.splitlines()[-1]) == (
        2,
        f"error: {run.path}: expected a step from 1 to 0, found 1. Choose a step in this range.",
    )


def test_a_topic_without_a_record_is_waited_for(camera, tmp_path, capsys):
    source = camera(1)
    threading.Timer(2.0, source.take, (8,)).start()
    run, _ = train(following(source), tmp_path, on_event=show)

    assert f"waiting for the first record of {source.topic.log.address}" in capsys.readouterr().out
    assert len(origins(run.path)) == 2


def test_partitions_that_are_added_belong_to_the_next_snapshot(camera, tmp_path):
    source = camera(1)
    source.take(8)

    class Grows(Hook):
        def after_step(self, session):
            if session.step == 1:
                source.topic.grow(3)
                source.take(4, 2)
                source.take(4, 0)

    run, _ = train(following(source), tmp_path, hooks=[Grows()])
    assert_exact(run.path)
    assert {origin.partition("#")[0][-2:] for step in origins(run.path)[2:] for origin in step} == {"/0", "/2"}


def test_records_that_retention_deletes_before_they_are_trained_are_an_error(camera, tmp_path):
    source = camera(1, retention_ms=86_400_000)
    source.take(8)

    class Loses(Hook):
        def after_step(self, session):
            if session.step == 2:
                source.take(8)
                source.topic.expire(11)

    with pytest.raises(PenstockError) as caught:
        train(following(source), tmp_path, hooks=[Loses()])
    assert str(caught.value) == (
        f"{source.topic.log.name}/0: the offsets 8 to 10 are needed, but deleted (the topic keeps records for "
        "24 hours). These records are lost: start a new run from its weights with --init RUN. Next time keep records longer "
        "(retention.ms, retention.bytes), or copy the topic to shards with penstock pull."
    )


def test_older_records_that_retention_takes_next_are_not_drawn(camera, tmp_path):
    source = camera(1, retention_ms=86_400_000)
    source.take(40)

    class Cleans(Hook):
        def after_step(self, session):
            if session.step == 10:
                source.topic.expire(20)
                source.take(20)

    run, _ = train(following(source, replay_ratio=0.25), tmp_path, hooks=[Cleans()])
    stages = taken(run.path)

    assert min(int(origin.partition("#")[2]) for origin in offsets(stages[1].older)) == 24  # 20, and a tenth of 40
    assert_exact(run.path, older=1)


def test_replay_shows_the_images_of_any_step_of_any_snapshot(camera, tmp_path, capsys):
    source = camera(1)
    source.take(8)
    run, _ = train(following(source), tmp_path, hooks=[Takes(source, {2: [(8, 0)]})])
    capsys.readouterr()
    for step in (1, 4):
        code, out, err = call("replay", run.path, "--step", step, capsys=capsys)
        assert code == 0, err
        named = [line.rpartition("(")[2].rstrip(")") for line in out.splitlines()[:BATCH]]
        assert named == origins(run.path)[step - 1]
    code, _, err = call("replay", run.path, "--step", 5, capsys=capsys)
    assert (code, err) == (
        2,
        f"error: {run.path}: expected a step from 1 to 4, found 5. Choose a step in this range.\n",
    )


def test_snapshots_that_are_not_those_of_the_checkpoint_are_refused(camera, tmp_path):
    source = camera(1)
    source.take(8)
    run, _ = train(following(source), tmp_path)
    run_data = json.loads((run.path / "data.json").read_text())
    run_data["stages"]["list"][0]["new"][0][2] = 4
    del run_data["seal"]
    (run.path / "data.json").write_text(json.dumps(run_data))
    with pytest.raises(RunError) as caught:
        resume(run.path)
    assert str(caught.value) == (
        f"{run.path}/data.json: expected the 1 snapshot that the checkpoint names, in that order, found 1 others. "
        "Restore the file from a copy of the run."
    )


def test_the_command_line_follows(camera, tmp_path, capsys):
    source = camera(1)
    source.take(8)
    words = ["--model", "unet:test_resnet", "--weights", "none", "--batch", 4, "--crop", 32, 32, "--follow"]
    words += [
        "--replay-ratio",
        0.25,
        "--set",
        "data.validation=",
        "--set",
        "follow.idle_timeout=1",
        "--set",
        "follow.seconds=0.1",
    ]
    code, out, err = call("train", str(source.topic.log.address), *words, "--runs", tmp_path, capsys=capsys)

    assert code == 0, err
    (run,) = tmp_path.iterdir()
    assert recipes.load(run / "recipe.toml").optimizer.schedule.name == "constant"
    assert "from step 0 on, until it is stopped, on cpu" in out
    assert out.splitlines()[-3:] == [
        "stopped at step 2: nothing new came for too long (follow.idle_timeout)",
        f"saved; go on with: penstock train --resume {run}",
        f"report {run / 'report.html'}",
    ]
    before = (run / "recipe.toml").read_text()
    assert call("train", "--resume", run, "--follow", capsys=capsys)[0] == 0
    assert (run / "recipe.toml").read_text() == before
    words += ["--optimizer", "adamw", "--steps", 5]
    assert call("train", str(source.topic.log.address), *words, "--runs", tmp_path / "b", capsys=capsys)[0] == 0
    (run,) = (tmp_path / "b").iterdir()
    chosen = recipes.load(run / "recipe.toml")
    assert (chosen.optimizer.schedule.name, chosen.optimizer.name, chosen.train.steps) == ("constant", "adamw", 5)
    own = recipes.apply(
        chosen, ["optimizer.schedule=cosine", "train.steps=3", "follow.on=false", "follow.replay_ratio=0.0"]
    )
    (tmp_path / "own.toml").write_text(recipes.dump(own))
    words = ["--follow", "--set", "follow.idle_timeout=1"]
    assert call("train", tmp_path / "own.toml", *words, "--runs", tmp_path / "c", capsys=capsys)[0] == 0
    (run,) = (tmp_path / "c").iterdir()
    chosen = recipes.load(run / "recipe.toml")  # a recipe says for itself how long and how fast
    assert (chosen.optimizer.schedule.name, chosen.train.steps, chosen.follow.on) == ("cosine", 3, True)


def test_only_a_topic_without_an_end_can_be_followed(packed, tmp_path, capsys):
    code, _, err = call("train", packed.folder, "--follow", "--runs", tmp_path, capsys=capsys)
    assert (code, err) == (
        2,
        f"error: follow.on: expected a topic, kafka://HOST:PORT/TOPIC, found the folder {packed.folder}. Leave out "
        "--follow: shards do not grow.\n",
    )
    code, _, err = call("train", "kafka://h/t", "--follow", "--until", "0:5", "--runs", tmp_path, capsys=capsys)
    assert (code, err) == (
        2,
        "error: data.until: expected no end, as the topic is followed, found 0:5. Leave out --until or --follow.\n",
    )
