"""Items whose images are made smaller: for a first try on large ones, or for good."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np
import simplejpeg
from numpy.typing import NDArray

from penstock.images import ImageInfo, PixelFormat, probe
from penstock.images.codecs import encode_png
from penstock.images.formats import stored
from penstock.images.planes import encode_planes
from penstock.images.upright import read_upright
from penstock.kinds import FilePart, Kind
from penstock.kinds.items import Item
from penstock.kinds.shrinking import JPEG_QUALITY, part_of, smaller

_BYTE: Final = 8


def shrunk(item: Item, most: int, kind: Kind) -> Item:
    """An item whose image has sides of at most `most` pixels, with its label made smaller alike.

    Images that are small enough stay as they are. Others are resized once their EXIF orientation is applied; JPEG files
    stay JPEG, of quality 95, and all others become PNG.

    Raises:
        DatasetError: labels of the kind cannot be made smaller.
    """
    image = part_of(item.image, most, partial(_image, item.image, most))
    return replace(kind.shrunk(item, most), image=image, size=(0, 0))


def _image(place: Path | FilePart, most: int) -> bytes:
    data = stored(place.read_bytes(), str(place))
    info = probe(data, str(place))
    size = smaller(info.size, most)
    if size == info.size:
        return data
    pixels = read_upright(data, str(place), _format(info))
    parts = [pixels[..., first : first + 4] for first in range(0, pixels.shape[2], 4)]
    resized = [cv2.resize(part, size[::-1], interpolation=cv2.INTER_AREA).reshape(*size, -1) for part in parts]
    return _encoded(np.concatenate(resized, axis=2), info)


def _format(info: ImageInfo) -> PixelFormat:
    bits = 16 if info.bits > _BYTE else _BYTE
    return PixelFormat(info.channels, bits) if info.planes else PixelFormat(bits=bits)


def _encoded(pixels: NDArray[Any], info: ImageInfo) -> bytes:
    if info.format == "jpeg":
        return bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), quality=JPEG_QUALITY))
    if info.planes:
        return encode_planes(pixels)
    return encode_png(pixels)
