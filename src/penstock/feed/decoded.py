"""Decoded records of a split that is small: each is decoded once, and samples are gathered from arrays of them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from penstock.feed.draws import first_turn, generators
from penstock.feed.prepare import Field, Gathering
from penstock.order import Plan
from penstock.values import Address, Record

MAX_BYTES: Final = 256 << 20
"""Memory of a split that is kept decoded."""

_MAX_OTHERS: Final = 8
"""Records that do not fit, as they are of other sizes or too large, after which no more are tried."""

_NEW, _KEPT, _LEFT = range(3)


def may_fit(fields: Mapping[str, Field], records: int) -> bool:
    """Whether so many decoded records may fit: each takes at least as much memory as a sample of these tensors."""
    return records * sum(math.prod(each.shape) * np.dtype(each.dtype).itemsize for each in fields.values()) <= MAX_BYTES


class Decoded:
    """The records of a snapshot as `prepare` decodes them, before any augmentation, by their numbers.

    A record that cannot be kept, as it is damaged, missing, or of another size than the first one, is left: its samples
    are made one by one, where what is wrong with it is named. Threads may keep the same record at once; they write the
    same.
    """

    def __init__(self, prepare: Gathering, plan: Plan, read: Callable[[Address], Record | None]) -> None:
        self._prepare, self._plan, self._read = prepare, plan, read
        records = len(plan.snapshot)
        self._arrays: dict[str, NDArray[Any]] = {}
        self._states = np.full(records, _NEW, np.uint8)
        self._turns = np.zeros(records, np.int64)
        self._origins = [""] * records
        self._others = 0
        self._lock = threading.Lock()

    @property
    def whole(self) -> bool:
        """Whether no record needs to be read any more."""
        return bool((self._states == _KEPT).all())

    def gather(self, positions: range, out: Mapping[str, NDArray[Any]], *, augment: bool) -> dict[int, str]:
        """Write the samples at some positions into their rows of `out`, but for those whose records are left.

        Returns:
            The origins of the records whose samples were written, by position.
        """
        every = np.arange(positions.start, positions.stop)
        records = self._plan.records(every)
        for number in np.unique(records[self._states[records] == _NEW]).tolist():
            if self._states[number] == _NEW:  # the ones before it may have ended the trying
                self._keep(number)
        kept = self._states[records] == _KEPT
        chosen, at = records[kept], every[kept]
        if len(chosen):
            numbers = generators(self._plan, at, self._turns[chosen]) if augment else None
            rows = out if kept.all() else {name: np.empty_like(array[: len(chosen)]) for name, array in out.items()}
            self._prepare.gather(self._arrays, chosen, numbers, rows)
            if rows is not out:
                for name, array in rows.items():
                    out[name][kept] = array
        return {position: self._origins[number] for position, number in zip(at.tolist(), chosen.tolist(), strict=True)}

    def _keep(self, number: int) -> None:
        """Read and decode a record, where it is there and can be kept."""
        address = self._plan.address(number)
        record, arrays = self._decode(address)
        if record is None or arrays is None or not self._fits(arrays):
            self._states[number] = _LEFT
            return
        for name, array in arrays.items():
            self._arrays[name][number] = array
        self._origins[number], self._turns[number] = record.origin, first_turn(self._plan, address)
        self._states[number] = _KEPT

    def _decode(self, address: Address) -> tuple[Record | None, Mapping[str, NDArray[Any]] | None]:
        try:
            record = self._read(address)
            return record, self._prepare.decode(record) if record else None
        except Exception:  # noqa: BLE001 - raised again, and named, where its sample is made
            return None, None

    def _fits(self, arrays: Mapping[str, NDArray[Any]]) -> bool:
        """Whether a record is as the first one, which says how much memory all of them take."""
        with self._lock:
            if not self._arrays:
                self._allocate(arrays)
        if self._arrays and all(array.shape == self._arrays[name].shape[1:] for name, array in arrays.items()):
            return True
        self._others += 1
        if self._others > _MAX_OTHERS:
            self._states[self._states == _NEW] = _LEFT
        return False

    def _allocate(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        records = len(self._states)
        if records * sum(array.nbytes for array in arrays.values()) <= MAX_BYTES:
            self._arrays = {name: np.empty((records, *array.shape), array.dtype) for name, array in arrays.items()}
