"""Runs of a topic's offsets, read at once and kept for a while."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Final, NamedTuple

from penstock.extensions.kafka.log import Message
from penstock.sources import waiting

Block = Mapping[int, Message]

_AROUND: Final = 700  # bytes of the objects around a value: message, headers, numbers, places in tables (tracemalloc)


class RecordRun(NamedTuple):
    """Offsets `[start, stop)` of a partition."""

    partition: int
    start: int
    stop: int


class Blocks:
    """The runs used last, up to some bytes; each is fetched once, however many threads want it.

    Attributes:
        memory: bytes of messages to keep; one run is kept even if it is larger.
        held: bytes that are kept now.
        fetched: how many runs were fetched.
    """

    def __init__(self, fetch: Callable[[RecordRun], Block], memory: int) -> None:
        self.memory = memory
        self.held = self.fetched = 0
        self._fetch = fetch
        self._runs: OrderedDict[RecordRun, Future[Block]] = OrderedDict()
        self._where: dict[tuple[int, int], RecordRun] = {}
        self._lock = threading.Lock()

    def holding(self, partition: int, offset: int) -> RecordRun | None:
        """The run with an offset that is there, or on its way."""
        return self._where.get((partition, offset))

    def get(self, run: RecordRun) -> Block:
        """The messages of a run by offset: from memory, from the thread that is fetching it, or fetched now.

        Raises:
            Exception: what fetching raised, in every thread that waited for it.
            InterruptedError: the caller has given up.
        """
        with self._lock:
            future = self._runs.get(run)
            if future is not None:
                self._runs.move_to_end(run)
            else:
                mine = self._runs[run] = Future()
                self._where.update(((run.partition, offset), run) for offset in range(run.start, run.stop))
        if future is not None:
            return self._awaited(run, future)
        try:
            block = self._fetch(run)
        except BaseException as error:
            with self._lock:
                self._forget(run)
            mine.set_exception(error)
            raise
        mine.set_result(block)
        self._keep(block)
        return block

    def _awaited(self, run: RecordRun, future: Future[Block]) -> Block:
        """What another thread is fetching; where that one gave up, it is fetched for this one."""
        try:
            return future.result()
        except InterruptedError:
            waiting.check()
            return self.get(run)

    def _forget(self, run: RecordRun) -> Future[Block]:
        for offset in range(run.start, run.stop):
            if self._where.get((run.partition, offset)) == run:
                del self._where[run.partition, offset]
        return self._runs.pop(run)

    def _keep(self, block: Block) -> None:
        with self._lock:
            self.fetched += 1
            self.held += _weight(block)
            for run in [run for run, future in self._runs.items() if future.done()][:-1]:
                if self.held <= self.memory:
                    return
                self.held -= _weight(self._forget(run).result())


def _weight(block: Block) -> int:
    return sum(_AROUND + len(m.value or b"") + len(m.key or b"") for m in block.values())
