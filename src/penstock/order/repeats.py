"""How often every record comes in an epoch: repeat-factor sampling (Gupta et al. 2019, arXiv:1908.03195).

The numbers are worked out once, from the classes of all records; an epoch then has as many places as they add up to,
and a plan permutes those as it permutes records.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from penstock import seeds

_UNIT: Final = 2.0**-53


@dataclass(frozen=True)
class Repeats:
    """How often every record of a snapshot comes in an epoch, in the snapshot's order.

    Attributes:
        digest: a hash of the numbers.
        stops: int64 (records,), the first place behind each record's.
    """

    digest: str
    stops: NDArray[np.int64] = field(compare=False)

    @classmethod
    def of(cls, counts: NDArray[np.int64]) -> Self:
        """From the number of times that every record comes, at least once each: int64 (records,)."""
        stops = np.cumsum(counts)
        return cls(hashlib.blake2b(np.ascontiguousarray(counts, "<i8").tobytes(), digest_size=16).hexdigest(), stops)

    @cached_property
    def places(self) -> int:
        """Places of an epoch."""
        return int(self.stops[-1])

    @property
    def records(self) -> int:
        """Records of the snapshot."""
        return len(self.stops)

    def record(self, place: int) -> int:
        """The number of the record at a place."""
        return int(np.searchsorted(self.stops, place, side="right"))


def repeat_factors(present: NDArray[np.bool_], threshold: float) -> NDArray[np.float64]:
    """How often every record should come: float64 (records,), at least 1.

    A class that fewer than `threshold` of all records have is repeated sqrt(threshold / fraction) times; a record comes
    as often as the rarest of its classes.

    Args:
        present: which classes every record has, (records, classes).
        threshold: fraction of records, from 0 to 1.
    """
    fractions = present.mean(axis=0)
    rare = np.sqrt(threshold / np.maximum(fractions, 1 / max(1, len(present))))
    of_records = np.where(present, np.maximum(rare, 1), 1.0)
    return np.asarray(of_records.max(axis=1, initial=1.0), np.float64)


def whole_counts(factors: NDArray[np.float64], seed: int) -> NDArray[np.int64]:
    """Whole numbers that are factors on average, by the seed. NumPy promises not to change Philox's bits."""
    key = int.from_bytes(seeds.key(seed, "order", "repeats")[:16], "little")
    drawn = (np.random.Philox(key=key).random_raw(len(factors)) >> np.uint64(11)) * _UNIT
    below = np.floor(factors)
    return np.asarray(below + (drawn < factors - below), np.int64)
