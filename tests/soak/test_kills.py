"""Fifty kills, of trainers and of brokers, at random moments: every offset once per epoch, weights as if nothing had been.

Only by `make soak`; writes bench/results/kafka_soak.json."""

from __future__ import annotations

import collections
import json
import random
import signal
import subprocess
import sys
import time

import common
import pytest
from support import broker as brokers
from support.paths import TESTS
from support.processes import quiet
from support.training import state

from penstock.datasets import Creation
from penstock.extensions.kafka import TopicAddress
from penstock.extensions.kafka.publishing import publish

KILLS = 50


STEPS = 5000


BATCH = 4


PROGRAM = """
import dataclasses, functools, sys
from pathlib import Path
from penstock.datasets import topics
# Four records at a time and none kept: every step asks the brokers.
topics.KafkaSource = functools.partial(topics.KafkaSource, block=4, memory=0)
sys.path.insert(0, sys.argv[4])
from support.training import recipe
from penstock.training import resume, train
place, runs = sys.argv[1], Path(sys.argv[2])
if found := sorted(runs.glob("*/recipe.toml")):
    resume(found[0].parent)
else:
    chosen = recipe(place, steps=int(sys.argv[3]), save_every=20, evaluate_every=500)
    train(dataclasses.replace(chosen, data=dataclasses.replace(chosen.data, path=place, block=4, shuffle_window=2)), runs)
"""


def trainer(address, runs):
    command = [sys.executable, "-c", PROGRAM, str(address), str(runs), str(STEPS), str(TESTS)]
    return subprocess.Popen(
        command, env=quiet(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )


def finished(process):
    """Whether the trainer ended well; a failure is shown."""
    code = process.wait()
    error = process.stderr.read().decode()
    process.stderr.close()
    assert code in {0, -signal.SIGKILL}, error
    return code == 0


@pytest.mark.soak
def test_fifty_kills_of_trainers_and_brokers(packed, tmp_path):
    began, chance, counts = time.monotonic(), random.Random(4), collections.Counter()
    with brokers.Cluster(tmp_path / "kafka", nodes=3) as cluster:
        address = TopicAddress(cluster.servers, "soak")
        for split in ("train", "val"):
            publish(packed, address, split, Creation(len(packed.split(split).shards), replicas=3))
        assert finished(trainer(address, tmp_path / "whole"))
        runs, process = tmp_path / "killed", trainer(address, tmp_path / "killed")
        time.sleep(8)
        while counts.total() < KILLS:
            time.sleep(chance.uniform(0.1, 3.0))
            if process.poll() is not None:
                assert not finished(process), f"it finished after {counts}: make it longer"
                process = trainer(address, runs)
                time.sleep(chance.uniform(4.0, 9.0))
            if chance.random() < 0.5:
                counts["trainer"] += 1
                process.kill()
            else:
                counts["broker"] += 1
                node = chance.choice(cluster.nodes)
                node.kill()
                time.sleep(chance.uniform(0.0, 3.0))
                node.restart()
        while not finished(process):
            process = trainer(address, runs)
    compare(tmp_path, packed)
    write(counts, time.monotonic() - began)


def compare(folder, packed):
    (whole,), (killed,) = (folder / "whole").iterdir(), (folder / "killed").iterdir()
    assert state(killed) == state(whole)
    lines = [json.loads(line)["origins"] for line in (killed / "origins.jsonl").read_text().splitlines()]
    assert len(lines) == STEPS
    order = [origin for line in lines for origin in line]
    records = packed.split("train").records
    for epoch in range(len(order) // records):
        seen = order[epoch * records : (epoch + 1) * records]
        assert len(set(seen)) == records, f"epoch {epoch}"


def write(counts, seconds):
    content = {
        "kills": dict(counts),
        "steps": STEPS,
        "epochs": STEPS * BATCH // 21,
        "nodes": 3,
        "seconds": round(seconds),
        "identical": "weights, optimizer, EMA, metrics.jsonl and origins.jsonl",
    }
    common.write("kafka_soak", "make soak", content)
