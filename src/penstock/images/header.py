"""What the header of a JPEG or PNG says, read in microseconds without decoding.

Sources: ITU-T T.81 (JPEG markers), the PNG specification (third edition), Exif 2.32 (tag 0x0112, orientation).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from penstock.errors import ImageError
from penstock.progress import counted

MAX_PIXELS: Final = 1 << 28
MAX_BYTES: Final = 8 * MAX_PIXELS  # of a file
"""Images whose header announces more pixels than this (268 million) are refused before they are decoded."""

PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
PLANES: Final = b"plNs"
"""The chunk of a PNG that holds planes below one another (`images.planes`): private, and safe to copy."""
_START_OF_FRAME: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SCAN: Final = b"\xff\xda"
_MAX_SCANS: Final = 100  # encoders write about ten
_SEQUENTIAL: Final = frozenset({0xC0, 0xC1})
_STANDALONE: Final = frozenset({0x01, *range(0xD0, 0xD9)})
_ORIENTATION_TAG: Final = 0x0112
_SHORT: Final = 3
_PNG_CHANNELS: Final = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_PALETTE: Final = 3
_JPEG_CHANNELS: Final = frozenset({1, 3, 4})
"""Of gray, colours and inks: decoders know no others."""


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """A file's header: size in pixels as stored, and how to turn it upright.

    Attributes:
        format: "jpeg" or "png".
        height, width: as stored, before `orientation` is applied.
        channels: as stored; 1 for a palette.
        bits: per channel, 1 to 16.
        orientation: 1 to 8 as in Exif; 1 is upright.
        palette: whether pixels are indices into a colour table.
        adobe: whether a JPEG has Adobe's marker, which says that its CMYK is inverted.
        frame: the byte at which a JPEG states its height, if its rows can be decoded down to any of them and known to
            be sound: it is coded from top to bottom in one scan, and nothing lies between the segments of its header.
            0 for others.
        restarts: blocks of a JPEG from one restart marker to the next; 0 where it has none.
        planes: whether the channels of a PNG are planes of gray below one another.
    """

    format: str
    height: int
    width: int
    channels: int
    bits: int = 8
    orientation: int = 1
    palette: bool = False
    adobe: bool = False
    frame: int = 0
    restarts: int = 0
    planes: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) as a viewer shows it, with the orientation applied."""
        turned = self.orientation > 4
        return (self.width, self.height) if turned else (self.height, self.width)


def probe(data: bytes, where: str) -> ImageInfo:
    """Read the header of an encoded image.

    Raises:
        ImageError: the bytes are no JPEG or PNG, the header is cut short, or announces too many pixels or scans.
    """
    try:
        if data[:2] == b"\xff\xd8":
            info = _jpeg(data)
        elif data[:8] == PNG_SIGNATURE:
            info = _png(data, where)
        else:
            raise not_an_image(data, where)
    except (IndexError, struct.error):
        raise truncated(where, "a file that ends inside its header") from None
    if info is None or not info.height or not info.width:
        raise truncated(where, "a header without an image size")
    if info.height * info.width > MAX_PIXELS:
        raise ImageError(
            where,
            expected=f"an image of at most {MAX_PIXELS:,} pixels",
            found=f"a header that announces {info.height:,} x {info.width:,}",
            remedy="Make the image smaller, or cut it into tiles",
        )
    if info.format == "jpeg" and info.channels not in _JPEG_CHANNELS:
        raise truncated(where, f"a JPEG of {counted(info.channels, 'channel')}")
    if info.format == "jpeg" and not info.frame and (scans := data.count(_SCAN)) > _MAX_SCANS:
        raise ImageError(
            where,
            expected=f"a JPEG of at most {_MAX_SCANS} scans, as each of them goes over the whole image",
            found=f"{scans:,}",
            remedy="Save it again",
        )
    return info


def not_an_image(data: bytes, where: str) -> ImageError:
    """The error for bytes that are neither of the two formats."""
    return ImageError(
        where,
        expected="an image",
        found=f"{counted(len(data), 'byte')} that start with {data[:8].hex(' ') or 'nothing'}",
        remedy="Convert the file, or leave it out",
    )


def truncated(where: str, found: str) -> ImageError:
    """The error for an image that is cut short or damaged."""
    return ImageError(
        where, expected="a complete image", found=found, remedy="Restore the file from a copy, or leave it out"
    )


def jpeg_segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """The segments of a JPEG up to that of its first scan: marker, and the bytes `[start, end)` of length and content.

    As libjpeg does, whatever lies between segments is passed over; start and end tell whether anything does.

    Raises:
        IndexError, struct.error: the file ends before its first scan.
    """
    position = 2
    while True:
        position = data.find(b"\xff", position)
        if position < 0:
            raise IndexError
        while data[position] == 0xFF:
            position += 1
        marker = data[position]
        position += 1
        if marker in _STANDALONE or not marker:  # 0 says that the 255 before it was no marker
            continue
        (length,) = struct.unpack_from(">H", data, position)
        yield marker, position, position + length
        if marker in (0xD9, 0xDA):
            return
        position += length


def _jpeg(data: bytes) -> ImageInfo | None:
    orientation, adobe, found, frame, restarts = 1, False, None, 0, 0
    expected, clean = 4, True  # behind SOI lies a marker, behind which its segment starts
    for marker, start, end in jpeg_segments(data):
        clean = clean and start == expected
        expected = end + 2
        if marker == 0xE1 and data[start + 2 : start + 8] == b"Exif\0\0":
            orientation = exif_orientation(data[start + 8 : end])
        elif marker == 0xEE and data[start + 2 : start + 7] == b"Adobe":
            adobe = True
        elif marker == 0xDD:
            (restarts,) = struct.unpack_from(">H", data, start + 2)
        elif marker in _START_OF_FRAME and found is None:
            bits, height, width, channels = struct.unpack_from(">BHHB", data, start + 2)
            frame = start + 3 if marker in _SEQUENTIAL else 0
            found = ImageInfo("jpeg", height, width, channels, bits)
        elif marker == 0xDA and found is not None:
            clean = clean and data[start + 2] == found.channels
    frame = frame if clean else 0
    return found and replace(found, orientation=orientation, adobe=adobe, frame=frame, restarts=restarts)


def _png(data: bytes, where: str) -> ImageInfo:
    width, height, bits, kind = struct.unpack_from(">IIBB", data, 16)
    orientation, planes, position = 1, 0, 33
    while position + 8 <= len(data):
        length, name = struct.unpack_from(">I4s", data, position)
        if name == b"eXIf":
            orientation = exif_orientation(data[position + 8 : position + 8 + length])
        elif name == PLANES:
            (planes,) = struct.unpack_from(">I", data, position + 8)
        if name in (b"IDAT", b"IEND", b"eXIf"):
            break
        position += length + 12
    if planes and (height % planes or kind):
        raise truncated(where, f"{planes:,} planes below one another in {height:,} rows, as its chunk plNs says")
    if planes:
        return ImageInfo("png", height // planes, width, planes, bits, planes=True)
    return ImageInfo("png", height, width, _PNG_CHANNELS.get(kind, 3), bits, orientation, kind == _PALETTE)


def exif_orientation(tiff: bytes) -> int:
    """The orientation tag of an Exif block (a TIFF header and its first directory); 1 where there is none."""
    try:
        order = {b"II": "<", b"MM": ">"}[tiff[:2]]
        (directory,) = struct.unpack_from(f"{order}I", tiff, 4)
        (entries,) = struct.unpack_from(f"{order}H", tiff, directory)
        for entry in range(directory + 2, directory + 2 + 12 * entries, 12):
            tag, kind = struct.unpack_from(f"{order}HH", tiff, entry)
            if tag == _ORIENTATION_TAG and kind == _SHORT:
                (value,) = struct.unpack_from(f"{order}H", tiff, entry + 8)
                return value if 1 <= value <= 8 else 1
    except (KeyError, struct.error):
        pass
    return 1
