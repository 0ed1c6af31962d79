"""Blur and noise, as out-of-focus and dim images have them."""

from __future__ import annotations

from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

from penstock.images.pixels import scale_of

_MIN: Final = 0.1  # pixels: a blur of less changes nothing
_BYTES: Final = 4  # that are added up for a number that is nearly normal
_MEAN: Final = _BYTES * 255 / 2
_DEVIATION: Final = (_BYTES * (256**2 - 1) / 12) ** 0.5


def blur(pixels: NDArray[Any], sigma: float) -> None:
    """Blur an image (height, width, channels) in place.

    Args:
        pixels: uint8 or uint16.
        sigma: standard deviation of the Gaussian in pixels.
    """
    if sigma >= _MIN:
        pixels[...] = cv2.GaussianBlur(pixels, (0, 0), sigma).reshape(pixels.shape)


def add_noise(pixels: NDArray[Any], deviation: float, key: int) -> None:
    """Add noise to every value of an image in place, independent and nearly normal, clipped to what pixels can hold.

    The numbers are sums of bytes of Philox, whose bits numpy promises not to change; of its normal numbers it does not.

    Args:
        pixels: uint8 or uint16.
        deviation: standard deviation, on the scale of 0 to 255.
        key: seeds the numbers.
    """
    scale = scale_of(pixels)
    words = np.random.Philox(key=key).random_raw(-(-pixels.size // 2))
    parts = words.view(np.uint8)[: pixels.size * _BYTES].reshape(pixels.size, _BYTES)
    normal = (parts.sum(axis=1, dtype=np.float32) - _MEAN) * (scale * deviation / _DEVIATION)
    noisy = pixels.reshape(-1) + normal
    pixels[...] = np.clip(np.rint(noisy), 0, 255 * scale).astype(pixels.dtype).reshape(pixels.shape)
