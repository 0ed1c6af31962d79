"""OpenCV's own threads, which rest while a pool of threads uses OpenCV."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Final

import cv2


class _Pools:
    """How many pools use OpenCV now, and how many threads it had before the first of them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # the end of a pool may come by garbage collection, in the middle of another's
        self.count = 0
        self.before = 0


_POOLS: Final = _Pools()


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """Have OpenCV compute in the thread that calls it, as its threads would compete for cores with those of a pool.

    The setting is the process's. What it was comes back with the end of the last pool.
    """
    with _POOLS.lock:
        if not _POOLS.count:
            _POOLS.before = cv2.getNumThreads()
            cv2.setNumThreads(0)
        _POOLS.count += 1
    try:
        yield
    finally:
        with _POOLS.lock:
            _POOLS.count -= 1
            if not _POOLS.count:
                cv2.setNumThreads(_POOLS.before)
