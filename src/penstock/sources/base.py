"""The seam between Penstock and the places where records are kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from penstock.values import Record, Snapshot


class Source(Protocol):
    """A set of partitions that can be frozen and read, by many threads at once. It needs no closing."""

    def snapshot(self) -> Snapshot:
        """What the source holds now. Reading it later gives these records or an error, never others.

        Raises:
            SourceError: there is nothing to read, or it cannot be reached.
        """

    def read(self, partition: str, start: int, stop: int) -> Iterator[Record]:
        """The records `[start, stop)` of a partition, in order, each verified; offsets may hold none.

        Raises:
            SourceError: the partition is unknown or has gone.
            CorruptRecord: a record is damaged.
        """


@runtime_checkable
class Prefetching(Protocol):
    """Extra methods of a source that reads a run of records more cheaply than single records."""

    @property
    def block(self) -> int:
        """How many records in natural order make a run."""

    def prefetch(self, partition: str, start: int, stop: int) -> None:
        """Read a run of offsets that will soon be wanted one by one; errors are left to who reads them."""
