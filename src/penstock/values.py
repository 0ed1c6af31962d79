"""The small frozen values that every layer speaks in."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
"""An image, (height, width, channels) or (height, width), or a mask of ids."""
AnyPixels = NDArray[Any]
"""As `Pixels`, but uint8 or uint16."""
Bits = NDArray[np.bool_]


class Address(NamedTuple):
    """Where a record is: the name of its partition and its offset there."""

    partition: str
    offset: int

    @property
    def origin(self) -> str:
        """The address as people read it, for example `train-00012-of-00064.tfrecord#431`."""
        return f"{self.partition}#{self.offset}"


@dataclass(frozen=True, slots=True)
class Record:
    """One record: its bytes and where they came from."""

    origin: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Partition:
    """A run of offsets `[start, stop)` and a fingerprint of what they hold."""

    name: str
    start: int
    stop: int
    fingerprint: str

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Snapshot:
    """A frozen view of a source: the partitions, in a fixed order, as they were at one moment."""

    source: str
    partitions: tuple[Partition, ...]

    def __len__(self) -> int:
        return self._length

    @cached_property
    def _length(self) -> int:
        return sum(len(partition) for partition in self.partitions)

    def first(self, count: int) -> Snapshot:
        """The first `count` records, or all records if there are fewer."""
        kept = []
        for partition in self.partitions:
            part = min(count, len(partition))
            if part:
                kept.append(replace(partition, stop=partition.start + part))
            count -= part
        return Snapshot(self.source, tuple(kept))

    @cached_property
    def digest(self) -> str:
        """A hash of names, offsets and fingerprints; where the source lies does not count, so copies are equal."""
        state = hashlib.blake2b(digest_size=16)
        for partition in self.partitions:
            line = f"{partition.name}\0{partition.start}\0{partition.stop}\0{partition.fingerprint}\n"
            state.update(line.encode())
        return state.hexdigest()


@dataclass(frozen=True, slots=True)
class Cursor:
    """The state of the data path: the next position, and the digest of its plan; "" for the start of any plan."""

    position: int = 0
    plan: str = ""


@dataclass(frozen=True, slots=True)
class BatchSlice:
    """The part of every global batch that one rank takes.

    Attributes:
        rank: its number, from 0 to `world_size - 1`.
        world_size: the number of ranks.
    """

    rank: int = 0
    world_size: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            message = f"rank {self.rank} is not one of {self.world_size} ranks"
            raise ValueError(message)

    def rows(self, size: int) -> range:
        """The indices within a global batch of `size` that belong to this rank; shares differ by at most one."""
        return range(size * self.rank // self.world_size, size * (self.rank + 1) // self.world_size)


@dataclass(frozen=True, slots=True)
class Object:
    """A box and its class id; edges in pixels of the upright image.

    `mask` is a PNG as large as the upright image, in which the object's pixels are above 0; empty where only its box is
    known.
    """

    label: int
    left: float
    top: float
    right: float
    bottom: float
    text: str = ""
    crowd: bool = False
    difficult: bool = False
    mask: bytes = b""
