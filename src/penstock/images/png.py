"""PNG: pixels are written, every checksum is compared, and what an image's pixels do not depend on is left out.

Source: the PNG specification (third edition).
"""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Iterator
from typing import Any, Final

import cv2
import deflate
import numpy as np
from numpy.typing import NDArray

from penstock.errors import ImageError
from penstock.images.header import MAX_PIXELS, PNG_SIGNATURE, truncated
from penstock.progress import counted
from penstock.values import Pixels

_ANIMATION: Final = frozenset({b"acTL", b"fcTL", b"fdAT"})
_COLORS: Final = frozenset({b"PLTE", b"tRNS"})
_LONGEST: Final = 1_000_000
_KIND: Final = 9  # where a header's content has the kind of colour
_GRAY: Final = b"\0"
_SIDES: Final = struct.Struct(">II")  # width, height
_PLAIN: Final = bytes((8, 0, 0, 0, 0))  # eight bits of gray, deflated, of the one sort of filters, not interlaced
_END: Final = b"\0\0\0\0IEND\xaeB`\x82"
_MIN: Final = 57  # bytes of a signature and three chunks
_LEVEL: Final = 6  # of libdeflate: masks of CamVid take 0.8 ms and 5.8 kB, at 7 1.7 ms and 5.5 kB
_ZLIB: Final = b"\x78\x01"  # a window of 32 KiB, compressed fast
_LAST: Final = b"\x03\0"  # an empty block that is the last
_ROWS: Final = 4096  # heights above and below objects that are remembered, of about 1 kB each


def encode(pixels: NDArray[Any], where: str = "an image", level: int = 3) -> bytes:
    """Pixels as PNG.

    Args:
        pixels: uint8 or uint16, (height, width) or (height, width, 1, 3 or 4), colours in OpenCV's order: BGR, BGRA.
        where: named in errors.
        level: zlib's, 0 to 9.

    Raises:
        ImageError: libpng writes no more rows or columns than a million.
    """
    _check_sides(pixels.shape[0], pixels.shape[1], where)
    return bytes(cv2.imencode(".png", pixels, [cv2.IMWRITE_PNG_COMPRESSION, level])[1])


def _check_sides(height: int, width: int, where: str) -> None:
    if max(height, width) > _LONGEST:
        raise ImageError(
            where,
            expected=f"an image of at most {_LONGEST:,} rows and columns, as PNG holds",
            found=f"{height:,} x {width:,}",
            remedy="Cut it into tiles",
        )


def encode_flat(pixels: Pixels, where: str = "a mask", level: int = _LEVEL) -> bytes:
    """8-bit gray pixels as a PNG whose rows have no filter, which `decode_flat` reads ten times as fast as libpng.

    Args:
        pixels: uint8, (height, width).
        where: named in errors.
        level: libdeflate's, 0 to 12.

    Raises:
        ImageError: libpng writes no more rows or columns than a million.
    """
    height, width = pixels.shape
    _check_sides(height, width, where)
    rows = np.empty((height, width + 1), np.uint8)
    rows[:, 0], rows[:, 1:] = 0, pixels  # before each row its filter
    content = _parts(b"IDAT", _compressed(rows, level))
    return b"".join((_gray_head(height, width), *content, _END))


def _compressed(rows: Pixels, level: int) -> bytes | bytearray:
    """Rows as a zlib stream; where most are 0, as in an object's mask, those are compressed once for all masks.

    Source: RFC 1950 and RFC 1951. A deflate block that ends at a byte can stand before another one.
    """
    filled = np.flatnonzero(rows.any(axis=1))
    height, width = rows.shape
    top, bottom = (int(filled[0]), int(filled[-1]) + 1) if filled.size else (0, 0)
    if not level or 2 * (bottom - top) >= height:
        return deflate.zlib_compress(rows.data, level)
    blocks = _zeros(top * width), _block(rows[top:bottom].tobytes()), _zeros((height - bottom) * width)
    return b"".join((_ZLIB, *blocks, _LAST, struct.pack(">I", deflate.adler32(rows.data))))


@functools.lru_cache(_ROWS)
def _zeros(size: int) -> bytes:
    return _block(bytes(size))


def _block(content: bytes) -> bytes:
    """A block of a deflate stream that is not the last, and ends at a byte."""
    made = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_RLE)
    return made.compress(content) + made.flush(zlib.Z_SYNC_FLUSH)


def decode_flat(data: bytes) -> Pixels | None:
    """The pixels, uint8 (height, width), of a PNG that `encode_flat` wrote; None for others and damaged ones."""
    if len(data) < _MIN:
        return None
    width, height = _SIDES.unpack_from(data, len(PNG_SIGNATURE) + 8)
    size = height * (width + 1)
    head = _gray_head(height, width)
    start, stop = len(head) + 8, len(data) - len(_END) - 4
    name, behind = struct.pack(">I4s", stop - start, b"IDAT"), data[stop:]
    if not data.startswith(head + name) or not 0 < height * width <= MAX_PIXELS:
        return None
    if behind != struct.pack(">I", deflate.crc32(memoryview(data)[start - 4 : stop])) + _END:
        return None
    try:
        rows = np.frombuffer(deflate.zlib_decompress(memoryview(data)[start:stop], size), np.uint8)
    except deflate.DeflateError:
        return None
    if rows.size != size or rows[:: width + 1].any():
        return None
    return rows.reshape(height, width + 1)[:, 1:]


def chunk(name: bytes, content: bytes | bytearray) -> bytes:
    """A chunk of a PNG: its length, its name of four letters, its content and its checksum."""
    return b"".join(_parts(name, content))


def _parts(name: bytes, content: bytes | bytearray) -> tuple[bytes | bytearray, ...]:
    """What a chunk is put together from."""
    checksum = deflate.crc32(content, deflate.crc32(name))
    return struct.pack(">I", len(content)), name, content, struct.pack(">I", checksum)


def _gray_head(height: int, width: int) -> bytes:
    """The beginning of a PNG of eight bits of gray."""
    return PNG_SIGNATURE + chunk(b"IHDR", _SIDES.pack(width, height) + _PLAIN)


def still(data: bytes, where: str) -> bytes:
    """The still image of a PNG: itself, or, if it is animated, the file without its animation.

    Decoders that know animations compose the first frame of one, which need not be the still image.

    Raises:
        ImageError: the file is cut short, or a chunk's checksum does not match.
    """
    chunks = list(_chunks(data, where))
    if not any(name in _ANIMATION for name, _, _ in chunks):
        return data
    return _joined(data, [(start, end) for name, start, end in chunks if name not in _ANIMATION])


def indices(data: bytes) -> bytes:
    """A palette PNG, as `still` gave it, as a gray one: its pixels are the indices, of as many bits."""
    kept = []
    for name, start, end in _chunks(data, ""):
        if name == b"IHDR":
            content = data[start + 8 : end - 4]
            header = chunk(name, content[:_KIND] + _GRAY + content[_KIND + 1 :])
        elif name not in _COLORS:
            kept.append((start, end))
    return PNG_SIGNATURE + header + _joined(data, kept)[len(PNG_SIGNATURE) :]


def palette(data: bytes, where: str) -> list[tuple[int, int, int]]:
    """The (red, green, blue) colours of a palette PNG, by index; none of another PNG.

    Raises:
        ImageError: the file is cut short, or a chunk's checksum does not match.
    """
    chunks = _chunks(data, where)
    colors = next((data[start + 8 : end - 4] for name, start, end in chunks if name == b"PLTE"), b"")
    return [(colors[at], colors[at + 1], colors[at + 2]) for at in range(0, len(colors) - 2, 3)]


def _joined(data: bytes, kept: list[tuple[int, int]]) -> bytes:
    return b"".join((PNG_SIGNATURE, *(data[start:end] for start, end in kept)))


def _chunks(data: bytes, where: str) -> Iterator[tuple[bytes, int, int]]:
    """Name, start and end of every chunk up to the last, its checksum compared."""
    position, view = len(PNG_SIGNATURE), memoryview(data)
    while position + 12 <= len(data):
        length, name = struct.unpack_from(">I4s", data, position)
        end = position + 12 + length
        if end > len(data):
            break
        if zlib.crc32(view[position + 4 : end - 4]) != struct.unpack_from(">I", data, end - 4)[0]:
            raise truncated(where, f"a damaged PNG chunk at byte {position:,}")
        yield name, position, end
        if name == b"IEND":
            return
        position = end
    raise truncated(where, f"a PNG that ends early, after {counted(len(data), 'byte')}")
