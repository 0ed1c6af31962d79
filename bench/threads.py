"""A feed whose threads live in the training process, beside one in a process of its own that hands batches over in shared
memory: images per second while the training thread waits, computes without the interpreter's lock, or holds it.

    python bench/threads.py [WORK]      the photographs of bench/photos.py, made where they are not there

The shared memory is anonymous, so that nothing is left of it after kill -9.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import common
import numpy as np
import photos
import torch
from peers.samples import PREPARE

from penstock.feed import Feed
from penstock.images import single_threaded
from penstock.order import Plan, Shuffle
from penstock.sources import FilesSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCHES, REPEATS = common.sized((40, 5), (2, 1))
BATCH, SLOTS, THREADS = 16, 4, 2
READY = SLOTS + 6
"""Batches that a feed and its slots may hold before somebody takes one."""
HELD = 0.010
"""Seconds that the training thread works for each batch."""
PLACES = ("threads of the training process", "a process of its own")


def waits() -> None:
    """Nothing between two batches: as fast as the feed can."""


def computes() -> None:
    """Native work without the lock, as a training step is."""
    end = time.perf_counter() + HELD
    while time.perf_counter() < end:
        torch.mm(MATRIX, MATRIX)


def holds() -> None:
    """Python work, as hooks and loops of users are."""
    end = time.perf_counter() + HELD
    while time.perf_counter() < end:
        sum(range(200))


MATRIX = torch.ones(192, 192)
WORK = {"waits": waits, "computes": computes, "holds the lock": holds}


def inside(feed: Feed) -> Iterator[Any]:
    """The batches of a feed of this process."""
    for batch in feed.batches():
        yield batch.tensors["image"]


def beside(feed: Feed) -> Iterator[Any]:
    """The batches of a feed in a fork, by turns in some slots of shared memory; a byte through a pipe says which is ready
    or free.

    The fork is made with the first batch, which is to be taken before this process has decoded anything: a fork of a
    process whose threads use OpenCV may inherit a lock that nobody opens again.
    """
    size = BATCH * int(np.prod(feed.prepare.fields["image"].shape))
    memory = mmap.mmap(-1, SLOTS * size)
    slots = np.frombuffer(memory, np.uint8).reshape(SLOTS, BATCH, *feed.prepare.fields["image"].shape)
    (ready, made), (free, given) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        try:
            for number, batch in enumerate(feed.batches()):
                if number >= SLOTS:
                    os.read(free, 1)
                slots[number % SLOTS] = batch.tensors["image"].numpy()
                os.write(made, b"x")
        finally:
            os._exit(1)
    os.close(made)
    try:
        number = 0
        while os.read(ready, 1):
            yield torch.from_numpy(slots[number % SLOTS])
            os.write(given, b"x")
            number += 1
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def rate(batches: Iterator[Any], work: Callable[[], None]) -> float:
    """Images per second, after those batches that may have been ready before."""
    for _ in range(READY):
        next(batches)
    began = time.perf_counter()
    for _ in range(BATCHES):
        next(batches)
        work()
    return BATCHES * BATCH / (time.perf_counter() - began)


@single_threaded()
def main() -> None:
    work = Path(sys.argv[1] if len(sys.argv) > 1 else "/tmp/penstock-bench-feed")
    torch.set_num_threads(1)
    source = FilesSource(*sorted(photos.made(work, "photos").glob("*.tfrecord")))
    feed = Feed(Plan(source.snapshot(), 1, Shuffle()), source, PREPARE["a"], batch=BATCH, threads=THREADS)
    apart = beside(feed)
    next(apart)
    found: dict[str, dict[str, list[float]]] = {name: {place: [] for place in PLACES} for name in WORK}
    with contextlib.closing(apart):
        for _ in range(REPEATS):
            for name, busy in WORK.items():
                with contextlib.closing(inside(feed)) as here:
                    for place, batches in zip(PLACES, (here, apart), strict=True):
                        found[name][place].append(rate(batches, busy))
    rows = {
        name: {
            **{place: common.summary(rates[place]) for place in PLACES},
            "ratio": common.summary([one / other for one, other in zip(*rates.values(), strict=True)]),
        }
        for name, rates in found.items()
    }
    common.write("threads", "python bench/threads.py", {"versions": common.versions("penstock", "torch"), "rows": rows})


if __name__ == "__main__":
    main()
