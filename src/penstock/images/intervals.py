"""Regions of JPEGs with restart markers, cut out as bytes.

A decoder begins afresh behind every restart marker. So the intervals that a region needs, joined behind a header of a
smaller size, are a JPEG of their own with the same pixels. Source: ITU-T T.81, B.1.1.5 and E.2.4.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.images.geometry import Region
from penstock.images.header import ImageInfo, jpeg_segments

_WORTH: Final = 0.8
"""Fraction of the blocks that decoding from the top would need, up to which a region is cut out."""
_RESTART, _IMAGE_END = 0xD0, 0xD9
_MARKER: Final = 0xFF
_PIECE: Final = 1 << 18  # bytes
_NUMBERS: Final = 8
"""Restart markers are numbered in turn from 0 to 7."""


class RestartInterval(NamedTuple):
    """A smaller JPEG, and which pixels of the whole one it holds."""

    data: bytes
    top: int
    left: int
    height: int
    width: int


class Tiles(NamedTuple):
    """The restart intervals of a JPEG as a grid of equal tiles: their size in pixels, and how many there are."""

    height: int
    width: int
    down: int
    across: int


def block_size(data: bytes, info: ImageInfo) -> tuple[int, int]:
    """(height, width) in pixels of the blocks (minimum coded units) of a JPEG: 8 times the largest sampling factors."""
    factors = data[info.frame + 6 : info.frame + 5 + 3 * info.channels : 3] if info.channels > 1 else b"\x11"
    return 8 * max(each & 15 for each in factors), 8 * max(each >> 4 for each in factors)


def cut(data: bytes, info: ImageInfo, region: Region) -> RestartInterval | None:
    """A JPEG of a region and a margin of one block, which smooth upsampling of chroma looks at.

    Returns:
        The part. None where the file has no intervals that make rectangles, where it hardly pays, or where the markers
        are not in order: then the file must be decoded from its top to be known to be sound.
    """
    grid = tiles(data, info)
    if grid is None:
        return None
    margin = block_size(data, info)
    top, bottom = _needed(region.top - margin[0], region.bottom + margin[0], grid.height, grid.down)
    left, right = _needed(region.left - margin[1], region.right + margin[1], grid.width, grid.across)
    if (bottom - top) * (right - left) > _WORTH * bottom * grid.across:
        return None
    *_, (_, _, scan) = jpeg_segments(data)
    starts = _starts(data, scan, bottom * grid.across, grid.down * grid.across)
    if starts is None:
        return None
    y, x = top * grid.height, left * grid.width
    height = min(bottom * grid.height, info.height) - y
    width = min(right * grid.width, info.width) - x
    size = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    header = b"".join((data[: info.frame], size, data[info.frame + 4 : scan]))
    rows = np.arange(top, bottom) * grid.across
    return RestartInterval(header + _joined(data, starts, rows + left, right - left), y, x, height, width)


def tiles(data: bytes, info: ImageInfo) -> Tiles | None:
    """The grid of intervals: several in a row of blocks, or whole rows of blocks. None where there is no such grid."""
    if not (info.frame and info.restarts):
        return None
    height, width = block_size(data, info)
    if not (height and width):  # a damaged header, which decoding names
        return None
    across = -(-info.width // width)
    if across % info.restarts and info.restarts % across:
        return None
    tile_height, tile_width = height * max(1, info.restarts // across), width * min(info.restarts, across)
    return Tiles(tile_height, tile_width, -(-info.height // tile_height), -(-info.width // tile_width))


def _needed(start: int, stop: int, side: int, count: int) -> tuple[int, int]:
    """Which tiles along one axis cover some pixels, or the nearest one where the pixels lie outside the image."""
    first = min(max(0, start // side), count - 1)
    return first, min(max(first + 1, -(-stop // side)), count)


def _starts(data: bytes, scan: int, needed: int, intervals: int) -> NDArray[np.int64] | None:
    """Where the upper ones of all intervals start, and the end of the last one's marker; None where their markers are
    not in order. It looks no further down than is needed, and at a part of the file at once, which stays in a core's
    memory.
    """
    coded, found, count = np.frombuffer(data, np.uint8)[scan:], [], 0
    for first in range(0, len(coded) - 1, _PIECE):
        piece = coded[first : first + _PIECE + 1]
        markers = piece[1:] - np.uint8(_RESTART) <= _IMAGE_END - _RESTART
        markers &= piece[:-1] == _MARKER
        at = np.flatnonzero(markers)
        found.append(at + first)
        count += len(at)
        if count >= needed:
            break
    places = np.concatenate([*found, np.empty(0, np.int64)])[:needed]
    expected = _numbered(intervals)[:needed]
    if not np.array_equal(coded[places + 1], expected):
        return None
    return np.concatenate(([0], places + 2)) + scan


def _joined(data: bytes, starts: NDArray[np.int64], firsts: NDArray[np.int64], count: int) -> bytes:
    """The intervals `count` at a time from each of `firsts`, their markers numbered anew."""
    joined = bytearray().join(data[starts[first] : starts[first + count]] for first in firsts)
    lengths = np.diff(starts)[firsts[:, np.newaxis] + np.arange(count)]
    np.frombuffer(joined, np.uint8)[np.cumsum(lengths) - 1] = _numbered(lengths.size)
    return bytes(joined)


def _numbered(intervals: int) -> NDArray[np.uint8]:
    """The second bytes of the markers behind so many intervals: numbered in turn, and the end of the image."""
    codes = (_RESTART + np.arange(intervals) % _NUMBERS).astype(np.uint8)
    codes[-1] = _IMAGE_END
    return codes
