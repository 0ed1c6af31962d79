"""A broker in memory: topics with everything that makes real ones hard, on demand."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.errors import SourceError
from penstock.extensions.kafka import mistakes
from penstock.extensions.kafka.log import Extent, Message, Topic


@dataclass
class _Partition:
    """Messages by offset; an offset without one is a hole."""

    messages: dict[int, Message] = field(default_factory=dict)
    low: int = 0
    end: int = 0
    open_from: int | None = None
    epoch: int = 0


class FakeLog:
    """One topic in memory. The methods beyond `Log`'s do to it what producers, retention and people do."""

    def __init__(
        self, name: str = "topic", partitions: int = 1, *, cluster: str = "fake", topic_id: str = "first"
    ) -> None:
        self.name = name
        self.settings = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
        self.away: SourceError | None = None
        self.timeout = 300.0
        self.fetched: list[tuple[int, int, int]] = []
        self.committed: dict[tuple[str, int], int] = {}
        self._cluster, self._id = cluster, topic_id
        self._partitions = [_Partition() for _ in range(partitions)]
        self._lock = threading.Lock()

    def topic(self, seconds: float = 20.0) -> Topic:
        """The topic as it is now."""
        if self.away:
            raise self.away
        with self._lock:
            extents = tuple(
                Extent(number, p.low, p.end if p.open_from is None else p.open_from, p.epoch)
                for number, p in enumerate(self._partitions)
            )
            return Topic(self._cluster, self._id, self.name, extents, dict(self.settings))

    def topic_id(self, seconds: float = 20.0) -> str:
        """The id that the topic has now."""
        if self.away:
            raise self.away
        return self._id

    def fetch(self, partition: int, start: int, stop: int) -> list[Message]:
        """All messages with offsets in `[start, stop)`."""
        if self.away:
            raise self.away
        with self._lock:
            self.fetched.append((partition, start, stop))
            held = self._partitions[partition]
            if start < held.low:
                raise mistakes.expired(self.name, partition, start, held.low, self.settings)
            return [held.messages[offset] for offset in range(start, stop) if offset in held.messages]

    def offsets_at(self, milliseconds: int) -> dict[int, int]:
        """For every partition the first offset that is not earlier, or its end."""
        return {
            number: min((o for o, kept in p.messages.items() if kept.time >= milliseconds), default=p.end)
            for number, p in enumerate(self._partitions)
        }

    def commit_offsets(self, group: str, offsets: Mapping[int, int]) -> None:
        """Keep a group's offsets in `committed`."""
        if self.away:
            raise self.away
        self.committed.update({(group, number): offset for number, offset in offsets.items()})

    def append(
        self,
        value: bytes | None,
        partition: int = 0,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        milliseconds: int = 0,
    ) -> int:
        """A message at the end of a partition; its offset."""
        with self._lock:
            held = self._partitions[partition]
            message = Message(held.end, value, key, tuple(headers), held.epoch, milliseconds)
            held.messages[held.end] = message
            held.end += 1
            return message.offset

    def hole(self, partition: int = 0, count: int = 1) -> None:
        """Offsets that hold no message: a transaction's marker, or what was aborted."""
        self._partitions[partition].end += count

    def open_transaction(self, partition: int = 0) -> None:
        """All that is appended from here on is not stable yet."""
        self._partitions[partition].open_from = self._partitions[partition].end

    def commit(self, partition: int = 0) -> None:
        """End the transaction, with its marker."""
        self._partitions[partition].open_from = None
        self.hole(partition)

    def abort(self, partition: int = 0) -> None:
        """End the transaction; what it wrote is no longer there."""
        held = self._partitions[partition]
        for offset in range(held.open_from or 0, held.end):
            held.messages.pop(offset, None)
        self.commit(partition)

    def expire(self, partition: int, low: int) -> None:
        """Retention: everything before `low` goes."""
        held = self._partitions[partition]
        held.low = low
        held.messages = {offset: kept for offset, kept in held.messages.items() if offset >= low}

    def compact(self, partition: int, *offsets: int) -> None:
        """Compaction: some messages go."""
        for offset in offsets:
            self._partitions[partition].messages.pop(offset, None)

    def truncate(self, partition: int, end: int) -> None:
        """An unclean election: the end of the log is lost, and a new leader writes on from there."""
        held = self._partitions[partition]
        held.messages = {offset: kept for offset, kept in held.messages.items() if offset < end}
        held.end, held.epoch = end, held.epoch + 1

    def recreate(self, topic_id: str = "second") -> None:
        """The topic is deleted and made again."""
        self._id, self._partitions = topic_id, [_Partition() for _ in self._partitions]

    def grow(self, partitions: int) -> None:
        """More partitions."""
        self._partitions += [_Partition() for _ in range(partitions - len(self._partitions))]

    def move(self, cluster: str) -> None:
        """The name leads to another cluster, with a topic of the same id."""
        self._cluster = cluster

    def spoil(self, partition: int, offset: int, value: bytes) -> None:
        """Another value in a message's place, as no broker would have it."""
        held = self._partitions[partition]
        held.messages[offset] = replace(held.messages[offset], value=value)
