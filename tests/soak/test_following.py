"""Twenty minutes of a camera that never stops; camera, brokers and trainer killed all the while.

Only by `make soak`; writes bench/results/kafka_follow.json."""

from __future__ import annotations

import collections
import dataclasses
import os
import random
import signal
import statistics
import subprocess
import sys
import time

import common
import pytest
from support import broker as brokers
from support.following import begun_again, offsets, origins, taken
from support.paths import SUPPORT
from support.processes import Program, quiet
from support.training import recipe, state

from penstock import config as recipes
from penstock.datasets import Creation, inspect, pack, scenes
from penstock.extensions.kafka import KafkaLog, KafkaSource, TopicAddress
from penstock.extensions.kafka.publishing import publish
from penstock.extensions.kafka.topic_format import ORIGIN

MINUTES = float(os.environ.get("PENSTOCK_SOAK_MINUTES", "20"))


BATCH, OLDER = 8, 2


def trainer(place, folder):
    chosen = recipe(place, steps=1_000_000_000, batch=BATCH, save_every=25, evaluate_every=1_000_000, log_every=50)
    chosen = dataclasses.replace(
        chosen,
        data=dataclasses.replace(chosen.data, block=8, shuffle_window=4),
        follow=recipes.Follow(True, records=256, seconds=10.0, replay_ratio=OLDER / BATCH, idle_timeout=40.0),
        optimizer=dataclasses.replace(chosen.optimizer, schedule="constant", lr=0.01),
    )
    (folder / "recipe.toml").write_text(recipes.dump(chosen))
    begin = [sys.executable, "-m", "penstock", "train"]

    def command():
        found = sorted(folder.glob("runs/*/data.json"))
        how = ["--resume", found[0].parent] if found else [folder / "recipe.toml", "--runs", folder / "runs"]
        return [*begin, *map(str, how)]

    return Program(command, folder / "trainer.txt")


def filming(place, dataset, folder, replicas):
    program = SUPPORT / "camera_program.py"
    words = [sys.executable, program, *dataclasses.astuple(place), dataset.folder, replicas]
    return Program(lambda: [str(word) for word in words], folder / "camera.txt")


@pytest.mark.soak
def test_a_camera_that_never_stops(packed, tmp_path):
    chance, kills, began = random.Random(5), collections.Counter(), time.monotonic()
    with brokers.Cluster(tmp_path / "kafka", nodes=3) as cluster:
        address = TopicAddress(cluster.servers, "camera")
        publish(packed, address, "val", Creation(1, replicas=3))
        camera = filming(address, packed, tmp_path, replicas=3)
        learner = trainer(address, tmp_path)
        next_kill = time.monotonic() + 60
        while time.monotonic() - began < 60 * MINUTES:
            time.sleep(1)
            camera.alive()
            learner.alive()
            learner.sample()
            if time.monotonic() > next_kill:
                next_kill = time.monotonic() + chance.uniform(30, 75)
                what = ("camera", "broker", "trainer")[kills.total() % 3]
                kills[what] += 1
                if what == "broker":
                    node = chance.choice(cluster.nodes)
                    node.kill()
                    time.sleep(chance.uniform(0.0, 8.0))
                    node.restart()
                else:
                    (camera if what == "camera" else learner).kill_and_restart()
        camera.process.send_signal(signal.SIGTERM)
        assert camera.process.wait(120) == 0, (tmp_path / "camera.txt").read_text()[-3000:]
        assert learner.process.wait(600) == 0, (tmp_path / "trainer.txt").read_text()[-3000:]
        (run,) = (tmp_path / "runs").iterdir()
        frames = check_topic(address)
        left = check_training(run, frames)
        again = begun_again(run, tmp_path / "again")
        done = subprocess.run([sys.executable, "-m", "penstock", "train", "--resume", again], env=quiet(), check=False)
        assert done.returncode == 0
        assert state(again) == state(run)
    write(kills, frames, left, run, learner.samples)


@pytest.mark.soak
def test_memory_is_level_once_the_cache_is_full(tmp_path):
    """A trainer left alone with large frames: past the 256 MiB of blocks that it keeps, it needs no more."""
    scenes.write_folder(tmp_path / "raw", {"train": 21, "val": 7}, (480, 640), seed=3)
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    with brokers.Cluster(tmp_path / "kafka") as cluster:
        address = TopicAddress(cluster.servers, "camera")
        publish(dataset, address, "val", Creation(1))
        camera, learner = filming(address, dataset, tmp_path, replicas=1), trainer(address, tmp_path)
        end = time.monotonic() + 60 * MINUTES
        while time.monotonic() < end:
            time.sleep(5)
            camera.alive()
            learner.alive()
            learner.sample()
        for each in (camera, learner):
            each.process.send_signal(signal.SIGTERM)
            each.process.wait(120)
        (run,) = (tmp_path / "runs").iterdir()
        source = KafkaSource(KafkaLog(address))
        received = sum(len(partition) for partition in source.snapshot().partitions) * source.record_bytes
    write_memory(learner.samples[0], received >> 20, run)


def write_memory(samples, received, run):
    # What it needs at its busiest: of evaluations, which need half as much, a third has more or fewer samples by chance.
    thirds = [samples[len(samples) * third // 3 : len(samples) * (third + 1) // 3] for third in range(3)]
    busiest = [round(statistics.quantiles(third, n=10)[-1]) for third in thirds]
    content = {
        "minutes": MINUTES,
        "received_mib": received,
        "snapshots": len(taken(run)),
        "thirds_mib": busiest,
        "samples_mib": samples,
    }
    common.write("kafka_memory", "make soak", content)
    assert received > 2 * 256
    assert busiest[2] < 1.05 * busiest[1], content  # a quarter of what comes in a third of the time would be more


def check_topic(address):
    """Every frame is in the topic once, whoever was killed; how many there are."""
    source = KafkaSource(KafkaLog(address))
    names = collections.Counter(
        int(dict(message.headers)[ORIGIN])
        for partition in source.snapshot().partitions
        for message in source.messages(partition.name, partition.start, partition.stop)
    )
    assert names == collections.Counter(range(len(names)))
    return len(names)


def check_training(run, frames):
    """Every offset was trained once as new; how many wait for the next batch."""
    stages, steps = taken(run), origins(run)
    new = [origin for stage in stages for origin in offsets(stage.new)]
    assert len(set(new)) == len(new)
    place = 0
    for stage in stages:
        own, fresh = offsets(stage.new), BATCH - (OLDER if stage.older else 0)
        count = len(own) // fresh
        seen = collections.Counter(origin for step in steps[place : place + count] for origin in step)
        assert {origin: seen.pop(origin) for origin in own} == dict.fromkeys(own, 1)
        assert set(seen) <= (offsets(stage.older) if stage.older else set())
        place += count
    assert place == len(steps)
    assert 0 <= frames - len(new) < BATCH
    return frames - len(new)


def write(kills, frames, left, run, samples):
    longest = max(samples, key=len)
    settled = longest[len(longest) // 4 :]
    half = len(settled) // 2
    early, late = sum(settled[:half]) / half, sum(settled[half:]) / (len(settled) - half)
    content = {
        "minutes": MINUTES,
        "kills": dict(kills),
        "nodes": 3,
        "records": frames,
        "left": left,
        "snapshots": len(taken(run)),
        "steps": len(origins(run)),
        "memory": {"seconds": len(longest), "early": round(early), "late": round(late), "peak": max(longest)},
        "peaks": [max(each) for each in samples if each],
    }
    common.write("kafka_follow", "make soak", content)
    assert late < 1.1 * early, content
