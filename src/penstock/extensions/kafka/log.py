"""The narrow seam to a broker: what a topic is, and reading a range of its offsets. `client` speaks to Kafka, `fake` is
kept in memory; one suite of tests holds both to the same words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a partition.

    Attributes:
        offset: where it is.
        value: its bytes; None in a tombstone.
        key: its key, if it has one.
        headers: names and values, in order.
        epoch: the leader epoch it was written in; -1 where the broker does not say.
        time: when it was written, in milliseconds since 1970, UTC; -1 where the broker does not say.
    """

    offset: int
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    epoch: int = -1
    time: int = -1


@dataclass(frozen=True, slots=True)
class Extent:
    """What a partition holds now.

    Attributes:
        partition: its number.
        low: the first offset that retention has left.
        stop: the last stable offset: where transactions that are still open begin, or one past the last message.
        epoch: the leader epoch of its end; -1 where the broker does not say.
    """

    partition: int
    low: int
    stop: int
    epoch: int = -1


@dataclass(frozen=True)
class Topic:
    """A topic as it is now.

    Attributes:
        cluster, id: a topic that was deleted and made again has another id; a name may lead to another cluster.
        name: the topic's.
        extents: of its partitions, by number.
        settings: its configuration: `cleanup.policy`, `retention.ms`, ...
    """

    cluster: str
    id: str
    name: str
    extents: tuple[Extent, ...]
    settings: Mapping[str, str] = field(default_factory=dict)


class Log(Protocol):
    """One topic of one cluster. Methods may be called from many threads at once.

    Attributes:
        timeout: seconds without an answer after which a question is an error.
    """

    timeout: float

    @property
    def name(self) -> str:
        """The topic's name."""

    def topic(self, seconds: float = 20.0) -> Topic:
        """The topic as it is now, asked for so long.

        Raises:
            SourceError: the cluster cannot be reached, or the topic is not there or not for us.
        """

    def topic_id(self, seconds: float = 20.0) -> str:
        """The id of the topic that is behind the name now, for one question instead of `topic`'s five.

        Raises:
            SourceError: as `topic`.
        """

    def fetch(self, partition: int, start: int, stop: int) -> list[Message]:
        """All messages with offsets in `[start, stop)`, in order; aborted ones and markers are left out.

        Waits while the broker is away. `stop` must not lie beyond the last stable offset.

        Raises:
            SourceError: the broker was away for too long, or the offsets are gone.
            InterruptedError: nobody waits for them any more (`sources.waiting`).
        """

    def offsets_at(self, milliseconds: int) -> dict[int, int]:
        """For every partition the first offset whose timestamp (since 1970, UTC) is not earlier, or its end."""

    def commit_offsets(self, group: str, offsets: Mapping[int, int]) -> None:
        """Commit a consumer group's offsets, by partition, for dashboards that show its lag; nothing ever reads them.

        Raises:
            SourceError: the broker did not take them.
        """
