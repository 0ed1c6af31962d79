"""Pixels that were painted with Label Studio's brush: run lengths of the bits of RGBA values.

Source: the format of `rle-pack` of thi.ng/umbrella, which Label Studio writes: the number of values in 32 bits, the
size of a value in 5, four sizes of run lengths in 4 each, and then runs: one bit for whether a single value is
repeated, two that choose the size of the run's length, the length less one, and the value or values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.images.header import MAX_PIXELS

_COLORS: Final = 4
_BYTE: Final = 8


class _Bits:
    """Bits, the highest of each byte first."""

    def __init__(self, data: bytes) -> None:
        self.bits = np.unpackbits(np.frombuffer(data, np.uint8))
        self.at = 0

    def read(self, count: int) -> int:
        """The next bits as a number."""
        return int(self.words(1, count)[0])

    def words(self, count: int, size: int) -> NDArray[np.int64]:
        """The next numbers of `size` bits each.

        Raises:
            ValueError: there are no more.
        """
        part = self.bits[self.at : self.at + count * size]
        if len(part) < count * size:
            message = "run lengths that end early"
            raise ValueError(message)
        self.at += count * size
        return part.reshape(count, size).astype(np.int64) @ (1 << np.arange(size - 1, -1, -1, dtype=np.int64))


def painted(lengths: Sequence[int], size: tuple[int, int]) -> NDArray[np.bool_]:
    """The painted pixels of an image of a (height, width): bool of that shape.

    Args:
        lengths: bytes of the packed run lengths.
        size: of the image.

    Raises:
        ValueError: they are no run lengths, or those of another size.
    """
    if size[0] * size[1] > MAX_PIXELS:
        message = f"an image of {size[0]} x {size[1]}"
        raise ValueError(message)
    bits = _Bits(bytes(lengths))
    total, word = bits.read(32), bits.read(5) + 1
    sizes = [bits.read(4) + 1 for _ in range(4)]
    if total != size[0] * size[1] * _COLORS or word != _BYTE:
        message = f"{total:,} values of {word} bits, for an image of {size[0]} x {size[1]}"
        raise ValueError(message)
    values = np.empty(total, np.uint8)
    at = 0
    while at < total:
        repeated = bits.read(1)
        length = bits.read(sizes[bits.read(2)]) + 1
        values[at : at + length] = bits.words(1 if repeated else length, word)[: total - at]
        at += length
    return values.reshape(*size, _COLORS)[..., _COLORS - 1] > 0
