"""Images of other channels than gray and RGB, as PNG: planes of one channel below one another.

PNG has no images of two, four or more channels of which none is opacity. Such an image is kept as a gray PNG of its
planes, and a chunk of our own says how many there are. Every other reader sees a tall gray image.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from penstock.images.header import PLANES, PNG_SIGNATURE
from penstock.images.png import chunk, encode

_HEADER: Final = len(PNG_SIGNATURE) + 25  # where the first chunk ends


def encode_planes(pixels: NDArray[Any], where: str = "an image") -> bytes:
    """Pixels of any number of channels, uint8 or uint16 (height, width, channels), as PNG.

    Raises:
        ImageError: the planes have more rows together than a PNG holds.
    """
    height, width, channels = pixels.shape
    tall = np.ascontiguousarray(pixels.transpose(2, 0, 1)).reshape(channels * height, width)
    data = encode(tall, where)
    return data[:_HEADER] + chunk(PLANES, struct.pack(">I", channels)) + data[_HEADER:]


def split_planes(tall: NDArray[Any], channels: int) -> NDArray[Any]:
    """Planes below one another, (channels * height, width), as pixels (height, width, channels)."""
    height = tall.shape[0] // channels
    return np.ascontiguousarray(tall.reshape(channels, height, tall.shape[1]).transpose(1, 2, 0))
