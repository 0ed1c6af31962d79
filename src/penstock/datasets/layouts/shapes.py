"""Objects as people draw them: polygons with holes, boxes, ellipses, painted pixels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from penstock.datasets.layouts.fill import Part, inside
from penstock.images import geometry
from penstock.progress import counted
from penstock.values import Bits

_FAR: Final = 1e6  # pixels: what lies further out is no coordinate
_TRIANGLE: Final = 3
_CORNERS: Final = 2


@dataclass(frozen=True, slots=True)
class Bitmap:
    """The pixels of an object, as a small image at a place.

    Attributes:
        left, top: where its first pixel is in the image.
        make: gives its pixels, bool (height, width); raises a DatasetError where they are damaged.
    """

    left: int
    top: int
    make: Callable[[], Bits]


@dataclass(frozen=True, slots=True)
class Shape:
    """One object, as somebody drew it.

    Attributes:
        label: the name of its class.
        outlines: polygons of (x, y), in pixels of the upright image; one inside another is a hole.
        corners: left, top, right and bottom where only a box was drawn.
        bitmap: its pixels, where these were painted.
        layer: shapes of a higher layer lie on those of lower ones.
    """

    label: str
    outlines: tuple[tuple[tuple[float, float], ...], ...] = ()
    corners: tuple[float, float, float, float] | None = None
    bitmap: Bitmap | None = None
    layer: int = 0

    @property
    def is_outlined(self) -> bool:
        """Whether its outline is known, and not only its box."""
        return bool(self.outlines) or self.bitmap is not None

    def box(self) -> tuple[float, float, float, float]:
        """The edges of the box around it: left, top, right, bottom."""
        if self.corners is not None:
            return self.corners
        if self.bitmap is not None:
            bits, x, y = self.bitmap.make(), self.bitmap.left, self.bitmap.top
            if not bits.any():
                return x, y, x, y
            left, top, right, bottom = geometry.edges_of(bits)
            return x + left, y + top, x + right, y + bottom
        points = np.array([point for outline in self.outlines for point in outline])
        low, high = points.min(axis=0), points.max(axis=0)
        return float(low[0]), float(low[1]), float(high[0]), float(high[1])

    def part(self, size: tuple[int, int]) -> Part:
        """Which pixels of an image of a (height, width) are its own."""
        if self.bitmap is None:
            return inside([np.array(outline, np.float64) for outline in self.outlines], size)
        bits, left, top = self.bitmap.make(), self.bitmap.left, self.bitmap.top
        height, width = bits.shape
        rows, columns = (
            slice(*np.clip((start, start + length), 0, side).tolist())
            for start, length, side in ((top, height, size[0]), (left, width, size[1]))
        )
        return Part(rows, columns, bits[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left])

    def pixels(self, size: tuple[int, int]) -> Bits:
        """Which pixels of an image of a (height, width) are its own: bool of that shape."""
        return self.part(size).whole(size)


def polygon(label: str, points: Sequence[Sequence[float]], holes: Sequence[Sequence[Sequence[float]]] = ()) -> Shape:
    """A shape from the points of its outline.

    Raises:
        ValueError: there are fewer than three points, or one is no finite number of pixels.
    """
    outlines = tuple(tuple(_point(point) for point in outline) for outline in (points, *holes))
    if min(map(len, outlines)) < _TRIANGLE:
        fewest = min(map(len, outlines))
        message = f"a polygon of {counted(fewest, 'point')}, which needs three"
        raise ValueError(message)
    return Shape(label, outlines)


def rectangle(label: str, corners: Sequence[Sequence[float]]) -> Shape:
    """A shape from two opposite corners of a box, whichever they are.

    Raises:
        ValueError: there are not two corners, or one is no finite number of pixels.
    """
    points = [_point(corner) for corner in corners]
    if len(points) < _CORNERS:
        message = f"{counted(len(points), 'corner')}"
        raise ValueError(message)
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return Shape(label, corners=(min(xs), min(ys), max(xs), max(ys)))


def turned(
    label: str, corners: Sequence[tuple[float, float]], angle: float, around: tuple[float, float] | None = None
) -> Shape:
    """A shape from two opposite corners of a box that was turned, as its outline.

    Args:
        label: its class.
        corners: left top and right bottom, before it was turned.
        angle: in degrees, clockwise.
        around: the point that stays where it is; None for the middle of the box.
    """
    (left, top), (right, bottom) = corners
    x, y = around or ((left + right) / 2, (top + bottom) / 2)
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    points = [(left - x, top - y), (right - x, top - y), (right - x, bottom - y), (left - x, bottom - y)]
    return polygon(label, [(x + dx * cos - dy * sin, y + dx * sin + dy * cos) for dx, dy in points])


def ellipse(label: str, middle: Sequence[float], radii: tuple[float, float], angle: float = 0) -> Shape:
    """A shape from the middle and the radii of an ellipse, as an outline of 64 points; angle in degrees, clockwise."""
    turns = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    x, y = radii[0] * np.cos(turns), radii[1] * np.sin(turns)
    cos, sin = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
    points = np.stack([middle[0] + x * cos - y * sin, middle[1] + x * sin + y * cos], axis=1)
    return polygon(label, points.tolist())


def _point(point: Sequence[float]) -> tuple[float, float]:
    x, y = (float(number) for number in point)
    if not (abs(x) < _FAR and abs(y) < _FAR):
        message = f"the point {x:g}, {y:g}"
        raise ValueError(message)
    return x, y


def in_pixels(shape: Shape, size: tuple[float, float]) -> Shape:
    """A shape in fractions of an image's size, in pixels."""
    height, width = size
    outlines = tuple(tuple((x * width, y * height) for x, y in one) for one in shape.outlines)
    if shape.corners is None:
        return replace(shape, outlines=outlines)
    left, top, right, bottom = shape.corners
    return replace(shape, outlines=outlines, corners=(left * width, top * height, right * width, bottom * height))


def beside_painted(shapes: Sequence[Shape], size: tuple[int, int]) -> tuple[tuple[Shape, ...], bool]:
    """Shapes in fractions of the image or, where some are painted, in pixels; and whether they are fractions."""
    if not any(shape.bitmap for shape in shapes):
        return tuple(shapes), True
    return tuple(shape if shape.bitmap else in_pixels(shape, size) for shape in shapes), False
