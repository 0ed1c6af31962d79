"""How every contender is timed: passes over the data, the first one not counted."""

from __future__ import annotations

import json
import sys
import time

BATCH = 32


def measure(make, count, passes=2):
    """`make()` gives batches; prints images per second of every counted pass, from its beginning to its last batch."""
    rates = []
    for number in range(passes + 1):
        began, seen, batches = time.perf_counter(), 0, iter(make())
        while seen < count and (batch := next(batches, None)) is not None:
            seen += len(batch)
        seconds = time.perf_counter() - began  # what is under way behind the last batch ends outside of it
        del batches
        if number:
            rates.append(seen / seconds)
    print(json.dumps(rates))


def arguments():
    """Where the data is, what is done with it ("a" or "b"), and how many images make a pass."""
    return sys.argv[1], sys.argv[2], int(sys.argv[3])
