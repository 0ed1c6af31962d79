"""The fake source: records in memory, with faults on demand. Tests use it in place of patches and mocks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.errors import SourceError
from penstock.values import Partition, Record, Snapshot


@dataclass(frozen=True, slots=True)
class Fault:
    """Put in a record's place: reading it raises `error`."""

    error: Exception


class MemorySource:
    """Partitions of payloads; a `Fault` among them is raised when it is read."""

    def __init__(self, partitions: Mapping[str, Sequence[bytes | Fault]]) -> None:
        self.partitions = {name: list(items) for name, items in partitions.items()}

    def snapshot(self) -> Snapshot:
        """All payloads; the fingerprint of a partition is a hash of them."""
        return Snapshot("memory", tuple(_freeze(name, items) for name, items in self.partitions.items()))

    def read(self, partition: str, start: int, stop: int) -> Iterator[Record]:
        """The records `[start, stop)`, in order.

        Raises:
            SourceError: there is no such partition.
            Exception: what a fault holds.
        """
        if partition not in self.partitions:
            raise SourceError(
                "memory",
                expected=f"a partition named {partition}",
                found=", ".join(self.partitions) or "none",
                remedy="Read the partitions that the snapshot names",
            )
        for offset in range(start, stop):
            item = self.partitions[partition][offset]
            if isinstance(item, Fault):
                raise item.error
            yield Record(f"{partition}#{offset}", item)


def _freeze(name: str, items: Sequence[bytes | Fault]) -> Partition:
    state = hashlib.blake2b(digest_size=16)
    for item in items:
        data = b"" if isinstance(item, Fault) else item
        state.update(len(data).to_bytes(8, "little") + data)
    return Partition(name, 0, len(items), state.hexdigest())
