"""Which pixels lie in an outline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Bits = NDArray[np.bool_]
    Points = NDArray[np.float64]

_HALF = 0.5


def inside(outlines: Iterable[Points], size: tuple[int, int]) -> Bits:
    """The pixels whose centres lie in closed outlines, by the even-odd rule: an outline in another one is a hole.

    Args:
        outlines: float64 (points, 2) each, x and y in pixels; the centre of the first pixel is at (0.5, 0.5).
        size: (height, width) of the image; points may lie outside it.

    Returns:
        bool (height, width).
    """
    height, width = size
    there = np.zeros(size, bool)
    every = [points for points in outlines if len(points)]
    if not every:
        return there
    low, high = (part(np.concatenate(every), axis=0) for part in (np.min, np.max))
    left, right = np.clip((np.floor(low[0]), np.ceil(high[0])), 0, width).astype(int)
    top, bottom = np.clip((np.floor(low[1]), np.ceil(high[1])), 0, height).astype(int)
    crossed = np.zeros((bottom - top, right - left + 1), np.uint8)
    for points in every:
        for (x0, y0), (x1, y1) in zip(points, np.roll(points, -1, axis=0), strict=True):
            if y0 == y1:
                continue
            upper, lower = sorted((y0, y1))
            first, last = (int(np.clip(np.ceil(y - _HALF), top, bottom)) for y in (upper, lower))
            rows = np.arange(first, last)
            x = x0 + (rows + _HALF - y0) * (x1 - x0) / (y1 - y0)
            columns = np.clip(np.ceil(x - _HALF), left, right).astype(np.int64)
            crossed[rows - top, columns - left] ^= 1
    there[top:bottom, left:right] = np.bitwise_xor.accumulate(crossed, axis=1)[:, : right - left]
    return there
