"""What each setting of docs/kafka.md does: Penstock's own against librdkafka's default, one at a time, records of 100 KB.

python bench/kafka_settings.py        needs Java 17 and Maven
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
import kafka

from penstock.extensions.kafka import TopicAddress
from penstock.datasets import Creation
from penstock.extensions.kafka.producer import TopicWriter, create

REPEATS = common.sized(3, 1)
LENGTH, RECORDS = common.sized((100_000, 3000), (10_000, 50))
READING = {
    "check.crcs": "false",
    "max.partition.fetch.bytes": "1048576",
    "fetch.wait.max.ms": "500",
    "fetch.queue.backoff.ms": "1000",
    "queued.max.messages.kbytes": "65536",
}
OURS = "Penstock's settings"
WRITING = {"batch.size": "1000000", "linger.ms": "0", "compression.type": "zstd"}
ORDERS = [("chosen", "reading with the default shuffle"), ("natural", "reading in offset order")]
if common.SMOKE:
    READING, WRITING, ORDERS = {"check.crcs": "false"}, {"linger.ms": "0"}, ORDERS[:1]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, kafka.broker.Cluster(Path(folder) / "kafka") as cluster:
        kafka.fill(cluster.servers, "records", LENGTH, RECORDS, 4)
        reading = in_turn(READING, lambda setting: read(cluster.servers, setting))
        numbers = iter(range(1000))
        writing = in_turn(WRITING, lambda setting: write(cluster.servers, f"w{next(numbers)}", setting))
    content = {
        "versions": common.versions("penstock", "confluent-kafka"),
        "method": f"The figures are medians of {REPEATS} repeats, in which the settings take turns. Each repeat of reading is the "
        "better of two passes, after one pass that is not counted.",
        "values": {**READING, **WRITING},
        "reading": reading,
        "writing": writing,
    }
    common.write("kafka_settings", "python bench/kafka_settings.py", content)


def in_turn(settings: dict[str, str], measure: Any) -> dict[str, Any]:
    """Records per second with our settings, and with one of them changed at a time."""
    cases: list[str] = ["", *settings]
    found: dict[str, dict[str, list[float]]] = {}
    for repeat in range(REPEATS):
        for case in cases:
            changed = {case: settings[case]} if case else {}
            for what, rate in measure(changed).items():
                found.setdefault(what, {}).setdefault(case or OURS, []).append(rate)
                print(f"{repeat + 1}/{REPEATS} {what} {case or OURS}: {rate:.0f}", file=sys.stderr)
    return {
        what: {
            case: {
                "value": common.summary(rates),
                "ratio": common.summary([a / b for a, b in zip(rates, cases[OURS], strict=True)]),
            }
            for case, rates in cases.items()
        }
        for what, cases in found.items()
    }


def read(servers: str, changed: dict[str, str]) -> dict[str, float]:
    found = {}
    for how, name in ORDERS:
        command = [sys.executable, str(kafka.HERE / "peers" / "kafka_read.py"), servers, "records", how, str(RECORDS)]
        line = json.loads(common.last_line(command, variables(changed), fork=False))
        found[name] = max(line["rates"])
        found[f"memory while {name}"] = float(line["memory"])
    return found


def write(servers: str, topic: str, changed: dict[str, str]) -> dict[str, float]:
    os.environ.update(variables(changed))
    values = os.urandom(LENGTH * RECORDS)  # as incompressible as images, also together
    address = TopicAddress(servers, topic)
    create(address, Creation(4))
    began = time.perf_counter()
    with TopicWriter(address) as writer:
        for number in range(RECORDS):
            writer.send(values[number * LENGTH : (number + 1) * LENGTH], b"key", partition=number % 4)
    seconds = time.perf_counter() - began
    for name in variables(changed):
        del os.environ[name]
    return {"publishing": RECORDS / seconds}


def variables(changed: dict[str, str]) -> dict[str, str]:
    return {f"PENSTOCK_KAFKA_{key.upper().replace('.', '_')}": value for key, value in changed.items()}


if __name__ == "__main__":
    main()
