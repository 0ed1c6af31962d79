"""Order is arithmetic: a `Plan` maps a position in training to the address of a record, without memory of the past.

An epoch numbers the records of the snapshot, rotates the numbering by a keyed amount, cuts it into blocks of `block`
consecutive records, permutes the blocks, groups `window` successive blocks, and permutes the records within each such
window. `block=1` is a true global shuffle. The permutations are keyed bijections, so `at()` costs microseconds and no
memory at any position of a billion records.
"""

from __future__ import annotations

import bisect
import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock import seeds
from penstock.errors import PlanError
from penstock.order.repeats import Repeats
from penstock.values import Address, BatchSlice, Cursor, Snapshot

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Shuffle:
    """How an epoch is shuffled: blocks of `block` consecutive records, mixed within windows of `window` blocks."""

    block: int = 1
    window: int = 1

    def __post_init__(self) -> None:
        if self.block < 1 or self.window < 1:
            message = f"a shuffle needs a block and a window of at least 1, not {self.block} and {self.window}"
            raise ValueError(message)


class _Epoch(NamedTuple):
    """What an epoch's arithmetic needs: the rotation, the place of the short block, and the keys."""

    rotation: int
    short_place: int
    blocks_key: bytes
    number: int


@dataclass(frozen=True)
class Plan:
    """The order of a snapshot's records: natural when `shuffle` is None, else a new permutation every epoch.

    Attributes:
        snapshot: the records.
        seed: of the permutations.
        shuffle: how an epoch is shuffled.
        repeats: how often each record comes in an epoch; None for once.
    """

    snapshot: Snapshot
    seed: int = 0
    shuffle: Shuffle | None = None
    repeats: Repeats | None = None

    def __post_init__(self) -> None:
        if not len(self.snapshot):
            raise PlanError(
                self.snapshot.source,
                expected="at least one record to train on",
                found="none",
                remedy="Check that the right split was packed and named",
            )

    def __len__(self) -> int:
        return self.repeats.places if self.repeats else len(self.snapshot)

    @property
    def end(self) -> None:
        """Where the order ends: nowhere, epoch follows epoch."""

    def epoch(self, position: int) -> float:
        """How many epochs a position has behind it."""
        return position / len(self)

    @cached_property
    def digest(self) -> str:
        """Names the order: equal digests give equal records at equal positions."""
        shuffle = f"{self.shuffle.block}/{self.shuffle.window}" if self.shuffle else "natural"
        repeats = f"{self.repeats.digest}\n" if self.repeats else ""
        text = f"plan {_VERSION}\n{self.snapshot.digest}\n{self.seed}\n{shuffle}\n{repeats}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def at(self, position: int) -> Address:
        """The address of the record at a position, from 0 on without end; epoch is `position // len(plan)`."""
        number, place = divmod(position, len(self))
        return self._address(self._record(number, place) if self.shuffle else place)

    def records(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The records at many positions: their numbers in the snapshot, from 0 on; `address` says where they lie."""
        numbers, places = np.divmod(positions, len(self))
        if self.shuffle:
            for number in np.unique(numbers):
                chosen = numbers == number
                places[chosen] = self._shuffled(self.shuffle, int(number), places[chosen])
        return np.searchsorted(self.repeats.stops, places, side="right") if self.repeats else places

    def _shuffled(self, shuffle: Shuffle, number: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """`_record` for many places of an epoch."""
        epoch = _epoch(len(self), self.seed, shuffle.block, number)
        whole, short_window = shuffle.block * shuffle.window, epoch.short_place // shuffle.window
        late = places >= (short_window + 1) * whole - self._missing
        windows, inside = np.divmod(places + np.where(late, self._missing, 0), whole)
        for window in np.unique(windows) if whole > 1 else ():
            chosen, size = windows == window, self._window_size(epoch, shuffle, int(window))
            inside[chosen] = seeds.permute_all(inside[chosen], size, _window_key(self.seed, number, int(window)))
        first = windows * shuffle.window
        short_place = epoch.short_place - first
        behind = (short_place >= 0) & (inside >= (short_place + 1) * shuffle.block - self._missing)
        block_place, offset = np.divmod(inside + np.where(behind, self._missing, 0), shuffle.block)
        blocks = seeds.permute_all(first + block_place, self._blocks, epoch.blocks_key)
        return (blocks * shuffle.block + offset + epoch.rotation) % len(self)

    def reach(self, position: int, natural: int = 64) -> tuple[int, list[tuple[str, int, int]]]:
        """What will be wanted together with a position, for sources that read runs of records at once.

        Args:
            position: from 0 on without end.
            natural: how many positions are a window in natural order.

        Returns:
            The first position behind the window that `position` lies in, and the runs of offsets (partition, start,
            stop) that hold the window's records.
        """
        number, place = divmod(position, len(self))
        if self.shuffle is None:
            first = place // natural * natural
            stop = min(first + natural, len(self))
            return number * len(self) + stop, self._runs(first, stop - first)
        epoch = _epoch(len(self), self.seed, self.shuffle.block, number)
        window, inside = self._window(epoch, self.shuffle, place)
        blocks = range(window * self.shuffle.window, min((window + 1) * self.shuffle.window, self._blocks))
        runs = [run for import_path_of in blocks for run in self._block_runs(epoch, import_path_of)]
        return position - inside + self._window_size(epoch, self.shuffle, window), runs

    def _block_runs(self, epoch: _Epoch, place: int) -> list[tuple[str, int, int]]:
        """Where the records of the block at a place lie."""
        size = self.shuffle.block if self.shuffle else 1
        block = seeds.permute(place, self._blocks, epoch.blocks_key)
        length = size - (self._missing if block == self._blocks - 1 else 0)
        first = (block * size + epoch.rotation) % len(self)
        wrapped = max(0, first + length - len(self))
        return self._runs(first, length - wrapped) + self._runs(0, wrapped)

    def _runs(self, first: int, length: int) -> list[tuple[str, int, int]]:
        """What lies at consecutive places of the unshuffled epoch, as runs of offsets."""
        if self.repeats and length > 0:
            last = self.repeats.record(first + length - 1)
            first = self.repeats.record(first)
            length = last - first + 1
        runs = []
        while length > 0:
            address = self.address(first)
            index = bisect.bisect_right(self._stops, first)
            taken = min(length, self._stops[index] - first)
            runs.append((address.partition, address.offset, address.offset + taken))
            first, length = first + taken, length - taken
        return runs

    @cached_property
    def _blocks(self) -> int:
        return -(-len(self) // (self.shuffle.block if self.shuffle else 1))

    def batch(self, k: int, size: int, batch_slice: BatchSlice = BatchSlice()) -> list[Address]:  # noqa: B008 - frozen
        """The addresses of one rank's slice of global batch `k`: positions `[k * size, (k + 1) * size)`."""
        return [self.at(k * size + i) for i in batch_slice.rows(size)]

    def start(self, cursor: Cursor) -> int:
        """The position of a cursor, once it is known to belong to this plan.

        Raises:
            PlanError: the cursor counts in another plan.
        """
        if cursor.plan not in ("", self.digest):
            raise PlanError(
                f"position {cursor.position:,} of {self.snapshot.source}",
                expected=f"a cursor of this order of records ({self.digest})",
                found=f"a cursor of another order ({cursor.plan})",
                remedy="The records, the seed or the shuffle changed since the checkpoint. Restore them, or start a "
                "new run from its weights with --init RUN",
            )
        return cursor.position

    @cached_property
    def _stops(self) -> list[int]:
        return list(accumulate(len(partition) for partition in self.snapshot.partitions))

    def _address(self, place: int) -> Address:
        """The record at a place of the unshuffled epoch."""
        return self.address(self.repeats.record(place) if self.repeats else place)

    def address(self, record: int) -> Address:
        """Where a record of the snapshot lies, by its number."""
        index = bisect.bisect_right(self._stops, record)
        partition = self.snapshot.partitions[index]
        return Address(partition.name, partition.stop - (self._stops[index] - record))

    def _record(self, number: int, place: int) -> int:
        shuffle = self.shuffle or Shuffle()
        epoch = _epoch(len(self), self.seed, shuffle.block, number)
        window, inside = self._window(epoch, shuffle, place)
        first = window * shuffle.window
        size = self._window_size(epoch, shuffle, window)
        mixed = seeds.permute(inside, size, _window_key(self.seed, number, window)) if size > 1 else 0
        block_place, offset = _within(mixed, epoch.short_place - first, shuffle.block, self._missing)
        blocks = -(-len(self) // shuffle.block)
        block = seeds.permute(first + block_place, blocks, epoch.blocks_key)
        return (block * shuffle.block + offset + epoch.rotation) % len(self)

    @cached_property
    def _missing(self) -> int:
        """How many records the last block is short of."""
        block = self.shuffle.block if self.shuffle else 1
        return -len(self) % block

    def _window(self, epoch: _Epoch, shuffle: Shuffle, place: int) -> tuple[int, int]:
        """The window of a place, and the place within it; the window of the short block is smaller than the others."""
        whole = shuffle.block * shuffle.window
        short_window = epoch.short_place // shuffle.window
        shift = self._missing if place >= (short_window + 1) * whole - self._missing else 0
        return divmod(place + shift, whole)

    def _window_size(self, epoch: _Epoch, shuffle: Shuffle, window: int) -> int:
        blocks = min(shuffle.window, -(-len(self) // shuffle.block) - window * shuffle.window)
        short = epoch.short_place // shuffle.window == window
        return blocks * shuffle.block - (self._missing if short else 0)


def _within(mixed: int, short_place: int, block: int, missing: int) -> tuple[int, int]:
    """Which block of its window a record falls into, and where in it, when block `short_place` lacks `missing`."""
    end_of_short = (short_place + 1) * block - missing
    if short_place >= 0 and mixed >= end_of_short:
        return divmod(mixed + missing, block)
    return divmod(mixed, block)


@lru_cache(maxsize=8)
def _epoch(records: int, seed: int, block: int, number: int) -> _Epoch:
    blocks = -(-records // block)
    blocks_key = seeds.key(seed, "order", "blocks", number)
    rotation = seeds.below(records, seeds.key(seed, "order", "rotation", number))
    return _Epoch(rotation, seeds.unpermute(blocks - 1, blocks, blocks_key), blocks_key, number)


@lru_cache(maxsize=32)
def _window_key(seed: int, number: int, window: int) -> bytes:
    return seeds.key(seed, "order", "window", number, window)
