"""An affine map applied to pixels: bilinear (or area, when shrinking) for images, nearest for masks and never else.

Most maps take a whole-pixel rectangle to a whole-pixel rectangle. Those are done by plain resizing, which is the same
bilinear map at a quarter of the cost of a general warp; the rest (rotations) by a warp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import cv2
import numpy as np

from penstock.images.geometry import Affine
from penstock.values import AnyPixels

Resize = Callable[[AnyPixels, tuple[int, int], AnyPixels], None]

_EXACT = 1e-6
_HALVES = 2.0
_MAX = 4  # channels that OpenCV fills at once


class _Span(NamedTuple):
    """Along one axis: output pixels `[start, stop)` come from source pixels `[first, last)`, perhaps mirrored."""

    start: int
    stop: int
    first: int
    last: int
    mirrored: bool


def warp_image(pixels: AnyPixels, affine: Affine, fill: Sequence[int] | None, out: AnyPixels) -> None:
    """Fetch an image (height, width, channels) into `out`; what is outside becomes `fill`, or None for the mirror."""
    if out.ndim == 3 and out.shape[2] > _MAX:  # noqa: PLR2004 - axes
        _warp_parts(pixels, affine, fill, out)
        return
    if _fetch(pixels, affine, fill, out, _resize_image):
        return
    factor = int(affine.shrink)
    if factor >= _HALVES:
        pixels, affine = _reduce(pixels, factor), affine.then(Affine(xx=1 / factor, yy=1 / factor))
    _warp(pixels, affine, fill, out, cv2.INTER_LINEAR)


def _warp_parts(pixels: AnyPixels, affine: Affine, fill: Sequence[int] | None, out: AnyPixels) -> None:
    """Fetch a few channels after the other: OpenCV fills no more than four at once."""
    for first in range(0, out.shape[2], _MAX):
        part = slice(first, first + _MAX)
        target = np.empty_like(out[..., part], order="C")
        warp_image(np.ascontiguousarray(pixels[..., part]), affine, None if fill is None else fill[part], target)
        out[..., part] = target


def warp_mask(ids: AnyPixels, affine: Affine, fill: int, out: AnyPixels) -> None:
    """Fetch a mask of shape (height, width) into `out`, in place; what lies outside the source becomes `fill`."""
    if not _fetch(ids, affine, (fill,), out, _resize_mask):
        _warp(ids, affine, (fill,), out, cv2.INTER_NEAREST)


def _fetch(pixels: AnyPixels, affine: Affine, fill: Sequence[int] | None, out: AnyPixels, resize: Resize) -> bool:
    """Do it by resizing a rectangle, if the map allows; tell whether it did."""
    if affine.xx == affine.yy == 0.0:
        turned = Affine(affine.xy, affine.xx, affine.x0, affine.yy, affine.yx, affine.y0)
        canvas = np.empty((out.shape[1], out.shape[0], *out.shape[2:]), out.dtype)
        done = _fetch(pixels, turned, fill, canvas, resize)
        cv2.transpose(canvas, dst=out)
        return done
    if affine.xy or affine.yx:
        return False
    columns = _span(affine.xx, affine.x0, out.shape[1], pixels.shape[1])
    rows = _span(affine.yy, affine.y0, out.shape[0], pixels.shape[0])
    if columns is None or rows is None:
        return False
    target = out[rows.start : rows.stop, columns.start : columns.stop]
    ends = rows.start, out.shape[0] - rows.stop, columns.start, out.shape[1] - columns.stop
    if fill is None and (max(ends[:2]) >= target.shape[0] or max(ends[2:]) >= target.shape[1]):
        return False  # more is mirrored than is looked at
    if target.size:
        source = pixels[rows.first : rows.last, columns.first : columns.last]
        _place(source, target, rows, columns, resize)
    if fill is None and any(ends):
        cv2.copyMakeBorder(target.copy(), *ends, cv2.BORDER_REFLECT_101, dst=out)
    elif fill is not None:
        _fill_around(out, rows, columns, fill)
    return True


def _fill_around(out: AnyPixels, rows: _Span, columns: _Span, fill: Sequence[int]) -> None:
    for rest in (out[: rows.start], out[rows.stop :], out[:, : columns.start], out[:, columns.stop :]):
        if rest.size:  # forty times faster than numpy's broadcasting of three channels
            cv2.rectangle(rest, (0, 0), rest.shape[1::-1], [float(value) for value in fill], cv2.FILLED)


def _place(source: AnyPixels, target: AnyPixels, rows: _Span, columns: _Span, resize: Resize) -> None:
    size = target.shape[1], target.shape[0]
    resize(source, size, target)
    if rows.mirrored or columns.mirrored:
        code = {(True, False): 0, (False, True): 1, (True, True): -1}[rows.mirrored, columns.mirrored]
        cv2.flip(target, code, dst=target)


def _span(scale: float, shift: float, length: int, source: int) -> _Span | None:
    """The whole-pixel rectangle of one axis, or None where an edge falls inside a pixel."""
    one, other = -shift / scale, (source - shift) / scale
    start, stop = max(0.0, min(one, other)), min(float(length), max(one, other))
    if stop <= start:
        return _Span(0, 0, 0, 0, mirrored=False)
    first, last = scale * start + shift, scale * stop + shift
    whole = round(start), round(stop), round(min(first, last)), round(max(first, last))
    off = max(abs(start - whole[0]), abs(stop - whole[1]), abs(first + last - whole[2] - whole[3]))
    if off > _EXACT or abs(abs(last - first) - whole[3] + whole[2]) > _EXACT:
        return None
    return _Span(*whole, mirrored=scale < 0)


def _resize_image(source: AnyPixels, size: tuple[int, int], out: AnyPixels) -> None:
    shrinking = source.shape[0] >= _HALVES * size[1] and source.shape[1] >= _HALVES * size[0]
    _resize(source, size, out, cv2.INTER_AREA if shrinking else cv2.INTER_LINEAR)


def _resize_mask(source: AnyPixels, size: tuple[int, int], out: AnyPixels) -> None:
    _resize(source, size, out, cv2.INTER_NEAREST_EXACT)


def _resize(source: AnyPixels, size: tuple[int, int], out: AnyPixels, how: int) -> None:
    if (source.shape[1], source.shape[0]) == size:
        out[...] = source
    else:
        cv2.resize(source, size, dst=out, interpolation=how)


def _reduce(pixels: AnyPixels, factor: int) -> AnyPixels:
    """Average blocks of `factor` by `factor` pixels; the last row and column are repeated to fill their blocks."""
    bottom, right = -pixels.shape[0] % factor, -pixels.shape[1] % factor
    if bottom or right:
        pixels = cv2.copyMakeBorder(pixels, 0, bottom, 0, right, cv2.BORDER_REPLICATE)
    size = pixels.shape[1] // factor, pixels.shape[0] // factor
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)).reshape(*size[::-1], -1)


def _warp(pixels: AnyPixels, affine: Affine, fill: Sequence[int] | None, out: AnyPixels, how: int) -> None:
    # OpenCV counts from pixel centres: shift by half a pixel on both sides.
    centred = Affine(x0=0.5, y0=0.5).then(affine).then(Affine(x0=-0.5, y0=-0.5))
    matrix = np.array([[centred.xx, centred.xy, centred.x0], [centred.yx, centred.yy, centred.y0]], np.float64)
    cv2.warpAffine(
        pixels,
        matrix,
        (out.shape[1], out.shape[0]),
        dst=out,
        flags=how | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REFLECT_101 if fill is None else cv2.BORDER_CONSTANT,
        borderValue=[float(value) for value in fill or ()],
    )
