"""An image as a viewer shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.images import codecs, geometry
from penstock.images.formats import stored
from penstock.images.header import probe
from penstock.images.pixels import RGB, PixelFormat, shown
from penstock.images.warp import warp_image

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]


def read_upright(data: bytes, where: str, wanted: PixelFormat = RGB) -> NDArray[Any]:
    """Decode an image of any format that is known as a viewer shows it: by default uint8 RGB (height, width, 3).

    Raises:
        ImageError: it cannot be decoded.
        RecipeError: it needs a library that is not installed.
    """
    data = stored(data, where, wanted.value_range)
    info = probe(data, where)
    pixels = codecs.decode_image(data, where, info=info, pixels=wanted)
    if info.orientation == 1:
        return pixels
    upright = np.empty((*info.size, pixels.shape[2]), pixels.dtype)
    warp_image(pixels, geometry.upright_to_stored(info.orientation, (info.height, info.width)), (0, 0, 0), upright)
    return upright


def read_shown(data: bytes, where: str) -> Pixels:
    """An encoded image for people: uint8 RGB (height, width, 3), upright; 16 bits are stretched.

    Raises:
        ImageError: it cannot be decoded.
        RecipeError: it needs a library that is not installed.
    """
    bits = probe(stored(data, where), where).bits
    return shown(read_upright(data, where, PixelFormat(bits=16 if bits > RGB.bits else RGB.bits)))
