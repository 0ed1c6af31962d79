"""Encoded bytes to arrays: images as RGB, masks as class ids. Libraries: libjpeg-turbo (simplejpeg) and
libpng (OpenCV).
"""

from __future__ import annotations

import math
import threading
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

from penstock.errors import ImageError, LabelError
from penstock.images import jpeg, png
from penstock.images.geometry import Region
from penstock.images.header import PNG_SIGNATURE, ImageInfo, probe, truncated
from penstock.images.pixels import RGB, PixelFormat, with_bits
from penstock.images.planes import split_planes
from penstock.progress import counted
from penstock.values import Pixels

_MAX_PREVIEWED: Final = 1 << 27  # pixels
_COLORS: Final = 3
_BYTE: Final = 255
_BITS: Final = 8


class Scratch(threading.local):
    """Memory that a thread decodes into again: page faults of fresh memory take a third of the time of decoding."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def array(self, *shape: int) -> Pixels:
        """An array of a shape; it lives until this thread asks for another."""
        size = math.prod(shape)
        if len(self._memory) < size:
            self._memory = np.empty(size, np.uint8)
        return self._memory[:size].reshape(shape)


def decode_image(
    data: bytes,
    where: str,
    *,
    info: ImageInfo | None = None,
    reduction: int = 1,
    region: Region | None = None,
    pixels: PixelFormat = RGB,
    scratch: Scratch | None = None,
) -> NDArray[Any]:
    """Decode to uint8 RGB of shape (height, width, 3), as stored: orientation is left to the sample's affine map.

    Gray, palette and CMYK images are converted, 16-bit ones keep their upper byte, alpha is dropped. Another format of
    pixels gives uint16, or another number of channels.

    Args:
        data: an encoded JPEG or PNG.
        where: named in errors.
        info: the header, when it was read before.
        reduction: 1, 2, 4 or 8; a JPEG is decoded at 1/reduction of its size (rounded up) in its DCT. Other formats
            and images below 16 pixels ignore it: compare the width with the header's.
        region: the part of the stored image to decode, before the reduction; None is all of it. A baseline JPEG is
            decoded to a little below the region, and has that height. With restart markers, it is decoded in the region
            alone, and other pixels are undefined. Other files are decoded whole.
        pixels: the channels and bits that are wanted. Images must have the channels, but gray ones are turned into RGB;
            the three first channels stand for the others where RGB is wanted.
        scratch: where to decode a JPEG to; the result then lives until this thread's next call with it.

    Raises:
        ImageError: the file is cut short, damaged, or neither JPEG nor PNG.
    """
    info = info or probe(data, where)
    if info.format == "png":
        return _decode_png(data, where, info, pixels)
    if not pixels.is_rgb:
        raise _other_channels(where, info, pixels)
    shape = info.height, info.width, max(info.channels, _COLORS)
    buffer = scratch.array(*shape) if scratch else np.empty(shape, np.uint8)
    return with_bits(jpeg.decode(data, where, info, region, reduction, buffer), pixels.bits)


def _decode_png(data: bytes, where: str, info: ImageInfo, wanted: PixelFormat) -> NDArray[Any]:
    is_rgb = wanted.is_rgb and not info.planes
    if not wanted.is_rgb and info.channels != wanted.channels:
        raise _other_channels(where, info, wanted)
    colors = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_ANYDEPTH if wanted.bits > _BITS else cv2.IMREAD_COLOR_RGB
    flags = (colors if is_rgb else cv2.IMREAD_UNCHANGED) | cv2.IMREAD_IGNORE_ORIENTATION
    found = cv2.imdecode(np.frombuffer(png.still(data, where), np.uint8), flags)
    if found is None:
        raise truncated(where, "a PNG that libpng cannot decode")
    decoded = with_bits(found, wanted.bits)
    if is_rgb:
        return decoded
    if info.planes:
        split = split_planes(decoded, info.channels)
        return split if not wanted.is_rgb or info.channels == _COLORS else _first_colors(split)
    return decoded[..., np.newaxis] if decoded.ndim == 2 else cv2.cvtColor(decoded, cv2.COLOR_BGRA2RGBA)  # noqa: PLR2004 - one channel


def _first_colors(pixels: NDArray[Any]) -> NDArray[Any]:
    """The first three channels; of two the first one as gray."""
    chosen = range(_COLORS) if pixels.shape[2] > _COLORS else [0] * _COLORS
    return np.ascontiguousarray(pixels[..., list(chosen)])


def _other_channels(where: str, info: ImageInfo, wanted: PixelFormat) -> ImageError:
    return ImageError(
        where,
        expected=f"{counted(wanted.channels, 'channel')}, as the dataset says",
        found=f"{counted(info.channels, 'channel')} ({info.format})",
        remedy="Use images with the same channels",
    )


def decode_mask(data: bytes, where: str, *, palette: bool = False) -> Pixels:
    """Decode a mask of class ids to uint8 of shape (height, width), as stored.

    Gray PNGs of 1 to 16 bits give their raw values, never scaled ones. `palette` accepts palette PNGs and gives their
    indices, as in Pascal VOC.

    Raises:
        ImageError: the file is cut short, damaged, or neither JPEG nor PNG.
        LabelError: it is no single-channel PNG, or holds ids above 255.
    """
    flat = png.decode_flat(data)
    if flat is not None:
        return flat
    info = probe(data, where)
    if info.format != "png":
        raise _unfit(
            where,
            "a JPEG",
            "JPEG changes the ids of pixels; save masks as PNG, or give --mask-threshold 128 for black and white masks",
        )
    if info.palette and not palette:
        remedy = "If the palette's indices are the class ids, as in Pascal VOC, say so with --palette"
        raise _unfit(where, "a palette PNG", remedy)
    if info.channels != 1:
        planes = f"a PNG of {info.channels} planes"
        kind = {2: "a gray PNG with alpha", 3: "an RGB PNG", 4: "an RGBA PNG"}.get(info.channels, planes)
        raise _unfit(
            where,
            kind,
            "List the colours of the classes in class_dict.csv beside images/, or in another file with --colors FILE",
        )
    found = png.still(data, where)
    return _mask_pixels(png.indices(found) if info.palette else found, info, where)


def _mask_pixels(data: bytes, info: ImageInfo, where: str) -> Pixels:
    flags = cv2.IMREAD_UNCHANGED | cv2.IMREAD_IGNORE_ORIENTATION
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    if pixels is None or pixels.ndim != 2:  # noqa: PLR2004 - a mask has rows and columns only
        raise truncated(where, "a PNG that libpng cannot decode")
    if info.bits == 16 and (highest := int(pixels.max())) > _BYTE:  # noqa: PLR2004 - 16 bits per pixel
        raise LabelError(
            where,
            expected="class ids of at most 255",
            found=f"a 16-bit mask with id {highest}",
            remedy="Renumber the classes in the masks to ids from 0 to 255",
        )
    ids: Pixels = np.asarray(pixels, np.uint8)
    if info.bits < 8:  # noqa: PLR2004 - libpng spreads 1, 2 and 4 bits over 0..255
        ids = ids // np.uint8(_BYTE // ((1 << info.bits) - 1))
    return ids


def _unfit(where: str, found: str, remedy: str) -> LabelError:
    return LabelError(where, expected="a mask with one channel of class ids, as PNG", found=found, remedy=remedy)


def encode_mask(ids: Pixels) -> bytes:
    """A mask as an 8-bit gray PNG, which `decode_mask` reads fast."""
    return png.encode_flat(ids)


def plain_mask(ids: Pixels) -> bytes:
    """The same without compression, for a mask that was drawn to be decoded at once: in a fifth of the time."""
    return png.encode_flat(ids, level=0)


def encode_png(pixels: NDArray[Any], where: str = "an image") -> bytes:
    """Gray, RGB or RGBA pixels, uint8 or uint16 (height, width, 1, 3 or 4), as PNG bytes.

    Raises:
        ImageError: there are more rows or columns than a PNG holds.
    """
    order = {1: [0], 3: [2, 1, 0], 4: [2, 1, 0, 3]}[pixels.shape[2]]
    return png.encode(pixels[..., order], where)


def preview(data: bytes, where: str) -> bytes:
    """A PNG as WebP of at most 1600 x 16000 pixels, for pages: a tenth of its size or less.

    Raises:
        ImageError: it is damaged; `where` names it.
    """
    sides = (int.from_bytes(data[at : at + 4]) for at in (16, 20))  # of the header of every PNG
    is_small = data[:8] == PNG_SIGNATURE and math.prod(sides) <= _MAX_PREVIEWED
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if is_small else None
    if pixels is None:
        raise ImageError(where, expected="a PNG image", found="a damaged or a huge one", remedy="Draw it again")
    height, width = pixels.shape[:2]
    scale = min(1.0, 1600 / width, 16_000 / height)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA) if scale < 1 else pixels
    return bytes(cv2.imencode(".webp", small, [cv2.IMWRITE_WEBP_QUALITY, 80])[1])
