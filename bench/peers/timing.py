"""How every contender is timed: passes over the data, the first one not counted."""

from __future__ import annotations

import json
import sys
import time

BATCH = 32


def measure(make, count, passes=2):
    """`make()` gives an iterator of batches; prints images per second of every counted pass."""
    rates = []
    for number in range(passes + 1):
        began, seen = time.perf_counter(), 0
        for batch in make():
            seen += len(batch)
            if seen >= count:
                break
        if number:
            rates.append(seen / (time.perf_counter() - began))
    print(json.dumps(rates))


def arguments():
    """Where the data is, what is done with it ("a" or "b"), and how many images make a pass."""
    return sys.argv[1], sys.argv[2], int(sys.argv[3])
