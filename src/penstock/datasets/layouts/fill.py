"""Which pixels lie in an outline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.values import Bits

Places = NDArray[np.int64]
Points = NDArray[np.float64]

_HALF = 0.5


class Part(NamedTuple):
    """The part of an image in which an object lies, and which of its pixels are the object's."""

    rows: slice
    columns: slice
    bits: Bits

    def whole(self, size: tuple[int, int]) -> Bits:
        """The object's pixels in the image of a (height, width): bool of that shape."""
        there = np.zeros(size, bool)
        there[self.rows, self.columns] = self.bits
        return there


def inside(outlines: Iterable[Points], size: tuple[int, int]) -> Part:
    """The pixels whose centres lie in closed outlines, by the even-odd rule: an outline in another one is a hole.

    Args:
        outlines: float64 (points, 2) each, x and y in pixels; the centre of the first pixel is at (0.5, 0.5).
        size: (height, width) of the image; points may lie outside it.
    """
    every = [points for points in outlines if len(points)]
    if not every:
        return Part(slice(0), slice(0), np.zeros((0, 0), bool))
    height, width = size
    starts, ends = np.concatenate(every), np.concatenate([np.roll(points, -1, axis=0) for points in every])
    low, high = starts.min(axis=0), starts.max(axis=0)
    left, right = np.clip((np.floor(low[0]), np.ceil(high[0])), 0, width).astype(int)
    top, bottom = np.clip((np.floor(low[1]), np.ceil(high[1])), 0, height).astype(int)
    rows, columns = _crossed(starts, ends, (left, right), (top, bottom))
    across = right - left + 1
    places, times = np.unique((rows - top) * across + columns - left, return_counts=True)
    crossed = np.zeros((bottom - top) * across, bool)
    crossed[places[times % 2 == 1]] = True  # by an odd number of edges
    bits = np.logical_xor.accumulate(crossed.reshape(bottom - top, across), axis=1)
    return Part(slice(top, bottom), slice(left, right), bits[:, : right - left])


def _crossed(starts: Points, ends: Points, x: tuple[int, int], y: tuple[int, int]) -> tuple[Places, Places]:
    """Each row whose middle an edge crosses, and the first column whose middle is right of it."""
    upper, lower = np.minimum(starts[:, 1], ends[:, 1]), np.maximum(starts[:, 1], ends[:, 1])
    first, last = (np.clip(np.ceil(each - _HALF), *y).astype(np.int64) for each in (upper, lower))
    counts = last - first
    edge = np.repeat(np.arange(len(starts)), counts)
    rows = np.arange(len(edge)) - np.repeat(np.cumsum(counts) - counts, counts) + first[edge]
    (x0, y0), (x1, y1) = starts[edge].T, ends[edge].T
    at = x0 + (rows + _HALF - y0) * (x1 - x0) / (y1 - y0)
    return rows, np.clip(np.ceil(at - _HALF), *x).astype(np.int64)
