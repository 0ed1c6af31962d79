"""Run lengths as COCO has them: how many pixels are outside and inside by turns, down the columns of the image.

Compressed ones are text of five bits a letter. Source: cocoapi, common/maskApi.c, rleFrString.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import cv2
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.values import Pixels

    Counts = NDArray[np.int64]

_ZERO: Final = 48  # the letter of five bits that are 0
_BITS: Final = 5
_VALUE, _NEGATIVE, _MORE = 0x1F, 0x10, 0x20
_LONGEST: Final = 12  # letters of a number of 64 bits


def counts_of(text: bytes) -> Counts:
    """The run lengths of a compressed text, int64.

    Raises:
        ValueError: it is none.
    """
    letters = np.frombuffer(text, np.uint8).astype(np.int64) - _ZERO
    if not letters.size or letters.min() < 0 or letters.max() > _VALUE + _MORE or letters[-1] & _MORE:
        message = f"{text[:40].decode(errors='replace')!r}"
        raise ValueError(message)
    ends = np.flatnonzero(letters & _MORE == 0)
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    if lengths.max() > _LONGEST:
        message = f"a number of {lengths.max()} letters"
        raise ValueError(message)
    shifts = _BITS * (np.arange(letters.size) - np.repeat(starts, lengths))
    counts = np.add.reduceat((letters & _VALUE) << shifts, starts)
    counts -= np.where(letters[ends] & _NEGATIVE, 1 << (_BITS * lengths), 0)
    for first in (1, 2):  # from the fourth on, what is added to the one before the last
        counts[first::2] = np.cumsum(counts[first::2])
    return counts


def upright(flat: Pixels, size: tuple[int, int]) -> Pixels:
    """Pixels of an image of a (height, width), column by column, as uint8 of that shape."""
    return np.asarray(cv2.transpose(flat.reshape(size[::-1])), np.uint8)  # which numpy takes ten times as long for


def paint(flat: Pixels, counts: Counts, value: int) -> None:
    """Give the pixels inside a value.

    Args:
        flat: the pixels of an image, column by column, uint8 (width * height,).
        counts: run lengths of such an image.
        value: of the pixels inside; the others stay as they are.
    """
    ends = np.cumsum(counts).tolist()
    for start, stop in zip(ends[::2], ends[1::2], strict=False):  # the last run is mostly one outside
        flat[start:stop] = value
