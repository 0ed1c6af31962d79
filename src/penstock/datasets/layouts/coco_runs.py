"""Run lengths as COCO has them: how many pixels are outside and inside by turns, down the columns of the image.

Compressed ones are text of five bits a letter. Source: cocoapi, common/maskApi.c, rleFrString.
"""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from penstock.datasets.layouts.fill import Part

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


def part(counts: Counts, size: tuple[int, int]) -> Part:
    """The pixels inside run lengths of an image of a (height, width), in the columns that they lie in."""
    runs, height = counts[: len(counts) // 2 * 2], size[0]  # without the last one, which is outside
    if not runs[1::2].any():
        return Part(slice(0), slice(0), np.zeros((0, 0), bool))
    end = int(runs.sum())
    left, right = int(runs[0]) // height, -(-end // height)
    runs = np.append(runs, right * height - end)
    runs[0] -= left * height
    flat = np.repeat(np.arange(len(runs), dtype=np.uint8) % 2, runs)
    upright = cv2.transpose(flat.reshape(-1, height))  # which numpy takes ten times as long for
    return Part(slice(height), slice(left, right), upright.view(np.bool_))


def edges(counts: Counts, height: int) -> tuple[int, int, int, int] | None:
    """Left, top, right and bottom of the pixels inside run lengths; None without a pixel."""
    ends = np.cumsum(counts)[1::2]
    starts = (ends - counts[1::2])[there := counts[1::2] > 0]
    last = ends[there] - 1
    if height < 1 or not starts.size:
        return None
    left, right = int(starts.min()) // height, int(last.max()) // height + 1
    if (starts // height != last // height).any():  # a run goes over the end of a column
        return left, 0, right, height
    return left, int((starts % height).min()), right, int((last % height).max()) + 1
