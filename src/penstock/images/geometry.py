"""Geometry before pixels: one affine map per sample, drawn before anything is decoded.

Coordinates are continuous: pixel (row r, column c) covers [c, c+1) x [r, r+1). A map takes points of the *output* to
points of the *source*, which is the direction in which pixels are fetched. Sizes are (height, width).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.seeds import Generator

Size = tuple[int, int]
T = TypeVar("T", float, "NDArray[np.float64]")
_NEARLY = 1e-6  # of a step, which rounding may add


class Region(NamedTuple):
    """A rectangle of whole pixels, `[top, bottom)` by `[left, right)`; it may reach beyond its image."""

    top: int
    left: int
    bottom: int
    right: int


@dataclass(frozen=True, slots=True)
class Affine:
    """x' = xx * x + xy * y + x0;  y' = yx * x + yy * y + y0."""

    xx: float = 1.0
    xy: float = 0.0
    x0: float = 0.0
    yx: float = 0.0
    yy: float = 1.0
    y0: float = 0.0

    def then(self, after: Affine) -> Affine:
        """The map that applies this one first and `after` to its result."""
        return Affine(
            after.xx * self.xx + after.xy * self.yx,
            after.xx * self.xy + after.xy * self.yy,
            after.xx * self.x0 + after.xy * self.y0 + after.x0,
            after.yx * self.xx + after.yy * self.yx,
            after.yx * self.xy + after.yy * self.yy,
            after.yx * self.x0 + after.yy * self.y0 + after.y0,
        )

    def inverse(self) -> Affine:
        """The map back."""
        d = self.xx * self.yy - self.xy * self.yx
        xx, xy, yx, yy = self.yy / d, -self.xy / d, -self.yx / d, self.xx / d
        return Affine(xx, xy, -xx * self.x0 - xy * self.y0, yx, yy, -yx * self.x0 - yy * self.y0)

    def point(self, x: T, y: T) -> tuple[T, T]:
        """Where a point goes, or points in arrays."""
        return self.xx * x + self.xy * y + self.x0, self.yx * x + self.yy * y + self.y0

    @classmethod
    def rectangle(cls, to: tuple[float, float, float, float], source: tuple[float, float, float, float]) -> Self:
        """The map that takes rectangle `to` of the output to rectangle `source`; both are (x, y, width, height)."""
        xx, yy = source[2] / to[2], source[3] / to[3]
        return cls(xx=xx, x0=source[0] - to[0] * xx, yy=yy, y0=source[1] - to[1] * yy)

    def region(self, size: Size) -> Region:
        """What an output of `size` sees of the source, with two output pixels more around it for filters."""
        left, right = _reach(self.x0, self.xx * size[1], self.xy * size[0], 2 * (abs(self.xx) + abs(self.xy)))
        top, bottom = _reach(self.y0, self.yx * size[1], self.yy * size[0], 2 * (abs(self.yx) + abs(self.yy)))
        return Region(top, left, bottom, right)

    @property
    def shrink(self) -> float:
        """Source pixels per output pixel, along the axis where there are fewest."""
        return min(math.hypot(self.xx, self.yx), math.hypot(self.xy, self.yy))


def _reach(origin: float, across: float, down: float, margin: float) -> tuple[int, int]:
    """The whole pixels along one axis from the lowest to the highest of a rectangle's corners, with a margin."""
    low, high = min(0.0, across) + min(0.0, down), max(0.0, across) + max(0.0, down)
    return math.floor(origin + low - margin), math.ceil(origin + high + margin)


@dataclass(frozen=True, slots=True)
class View:
    """What of an upright source image fills an output of `size`: the affine map from output to source."""

    size: Size
    affine: Affine


def whole(source: Size, canvas: Size | None = None) -> View:
    """The image at its own scale in the top left corner of a canvas (by default of its own size)."""
    return View(canvas or source, Affine())


def resize(source: Size, to: Size, canvas: Size | None = None) -> View:
    """The image resized to `to`, in the top left corner of a canvas (by default of that size)."""
    affine = Affine.rectangle((0, 0, to[1], to[0]), (0, 0, source[1], source[0]))
    return View(canvas or to, affine)


def fit_range(source: Size, shortest: int, longest: int) -> Size:
    """DeepLab's resize-to-range: the shorter side becomes `shortest`, unless the longer one would exceed `longest`."""
    scale = min(shortest / min(source), longest / max(source))
    return max(1, round(source[0] * scale)), max(1, round(source[1] * scale))


def random_scale(generator: Generator, low: float, high: float, step: float) -> float:
    """A factor from {low, low + step, ..., high}, each as likely, or uniform in [low, high) for a `step` of 0."""
    if not step:
        return generator.uniform(low, high)
    steps = math.ceil((high - low) / step - _NEARLY)
    return min(high, low + step * generator.integer(steps + 1))


def scale_and_crop(source: Size, crop: Size, scale: float, at: tuple[float, float]) -> View:
    """DeepLab's training view: the image scaled, padded at the bottom and right to `crop`, and cropped to it.

    Windows are snapped to whole source pixels, and to whole blocks of `reduction(1 / scale)`, so that pixels are
    fetched by plain resizing from a JPEG that was decoded at the reduced size.

    Args:
        source: the upright image's size.
        crop: the output's size.
        scale: output pixels per source pixel.
        at: where the crop lies in the room it has, (vertical, horizontal), each in [0, 1).
    """
    grid = reduction(1 / scale)
    y, height, rows = _axis(source[0], crop[0], scale, at[0], grid)
    x, width, columns = _axis(source[1], crop[1], scale, at[1], grid)
    return View(crop, Affine.rectangle((0, 0, columns, rows), (x, y, width, height)))


def _axis(source: int, crop: int, scale: float, at: float, grid: int) -> tuple[int, int, int]:
    """Along one axis: where the source window begins, how long it is, and how much of the output it fills."""
    grid = grid if source >= grid else 1
    usable = source - source % grid
    scaled = max(1, round(usable * scale))
    if scaled <= crop:
        return 0, usable, scaled
    window = min(usable, max(grid, round(crop / scale / grid) * grid))
    return grid * int(at * ((usable - window) // grid + 1)), window, crop


def resized_crop(
    source: Size, to: Size, generator: Generator, area: tuple[float, float], aspect: tuple[float, float]
) -> View:
    """Random resized crop (Szegedy et al. 2015): a window of random area and aspect ratio, resized to `to`.

    Args:
        source: the upright image's size.
        to: the output's size.
        generator: where the draws come from; six are taken.
        area: bounds of the window's fraction of the image's area, in (0, 1].
        aspect: bounds of its width divided by its height, drawn log-uniformly.
    """
    pixels = generator.uniform(*area) * source[0] * source[1]
    ratio = math.exp(generator.uniform(math.log(aspect[0]), math.log(aspect[1])))
    width, height = math.sqrt(pixels * ratio), math.sqrt(pixels / ratio)
    grid = reduction(min(height / to[0], width / to[1]))
    y, rows = _window(source[0], height, generator.uniform(), grid)
    x, columns = _window(source[1], width, generator.uniform(), grid)
    return View(to, Affine.rectangle((0, 0, to[1], to[0]), (x, y, columns, rows)))


def _window(source: int, length: float, at: float, grid: int) -> tuple[int, int]:
    grid = grid if source >= grid else 1
    usable = source - source % grid
    window = min(usable, max(grid, round(length / grid) * grid))
    return grid * int(at * ((usable - window) // grid + 1)), window


def pad_and_crop(source: Size, crop: Size, margin: int, at: tuple[float, float]) -> View:
    """The image at its own scale with a margin around it, cropped (He et al. 2016).

    Args:
        source: the upright image's size.
        crop: the output's size.
        margin: in pixels, on every side.
        at: where the crop lies in the room it has, (vertical, horizontal), each in [0, 1). In a direction where the
            crop is larger than all, it is filled around the image.
    """
    y, x = (_placed(source[axis], crop[axis], margin, at[axis]) for axis in (0, 1))
    return View(crop, Affine(x0=float(x), y0=float(y)))


def _placed(source: int, crop: int, margin: int, at: float) -> int:
    room = source + 2 * margin - crop
    return int(at * (room + 1)) - margin if room >= 0 else -((crop - source) // 2)


def middle(source: Size, to: Size, fraction: float) -> View:
    """The middle of an image, in the proportions of `to` and resized to it: `fraction` of the largest such window."""
    scale = fraction * min(source[0] / to[0], source[1] / to[1])
    height, width = (max(1, min(side, round(scale * out))) for side, out in zip(source, to, strict=True))
    y, x = (source[0] - height) // 2, (source[1] - width) // 2
    return View(to, Affine.rectangle((0, 0, to[1], to[0]), (x, y, width, height)))


def move_boxes(
    boxes: NDArray[np.float64], view: View, source: Size, kept: float, least: float = 1.0
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Boxes moved with their image, and which of them stay.

    A box becomes the smallest upright one around its four corners, cut at the edges of the output. It stays where at
    least `kept` of its area is left, and its sides are at least `least` long.

    Args:
        boxes: (n, 4), as x1, y1, x2, y2, in pixels of the source.
        view: what of the source fills the output.
        source: the upright image's size.
        kept: fraction of the area, from 0 to 1.
        least: pixels of the output.
    """
    back = view.affine.inverse()
    x, y = boxes[:, [0, 2, 0, 2]].clip(0, source[1]), boxes[:, [1, 1, 3, 3]].clip(0, source[0])
    moved_x, moved_y = back.point(x, y)
    edges = np.stack([moved_x.min(1), moved_y.min(1), moved_x.max(1), moved_y.max(1)], axis=1)
    inside, large = cut_boxes(edges, view.size, least)
    whole = (edges[:, 2:] - edges[:, :2]).prod(axis=1)
    return inside, large & ((inside[:, 2:] - inside[:, :2]).prod(axis=1) >= kept * whole)


def cut_boxes(edges: NDArray[np.float64], size: Size, least: float) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Boxes (n, 4) as x1, y1, x2, y2, cut at an output's edges, and which then have sides of at least `least`."""
    inside = np.stack([edges[:, axis].clip(0, size[1 - axis % 2]) for axis in range(4)], axis=1)
    return inside, (inside[:, 2:] - inside[:, :2]).min(axis=1, initial=np.inf) >= least


def edges_of(pixels: NDArray[np.bool_]) -> tuple[float, float, float, float]:
    """The box around pixels, bool (height, width), of which there is at least one: left, top, right, bottom."""
    rows, columns = np.flatnonzero(pixels.any(axis=1)), np.flatnonzero(pixels.any(axis=0))
    return float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1)


def flip(view: View) -> View:
    """The view mirrored left to right."""
    return View(view.size, Affine(xx=-1.0, x0=view.size[1]).then(view.affine))


def rotate(view: View, degrees: float) -> View:
    """The view turned counter-clockwise about its centre."""
    height, width = view.size
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    x, y = width / 2, height / 2
    turn = Affine(cos, -sin, x - cos * x + sin * y, sin, cos, y - sin * x - cos * y)
    return View(view.size, turn.then(view.affine))


def reduction(shrink: float) -> int:
    """The largest of 1, 2, 4 and 8 by which a source may be reduced before `shrink` source pixels make one."""
    return next((factor for factor in (8, 4, 2) if shrink >= factor), 1)


def upright_to_stored(orientation: int, stored: Size) -> Affine:
    """The map from points of the upright image to points of the stored one, by Exif orientation 1 to 8."""
    if orientation == 1:
        return Affine()
    height, width = stored
    return {
        2: Affine(xx=-1, x0=width),
        3: Affine(xx=-1, x0=width, yy=-1, y0=height),
        4: Affine(yy=-1, y0=height),
        5: Affine(xx=0, xy=1, yx=1, yy=0),
        6: Affine(xx=0, xy=1, yx=-1, yy=0, y0=height),
        7: Affine(xx=0, xy=-1, x0=width, yx=-1, yy=0, y0=height),
        8: Affine(xx=0, xy=-1, x0=width, yx=1, yy=0),
    }[orientation]
