"""Kafka on loopback, one broker: throughput beside a bare librdkafka loop and other clients, and time to the first batch.

python bench/kafka.py        needs Java 17 and Maven; peers from .venv-bench, or from PENSTOCK_BENCH_PYTHON
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import common

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))
from support import broker  # noqa: E402 - the tests' own cluster
from confluent_kafka import Producer  # noqa: E402

from penstock.feed import Feed, Field  # noqa: E402
from penstock.order import Plan, Shuffle  # noqa: E402
from penstock.extensions.kafka import TopicAddress, KafkaLog, KafkaSource  # noqa: E402
from penstock.datasets import Creation  # noqa: E402
from penstock.extensions.kafka.producer import create  # noqa: E402
from penstock.values import Cursor  # noqa: E402

REPEATS, MANY = common.sized((3, 100_000), (1, 2000))
SIZES = common.sized({"100 KB": (100_000, 4000), "1 MB": (1_000_000, 500)}, {"100 KB": (100_000, 64)})
CONTENDERS = {
    "bare librdkafka loop": (sys.executable, "bare"),
    "Penstock, offset order": (sys.executable, "natural"),
    "Penstock, shuffled with its default blocks": (sys.executable, "chosen"),
    "Penstock, blocks of 1.6 MB, 16 in a shuffle window": (sys.executable, "1600000/16"),
    "Penstock, blocks of 6.4 MB, 8 in a shuffle window": (sys.executable, "6400000/8"),
    "Penstock, blocks of 25.6 MB, 2 in a shuffle window": (sys.executable, "25600000/2"),
    "Penstock, full shuffle of single records": (sys.executable, "0/1"),
    "aiokafka": (common.PEERS, "aiokafka"),
    "kafka-python": (common.PEERS, "kafka-python"),
}
if common.SMOKE:
    CONTENDERS = {name: how for name, how in CONTENDERS.items() if "window" not in name and "full" not in name}
MODULES = {"aiokafka": "aiokafka", "kafka-python": "kafka"}
POSITIONS = common.sized((0, 1, 50_000, 99_999, 1_000_000, 123_456_789), (0, 50_000))


class Nothing:
    """A record that is only there."""

    fields = {"size": Field((), "int64")}

    def __call__(self, record: Any, generator: Any, out: Any) -> None:
        out["size"][...] = len(record.payload)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, broker.Cluster(Path(folder) / "kafka") as cluster:
        rates = throughput(cluster.servers)
        first = first_batches(cluster.servers)
    versions = common.versions("penstock", "confluent-kafka")
    about = (
        f"The figures are medians of {REPEATS} repeats, in which the readers take turns. Each repeat is the better of two "
        "passes, after one pass that is not counted."
    )
    content = {
        "versions": versions,
        "method": about,
        "broker": "Apache Kafka 4.2.0, one node",
        "rates": rates,
        "first": first,
    }
    common.write("kafka", "python bench/kafka.py", content)


def throughput(servers: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    contenders = common.installed(CONTENDERS, MODULES)
    for size, (length, records) in SIZES.items():
        topic = f"records-{length}"
        fill(servers, topic, length, records, 4)
        values: dict[str, list[float]] = {name: [] for name in contenders}
        for repeat in range(REPEATS):
            for name, (python, how) in contenders.items():
                rate = run(python, servers, topic, how, records)
                values[name].append(rate)
                print(f"{repeat + 1}/{REPEATS} {size} {name}: {rate:.0f} records/s", file=sys.stderr)
        bare = values["bare librdkafka loop"]
        found[size] = {
            name: {
                "records_per_second": common.summary(rates),
                "of_the_bare_loop": common.summary([a / b for a, b in zip(rates, bare, strict=True)]),
            }
            for name, rates in values.items()
        }
    return found


def fill(servers: str, topic: str, length: int, records: int, partitions: int) -> None:
    create(TopicAddress(servers, topic), Creation(partitions))
    producer = Producer({"bootstrap.servers": servers, "message.max.bytes": 16 << 20, "enable.idempotence": True})
    values = [os.urandom(length) for _ in range(16)]
    for number in range(records):
        while True:
            try:
                producer.produce(topic, values[number % 16], partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    assert producer.flush(120) == 0


def run(python: str, servers: str, topic: str, how: str, records: int) -> float:
    command = [python, str(HERE / "peers" / "kafka_read.py"), servers, topic, how, str(records)]
    return max(json.loads(common.last_line(command, fork=False))["rates"])


def first_batches(servers: str) -> dict[str, Any]:
    """Seconds from nothing to the first batch of 16, at any position of a topic of many records of 1 KB."""
    fill(servers, "many", 1000, MANY, 4)
    found = {}
    for position in POSITIONS:
        seconds = []
        for _ in range(REPEATS + 2):
            began = time.perf_counter()
            log = KafkaLog(TopicAddress(servers, "many"))
            source = KafkaSource(log)
            plan = Plan(source.snapshot(), 1, Shuffle(64, 8))
            feed = Feed(plan, source, Nothing(), batch=16, augment=False)
            batches = feed.batches(Cursor(position // 16 * 16, plan.digest))
            next(batches)
            seconds.append(time.perf_counter() - began)
            batches.close()
            log.close()
        found[f"{position:,}"] = common.summary(seconds)
    return found


if __name__ == "__main__":
    main()
