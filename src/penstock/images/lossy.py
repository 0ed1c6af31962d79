"""Whether an image file was compressed with loss, which gives the pixels of a mask ids that nobody drew.

JPEG files are recognised by their own header. Formats: WebP (RFC 9649), JPEG 2000 (ISO/IEC 15444-1, A.6.1), TIFF's
Compression tag.
"""

from __future__ import annotations

from typing import Final

from penstock.images import tiff

_COMPRESSION_TAG: Final = 259
_LOSSY_IN_TIFF: Final = {
    6: "JPEG",
    7: "JPEG",
    33003: "JPEG 2000",
    33005: "JPEG 2000",
    34712: "JPEG 2000",
    34892: "JPEG",
    50001: "WebP",
}
_CODESTREAM: Final = b"\xff\x4f\xff\x51"
_CODING_STYLE: Final = b"\xff\x52"
_WAVELET_AT: Final = 13
"""Where the coding style of JPEG 2000 names its wavelet: 0 is the irreversible one."""


def lossy_name(data: bytes) -> str:
    """What kind of lossy image a file is, as people call it; "" for one that keeps every value.

    AVIF and HEIC can be lossless too, but hardly a tool writes them so, and no reader says it: both count as lossy.
    """
    if data[4:8] == b"ftyp":
        return "an AVIF or HEIC image"
    if data[:4] == b"RIFF":
        return "a lossy WebP image" if _has_chunk(data, b"VP8 ") else ""
    if data[:4] in tiff.SIGNATURES:
        kind = _LOSSY_IN_TIFF.get(tiff.tags(data).get(_COMPRESSION_TAG, 1), "")
        return f"a TIFF image compressed with {kind}" if kind else ""
    return "a lossy JPEG 2000 image" if _is_irreversible(data) else ""


def _has_chunk(data: bytes, wanted: bytes) -> bool:
    """Whether a RIFF file has a chunk of a name."""
    at = 12
    while at + 8 <= len(data):
        if data[at : at + 4] == wanted:
            return True
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        at += 8 + size + size % 2
    return False


def _is_irreversible(data: bytes) -> bool:
    start = data.find(_CODESTREAM)
    style = data.find(_CODING_STYLE, start) if start >= 0 else -1
    return style >= 0 and style + _WAVELET_AT < len(data) and data[style + _WAVELET_AT] == 0
