"""All randomness: a keyed bijection for order, and a keyed stream of numbers for everything else.

Nothing here holds state. A draw is a function of `(seed, stage, position)` through BLAKE2b (RFC 7693), so it is the
same on every machine, in every thread and after every restart, and two seeds that differ by one share nothing. Golden
values in the tests pin both functions for ever.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

_MASK: Final = (1 << 64) - 1
_ROUNDS: Final = 8
_UNIT: Final = 2.0**-53


def key(seed: int, *parts: int | str) -> bytes:
    """16 bytes that identify a place in a run: the seed and a path of names and numbers under it."""
    return _path(seed, *parts).digest()


def keys(seed: int, name: str, numbers: Iterable[int]) -> list[bytes]:
    """`key(seed, name, number)` of many numbers."""
    every, begun = [], _path(seed, name)
    begun.update(b"\x1fint:")
    for number in numbers:
        one = begun.copy()
        one.update(b"%d" % number)
        every.append(one.digest())
    return every


def _path(*parts: int | str) -> hashlib.blake2b:
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return hashlib.blake2b(text.encode(), digest_size=16, person=b"penstock.key")


def below(n: int, material: bytes) -> int:
    """One integer in `[0, n)` from a key; the bias is below n / 2**128."""
    return int.from_bytes(material, "little") % n


@lru_cache(maxsize=64)
def _round_keys(material: bytes) -> tuple[int, ...]:
    wide = hashlib.blake2b(material, digest_size=8 * _ROUNDS, person=b"penstock.perm").digest()
    return struct.unpack(f"<{_ROUNDS}Q", wide)


@lru_cache(maxsize=256)
def _sides(n: int) -> tuple[int, int]:
    """The smallest rectangle `a * b >= n` with `a` the ceiling of the root: at most `a` cells are spare."""
    a = math.isqrt(n - 1) + 1 if n > 1 else 1
    return a, -(-n // a)


def _mix(value: int, round_key: int) -> int:
    """The finaliser of MurmurHash3 over a keyed value: a fixed, well-mixed function of 64 bits."""
    value = (value ^ round_key) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33


def permute(i: int, n: int, material: bytes) -> int:
    """Where item `i` of `n` goes under the bijection that `material` (from `key`) names.

    A Feistel network over a rectangle of about sqrt(n) by sqrt(n) cells, with additive rounds and cycle walking
    (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). Constant memory; microseconds at any `n`.

    Raises:
        ValueError: `i` is outside `[0, n)`.
    """
    if not 0 <= i < n:
        message = f"cannot permute item {i} of {n}"
        raise ValueError(message)
    a, b = _sides(n)
    keys = _round_keys(material)
    while True:
        left, right = divmod(i, b)
        for k in range(0, _ROUNDS, 2):
            left = (left + _mix(right, keys[k])) % a
            right = (right + _mix(left, keys[k + 1])) % b
        i = left * b + right
        if i < n:
            return i


def unpermute(j: int, n: int, material: bytes) -> int:
    """The inverse of `permute`: the item that goes to place `j`."""
    if not 0 <= j < n:
        message = f"cannot find the item at place {j} of {n}"
        raise ValueError(message)
    a, b = _sides(n)
    keys = _round_keys(material)
    while True:
        left, right = divmod(j, b)
        for k in range(_ROUNDS - 2, -1, -2):
            right = (right - _mix(left, keys[k + 1])) % b
            left = (left - _mix(right, keys[k])) % a
        j = left * b + right
        if j < n:
            return j


def permute_all(items: NDArray[np.int64], n: int, material: bytes) -> NDArray[np.int64]:
    """`permute` for many items at once, int64 (items,), all of them in `[0, n)`: a microsecond for three of them."""
    import numpy as np  # noqa: PLC0415 - order and augmentation need no numpy but for whole batches

    a, b = (np.uint64(side) for side in _sides(n))
    keys = [np.uint64(round_key) for round_key in _round_keys(material)]
    found, left_over, at = np.empty(len(items), np.uint64), np.arange(len(items)), items.astype(np.uint64)
    while len(left_over):
        left, right = at // b, at % b
        for k in range(0, _ROUNDS, 2):
            left = (left + _mix_all(right, keys[k]) % a) % a
            right = (right + _mix_all(left, keys[k + 1]) % b) % b
        at = left * b + right
        found[left_over] = at
        outside = at >= np.uint64(n)
        left_over, at = left_over[outside], at[outside]
    return found.astype(np.int64)


def _mix_all(values: NDArray[np.uint64], round_key: np.uint64) -> NDArray[np.uint64]:
    """`_mix` for many values; numpy's products of 64 bits wrap around as its mask does."""
    half = round_key.dtype.type(33)
    values = (values ^ round_key) * round_key.dtype.type(0xFF51AFD7ED558CCD)
    values = (values ^ values >> half) * round_key.dtype.type(0xC4CEB9FE1A85EC53)
    return values ^ values >> half


class Generator:
    """A stream of random numbers that is a pure function of its key.

    Block `c` of the stream is BLAKE2b keyed with the key over the counter `c`; each block gives eight numbers of 64
    bits. Creating one costs about a microsecond. Not for sharing between threads: make one per sample.
    """

    __slots__ = ("_block", "_counter", "_key", "_left", "_turn")

    def __init__(self, material: bytes, turn: Callable[[], int] = int) -> None:
        self._turn = turn
        self._key = material
        self._counter = 0
        self._block: tuple[int, ...] = ()
        self._left = 0

    @property
    def turn(self) -> int:
        """The epoch plus a constant of the record, for what is done by turns. It is computed when it is asked for."""
        return self._turn()

    def bits(self) -> int:
        """The next 64 random bits."""
        if not self._left:
            digest = hashlib.blake2b(self._counter.to_bytes(8, "little"), key=self._key).digest()
            self._block = struct.unpack("<8Q", digest)
            self._counter += 1
            self._left = 8
        self._left -= 1
        return self._block[7 - self._left]

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """A float in `[low, high)`, of 53 random bits."""
        return low + (high - low) * ((self.bits() >> 11) * _UNIT)

    def integer(self, stop: int) -> int:
        """An integer in `[0, stop)`; the bias is below stop / 2**64."""
        return self.bits() * stop >> 64

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self.uniform() < probability

    def choice(self, items: Sequence[T]) -> T:
        """One of the items, each as likely as the others."""
        return items[self.integer(len(items))]

    def numpy(self) -> np.random.Generator:
        """A numpy generator seeded from this stream, for code that wants one; numpy may change its streams."""
        import numpy as np  # noqa: PLC0415 - order and augmentation need no numpy here

        return np.random.Generator(np.random.Philox(key=self.bits()))


class Generators:
    """The generators of many positions at once: each draw gives an array with the next number of every one of them."""

    def __init__(self, seed: int, stage: str, positions: Sequence[int], turns: Callable[[], NDArray[np.int64]]) -> None:
        self._keys = keys(seed, stage, positions)
        self._turns = turns
        self._drawn = 0
        self._blocks: list[NDArray[np.uint64]] = []

    @property
    def turns(self) -> NDArray[np.int64]:
        """`Generator.turn` of each."""
        return self._turns()

    def uniform(self) -> NDArray[np.float64]:
        """A float in `[0, 1)` of each."""
        import numpy as np  # noqa: PLC0415 - as above

        counter, number = divmod(self._drawn, 8)
        if not number:
            head = counter.to_bytes(8, "little")
            digests = b"".join(hashlib.blake2b(head, key=material).digest() for material in self._keys)
            self._blocks.append(np.frombuffer(digests, "<u8").reshape(len(self._keys), 8))
        self._drawn += 1
        return (self._blocks[-1][:, number] >> np.uint64(11)).astype(np.float64) * _UNIT

    def chance(self, probability: float) -> NDArray[np.bool_]:
        """True with the given probability, of each."""
        return self.uniform() < probability

    def apart(self) -> Iterator[Generator]:
        """Each by itself, behind the numbers that were drawn of all."""
        for material in self._keys:
            one = Generator(material)
            for _ in range(self._drawn):
                one.bits()
            yield one


def generator(seed: int, stage: str, position: int, turn: Callable[[], int] = int) -> Generator:
    """The random numbers that belong to one stage at one position of one run."""
    return Generator(key(seed, stage, position), turn)
