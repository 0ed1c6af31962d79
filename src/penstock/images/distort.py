"""Perspective and elastic distortions: where every pixel of a sample comes from, for image, mask and boxes alike.

They move the points of a sample after its affine view, so that one drawn `Distortion` is the one geometry of all that
the sample holds. Sources: Simard et al. 2003 (elastic distortions); a perspective moves the four corners inwards, as
torchvision's RandomPerspective does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

from penstock.images.geometry import Size
from penstock.seeds import Generator
from penstock.values import AnyPixels

_SPACING: Final = 32  # pixels between the points that an elastic distortion moves by themselves
_ALONG: Final = 9  # points of an edge of a box that are followed
_STEPS: Final = 10  # of going back through an elastic distortion; each makes the error several times smaller


@dataclass(frozen=True)
class Distortion:
    """Where the pixels of an output come from; all is counted from pixel centres.

    Attributes:
        matrix: the perspective, from points of the output to points of the source: float64 (3, 3).
        shift_x, shift_y: by how much more every pixel of the output moves: float32 (height, width); None for nothing.
        size: (height, width) of the output.
    """

    matrix: NDArray[np.float64]
    size: Size
    shift_x: NDArray[np.float32] | None = None
    shift_y: NDArray[np.float32] | None = None

    @cached_property
    def _maps(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """X and y of the source for every pixel of the output."""
        height, width = self.size
        x, y = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
        x, y = _moved(self.matrix.astype(np.float32), x, y)
        if self.shift_x is not None and self.shift_y is not None:
            x, y = x + self.shift_x, y + self.shift_y
        return x, y

    def image(self, pixels: AnyPixels, fill: Sequence[int] | None) -> None:
        """Distort an image of shape (height, width, channels) in place, bilinearly.

        Args:
            pixels: the image.
            fill: the pixel that lies outside; None mirrors the image at its edges.
        """
        border = cv2.BORDER_REFLECT_101 if fill is None else cv2.BORDER_CONSTANT
        for first in range(0, pixels.shape[2], 4):  # OpenCV fills no more than four channels at once
            part = np.ascontiguousarray(pixels[..., first : first + 4])
            value = [float(each) for each in (fill or ())[first : first + 4]]
            moved = cv2.remap(part, *self._maps, cv2.INTER_LINEAR, borderMode=border, borderValue=value)
            pixels[..., first : first + 4] = moved.reshape(part.shape)

    def mask(self, ids: NDArray[Any], fill: int) -> None:
        """Distort a mask of shape (height, width) in place; every pixel takes the nearest id, or `fill` outside."""
        ids[...] = cv2.remap(
            ids, *self._maps, cv2.INTER_NEAREST, borderMode=cv2.BORDER_CONSTANT, borderValue=float(fill)
        )

    def boxes(self, edges: NDArray[np.float64]) -> NDArray[np.float64]:
        """The smallest upright boxes around distorted ones, (n, 4) as x1, y1, x2, y2; not cut at the edges."""
        along = np.linspace(0, 1, _ALONG)
        x1, y1, x2, y2 = (edges[:, i, np.newaxis] for i in range(4))
        across, down = x1 + (x2 - x1) * along, y1 + (y2 - y1) * along
        x = np.concatenate([across, across, np.broadcast_to(x1, down.shape), np.broadcast_to(x2, down.shape)], axis=1)
        y = np.concatenate([np.broadcast_to(y1, across.shape), np.broadcast_to(y2, across.shape), down, down], axis=1)
        moved_x, moved_y = self._back(x - 0.5, y - 0.5)
        return np.stack([moved_x.min(1), moved_y.min(1), moved_x.max(1), moved_y.max(1)], axis=1) + 0.5

    def _back(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The points of the output that are fetched from some points of the source."""
        inverse = np.linalg.inv(self.matrix)
        at_x, at_y = _moved(inverse, x, y)
        if self.shift_x is None or self.shift_y is None:
            return at_x, at_y
        for _ in range(_STEPS):
            there = at_x.astype(np.float32), at_y.astype(np.float32)
            shift_x = cv2.remap(self.shift_x, *there, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
            shift_y = cv2.remap(self.shift_y, *there, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
            at_x, at_y = _moved(inverse, x - shift_x, y - shift_y)
        return at_x, at_y


def _moved(matrix: NDArray[Any], x: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Points moved by a perspective."""
    below = matrix[2, 0] * x + matrix[2, 1] * y + matrix[2, 2]
    across = (matrix[0, 0] * x + matrix[0, 1] * y + matrix[0, 2]) / below
    return across, (matrix[1, 0] * x + matrix[1, 1] * y + matrix[1, 2]) / below


def draw(generator: Generator, size: Size, perspective: float, elastic: float) -> Distortion | None:
    """A random distortion of an output, or None where there is nothing to do.

    Args:
        generator: where the draws come from.
        size: (height, width) of the output.
        perspective: how far corners move inwards at most, as a fraction of half a side, from 0 to 1.
        elastic: how far points move along each axis at most, in pixels.
    """
    if not (perspective or elastic):
        return None
    matrix = _perspective(generator, size, perspective) if perspective else np.eye(3)
    if not elastic:
        return Distortion(matrix, size)
    return Distortion(matrix, size, _field(generator, size, elastic), _field(generator, size, elastic))


def _perspective(generator: Generator, size: Size, most: float) -> NDArray[np.float64]:
    """The corners of the image move inwards to random points of the output."""
    height, width = size
    corners = [(0, 0), (width - 1, 0), (width - 1, height - 1), (0, height - 1)]
    moved = []
    for corner_x, corner_y in corners:
        shift_x, shift_y = (generator.uniform(0, most * side / 2) for side in (width, height))
        moved.append((corner_x + (-shift_x if corner_x else shift_x), corner_y + (-shift_y if corner_y else shift_y)))
    from_to = np.array(moved, np.float32), np.array(corners, np.float32)
    return np.asarray(cv2.getPerspectiveTransform(*from_to), np.float64)


def _field(generator: Generator, size: Size, most: float) -> NDArray[np.float32]:
    """Smooth random displacements: drawn at points `_SPACING` pixels apart, with a cubic between them."""
    rows, columns = (side // _SPACING + 2 for side in size)
    points = [generator.uniform(-most, most) for _ in range(rows * columns)]
    coarse = np.array(points, np.float32).reshape(rows, columns)
    smooth = np.asarray(cv2.resize(coarse, size[::-1], interpolation=cv2.INTER_CUBIC), np.float32)
    return smooth.clip(-most, most)
