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
    crossed = np.zeros((height, width + 1), np.uint8)
    for points in outlines:
        for (x0, y0), (x1, y1) in zip(points, np.roll(points, -1, axis=0), strict=True):
            if y0 == y1:
                continue
            top, bottom = sorted((y0, y1))
            first, last = (int(np.clip(np.ceil(y - _HALF), 0, height)) for y in (top, bottom))
            rows = np.arange(first, last)
            x = x0 + (rows + _HALF - y0) * (x1 - x0) / (y1 - y0)
            columns = np.clip(np.ceil(x - _HALF), 0, width).astype(np.int64)
            crossed[rows, columns] ^= 1
    return np.bitwise_xor.accumulate(crossed, axis=1)[:, :width].astype(bool)
