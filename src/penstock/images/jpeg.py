"""Decoding JPEG so that no damage goes unnoticed.

libjpeg-turbo goes on after a warning and reports the first one alone, once all is decoded - or before anything is, if
it came from the header. So a warning is accepted where it is known that none can hide behind it, and nowhere else.
"""

from __future__ import annotations

import math
import re
import struct
from typing import Final

import numpy as np
import simplejpeg

from penstock.images import intervals
from penstock.images.geometry import Region
from penstock.images.header import ImageInfo, jpeg_segments, truncated
from penstock.values import Pixels

REDUCIBLE: Final = 16
"""Pixels below which a side is not reduced; also the height of a row of blocks with subsampled chroma."""

_CONTEXT: Final = 4  # rows; smooth chroma upsampling looks at the next row of chroma, which covers up to four
_INK: Final = 4
_BYTE: Final = 255
_BELOW: Final = "extraneous bytes before marker 0xd9"
_SPARE: Final = re.compile(r"(\d+) extraneous bytes before marker 0xd9")
_END: Final = b"\xff\xd9"
_RESTART: Final = re.compile(rb"\xff[\xd0-\xd9]")  # or the end
_JFIF: Final = bytes.fromhex("ffe000104a46494600010100000100010000")
_NEEDED: Final = frozenset({*range(0xC0, 0xD0), 0xDB, 0xDD})
"""Markers of the segments that pixels depend on: frames, tables of codes and of quantisation, restart intervals."""


def decode(data: bytes, where: str, info: ImageInfo, region: Region | None, reduction: int, buffer: Pixels) -> Pixels:
    """Decode a JPEG to uint8 (height, width, 3), at a reduced size and no more of it than is wanted.

    Args:
        data: an encoded JPEG.
        where: named in errors.
        info: its header.
        region: what is wanted, before it is reduced; None for all.
        reduction: 1, 2, 4 or 8: decode at this fraction of the size (rounded up), unless that is below 16 pixels.
        buffer: memory for the whole image; what is returned may lie in it.

    Returns:
        The rows down to the end of the region. All rows of a file that has something to be repaired first. Beside the
        region, pixels are undefined.

    Raises:
        ImageError: the file is cut short or damaged.
    """
    height = _enough(info, region, reduction)
    if region is not None and (pixels := _cut_out(data, info, region, height, reduction, buffer)) is not None:
        return pixels
    wanted = _upper(data, info, height) if height < info.height else data
    space, size = "CMYK" if info.channels == _INK else "RGB", _reduced(height, info.width, reduction)
    try:
        pixels = simplejpeg.decode_jpeg(wanted, space, min_height=size[0], min_width=size[1], buffer=buffer)
    except ValueError as error:
        if height < info.height and _BELOW in str(error) and wanted:
            # The header is sound, there is one scan (`info.frame`), and its restart markers are in order: so the first
            # thing that was wrong is that bytes are left, those of the rows below.
            pixels = buffer.reshape(-1)[: math.prod(size) * len(space)].reshape(*size, len(space))
        else:
            pixels = _repaired(data, where, space, _reduced(info.height, info.width, reduction), buffer)
    return _from_cmyk(pixels, inverted=info.adobe) if space == "CMYK" else pixels


def _enough(info: ImageInfo, region: Region | None, reduction: int) -> int:
    """How many rows to decode: what chroma takes from the rows below is added, and whole blocks are taken."""
    if region is None or not info.frame:
        return info.height
    block = REDUCIBLE * reduction
    return min(info.height, -(-(max(1, region.bottom) + _CONTEXT) // block) * block)


def _cut_out(
    data: bytes, info: ImageInfo, region: Region, height: int, reduction: int, buffer: Pixels
) -> Pixels | None:
    """Decode the restart intervals of a region alone, and put them where they belong in the upper `height` rows.

    Returns:
        None where that is not possible, does not pay, or finds something wrong.
    """
    part = intervals.cut(data, info, region) if info.channels != _INK else None
    if part is None:
        return None
    size = _reduced(height, info.width, reduction)
    step = 1 if size == (height, info.width) else reduction
    rows, columns = -(-part.height // step), -(-part.width // step)
    memory = buffer.reshape(-1)
    spare = memory[len(memory) - rows * columns * 3 :]
    try:
        found = simplejpeg.decode_jpeg(part.data, "RGB", min_height=rows, min_width=columns, buffer=spare)
    except ValueError:
        return None
    pixels = memory[: math.prod(size) * 3].reshape(*size, 3)
    top, left = part.top // step, part.left // step
    pixels[top : top + rows, left : left + columns] = found[: size[0] - top]
    return pixels


def _upper(data: bytes, info: ImageInfo, height: int) -> bytes:
    """The file with its height made smaller, and no more restart intervals than that needs; empty where it has fewer.

    Of markers between them that are lost or out of order libjpeg warns, before it finds what is left at the end.
    """
    upper = b"".join((data[: info.frame], height.to_bytes(2, "big"), data[info.frame + 2 :]))
    if not info.restarts:
        return upper
    *_, (_, _, start) = jpeg_segments(data)
    down, across = intervals.block_size(data, info)
    if not (down and across):
        return b""  # a damaged header
    needed = -(-(-(-height // down) * -(-info.width // across)) // info.restarts)
    for number, found in enumerate(_RESTART.finditer(data, start), 1):
        if number == needed:
            return upper[: found.start()] + _END
    return b""


def _reduced(height: int, width: int, reduction: int) -> tuple[int, int]:
    size = -(-height // reduction), -(-width // reduction)
    return size if min(size) >= REDUCIBLE else (height, width)


def _repaired(data: bytes, where: str, space: str, size: tuple[int, int], buffer: Pixels) -> Pixels:
    """Decode without what no pixel depends on: colour profiles, bytes between segments, padding at the end."""
    plain = _without_padding(_plain(data), space)
    try:
        pixels: Pixels = simplejpeg.decode_jpeg(plain, space, min_height=size[0], min_width=size[1], buffer=buffer)
    except ValueError as error:
        raise truncated(where, f"a damaged JPEG ({error})") from None
    return pixels


def _plain(data: bytes) -> bytes:
    """The file with those segments before its first scan that are needed, and nothing between them."""
    kept, end = [data[:2]], 2
    for marker, start, end in jpeg_segments(data):
        if marker == 0xE0:  # noqa: PLR2004 - JFIF; revisions that libjpeg does not know are warned of
            kept.append(_JFIF)
        elif marker in _NEEDED or marker in (0xDA, 0xEE):
            kept.append(struct.pack(">BB", 0xFF, marker) + data[start:end])
    return b"".join((*kept, data[end:]))


def _without_padding(data: bytes, space: str) -> bytes:
    """The file without the bytes before its end that no scan uses, if that is what libjpeg finds wrong with it."""
    try:
        simplejpeg.decode_jpeg(data, space)
    except ValueError as error:
        spare, end = _SPARE.search(str(error)), data.find(_END)
        if spare and end > 0:
            return data[: end - int(spare[1])] + data[end:]
    return data


def _from_cmyk(pixels: Pixels, *, inverted: bool) -> Pixels:
    """Naive CMYK to RGB, as Pillow does it; Adobe's files hold the inks inverted."""
    ink = pixels.astype(np.uint16)
    light = ink if inverted else _BYTE - ink
    rgb: Pixels = ((light[..., :3] * light[..., 3:] + 127) // _BYTE).astype(np.uint8)
    return rgb
