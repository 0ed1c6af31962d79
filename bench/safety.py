"""What being sure costs: batches that own their memory, and topics that are asked whether they are still the same.

python bench/safety.py        needs Java 17 and Maven for the topics

Each way of doing it takes its turn over the same data in one process; ratios are those of neighbours.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import torch
from kafka import Nothing, broker, fill

from penstock.datasets import inspect, pack, scenes
from penstock.feed import Feed, feed
from penstock.feed.slots import WEIGHT, Slots, make_slot
from penstock.order import Plan, Shuffle
from penstock.settings import DataSettings, Model, Recipe, Train
from penstock.assembly.experiment import open_experiment
from penstock.extensions.kafka import TopicAddress, KafkaLog, KafkaSource
from penstock.settings import Augment
from penstock.values import Cursor

IMAGES, BATCH, CROP, BATCHES, ROUNDS = common.sized((64, 16, (321, 321), 24, 15), (4, 2, (33, 33), 2, 1))
LENGTH, RECORDS, PASSES = common.sized((100_000, 4000, 9), (10_000, 64, 1))


class Lent(Slots):
    """Memory that the next batch but some takes back, whoever still looks at it."""

    def lend(self, slot):
        self._free.appendleft(slot)
        return {
            **{name: torch.from_numpy(array) for name, array in slot.arrays.items()},
            WEIGHT: torch.from_numpy(slot.weight),
        }


class Fresh(Slots):
    """New memory for every batch."""

    def take(self):
        return make_slot(self.fields, self.size)


class Trusting(KafkaSource):
    """Reads without asking whether the topic is still the same."""

    def _still_the_same(self, run, read):
        return


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        memory = owned(Path(folder))
        with broker.Cluster(Path(folder) / "kafka") as cluster:
            fill(cluster.servers, "records", LENGTH, RECORDS, 4)
            topics = {
                "offset order": asked(cluster.servers, None),
                "blocks of 64 records, 16 in a shuffle window": asked(cluster.servers, Shuffle(64, 16)),
                "full shuffle of single records": asked(cluster.servers, Shuffle(1, 1)),
            }
    versions = common.versions("penstock", "torch", "confluent-kafka")
    common.write("safety", "python bench/safety.py", {"versions": versions, "memory": memory, "topics": topics})


def by_turns(ways: dict[str, Callable[[], float]], rounds: int) -> dict[str, Any]:
    """Of every way its rates, and what of the first one's they are, round by round; a first round does not count."""
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            rate = way()
            if number:
                rates[name].append(rate)
                print(f"{number}/{rounds} {name}: {rate:.1f}/s", file=sys.stderr)
    first = next(iter(rates.values()))
    return {
        name: {"rate": common.summary(own), "ratio": common.summary([a / b for a, b in zip(own, first, strict=True)])}
        for name, own in rates.items()
    }


def owned(folder: Path) -> dict[str, Any]:
    """Samples per second of a feed whose batches are dropped one after the other, by whose their memory is."""
    scenes.write_folder(folder / "raw", {"train": IMAGES, "val": 1}, (360, 480), seed=1)
    pack(inspect(folder / "raw"), folder / "data")
    made = Recipe(
        data=DataSettings(str(folder / "data")),
        model=Model("unet:test_resnet", "none"),
        augment=Augment(CROP),
        train=Train(steps=BATCHES, batch=BATCH),
    )
    parts = open_experiment(made)

    def rate(kind: type[Slots]) -> Callable[[], float]:
        def measured() -> float:
            feed.Slots = kind
            batches = parts.training_feed().batches(Cursor(0, parts.plan.digest))
            next(batches)
            began = time.perf_counter()
            for _ in range(BATCHES):
                next(batches)
            seconds = time.perf_counter() - began
            batches.close()
            return BATCHES * BATCH / seconds

        return measured

    ways = {
        "reused for a later batch, even if still in use": rate(Lent),
        "reused once nothing refers to the batch": rate(Slots),
        "allocated for every batch": rate(Fresh),
    }
    return by_turns(ways, ROUNDS)


def asked(servers: str, shuffle: Shuffle | None) -> dict[str, Any]:
    """Records per second of a pass over a topic, with and without asking."""

    def rate(kind: type[KafkaSource]) -> Callable[[], float]:
        def measured() -> float:
            log = KafkaLog(TopicAddress(servers, "records"))
            source = kind(log)
            plan = Plan(source.snapshot(), 1, shuffle)
            began = time.perf_counter()
            seen = sum(
                float(batch.weight.sum()) for batch in Feed(plan, source, Nothing(), batch=32, augment=False).walk()
            )
            seconds = time.perf_counter() - began
            log.close()
            assert seen == RECORDS
            return RECORDS / seconds

        return measured

    return by_turns({"id not compared": rate(Trusting), "id compared": rate(KafkaSource)}, PASSES)


if __name__ == "__main__":
    main()
