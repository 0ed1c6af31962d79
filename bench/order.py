"""Microseconds of `Plan.at` by the number of records and the shuffle, and of starting the command line.

python bench/order.py
"""

from __future__ import annotations

import subprocess
import sys
import time

import common

from penstock.order import Plan, Shuffle
from penstock.values import Partition, Snapshot

CALLS, REPEATS = common.sized((20_000, 5), (100, 1))


def main() -> None:
    plans = {}
    for exponent in (3, 6, 9):
        for name, shuffle in (
            ("full shuffle", Shuffle()),
            ("blocks of 16 records, windows of 64 blocks", Shuffle(16, 64)),
        ):
            snapshot = Snapshot("bench", tuple(Partition(f"p{i}", 0, 10**exponent // 100, "x") for i in range(100)))
            plan = Plan(snapshot, 1, shuffle)
            plans[f"10^{exponent} records, {name}"] = common.summary([microseconds(plan) for _ in range(REPEATS)])
    starts = {
        f"penstock {argument}": common.summary([start(argument) for _ in range(REPEATS)])
        for argument in ("--help", "--version")
    }
    common.write(
        "order",
        "python bench/order.py",
        {"versions": common.versions("penstock", "cyclopts"), "microseconds_per_at": plans, "seconds_to_start": starts},
    )


def microseconds(plan: Plan) -> float:
    began = time.perf_counter()
    for i in range(CALLS):
        plan.at(i * 7919)
    return (time.perf_counter() - began) / CALLS * 1e6


def start(argument: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "penstock", argument], check=True, capture_output=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
