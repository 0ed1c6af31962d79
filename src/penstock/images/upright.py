"""An image as a viewer shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.images import codecs, geometry
from penstock.images.formats import stored
from penstock.images.header import probe
from penstock.images.warp import warp_image

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]


def read_upright(data: bytes, where: str) -> Pixels:
    """Decode an image of any format that is known as a viewer shows it: uint8 RGB (height, width, 3).

    Raises:
        ImageError: it cannot be decoded.
        RecipeError: it needs a library that is not installed.
    """
    data = stored(data, where)
    info = probe(data, where)
    pixels = codecs.decode_image(data, where, info=info)
    if info.orientation == 1:
        return pixels
    upright = np.empty((*info.size, 3), np.uint8)
    warp_image(pixels, geometry.upright_to_stored(info.orientation, (info.height, info.width)), (0, 0, 0), upright)
    return upright
