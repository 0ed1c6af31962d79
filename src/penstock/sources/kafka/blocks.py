"""Blocks of a topic, read at once and kept for a while."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.sources.kafka.log import Message

    Key = tuple[int, int]
    Block = Mapping[int, Message]


class Blocks:
    """The blocks used last, up to some bytes; each is fetched once, however many threads want it.

    Attributes:
        memory: bytes of messages to keep; one block is kept even if it is larger.
        held: bytes that are kept now.
        fetched: how many blocks were fetched.
    """

    def __init__(self, fetch: Callable[[Key], Block], memory: int) -> None:
        self.memory = memory
        self.held = self.fetched = 0
        self._fetch = fetch
        self._blocks: OrderedDict[Key, Future[Block]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key) -> Block:
        """The messages of a block by offset: from memory, from the thread that is fetching it, or fetched now.

        Raises:
            Exception: what fetching raised, in every thread that waited for it.
        """
        with self._lock:
            future = self._blocks.get(key)
            if future is not None:
                self._blocks.move_to_end(key)
            else:
                mine = self._blocks[key] = Future()
        if future is not None:
            return future.result()
        try:
            block = self._fetch(key)
        except BaseException as error:
            with self._lock:
                del self._blocks[key]
            mine.set_exception(error)
            raise
        mine.set_result(block)
        self._keep(block)
        return block

    def _keep(self, block: Block) -> None:
        with self._lock:
            self.fetched += 1
            self.held += _weight(block)
            for key in [key for key, future in self._blocks.items() if future.done()][:-1]:
                if self.held <= self.memory:
                    return
                self.held -= _weight(self._blocks.pop(key).result())


def _weight(block: Block) -> int:
    return sum(len(message.value or b"") for message in block.values())
