"""How many channels and bits the pixels of images have, and images of one format as another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

from penstock.errors import ImageError
from penstock.progress import counted
from penstock.values import Pixels

_COLORS: Final = 3
_BYTE: Final = 8
_SPREAD: Final = 257
"""A byte times this has the same place between 0 and 65535."""
_DARK, _BRIGHT = 0.5, 99.5  # percentiles that become black and white


@dataclass(frozen=True, slots=True)
class PixelFormat:
    """What a dataset gives of every image.

    Attributes:
        channels: 3 for RGB, which gray images are turned into; else as many as the images have.
        bits: per channel, 8 or 16.
        value_range: the values of TIFF and DICOM images that become 0 and 65535; None takes their values as they are.
    """

    channels: int = _COLORS
    bits: int = _BYTE
    value_range: tuple[float, float] | None = None

    @property
    def dtype(self) -> str:
        """Of arrays of pixels: "uint8" or "uint16"."""
        return f"uint{self.bits}"

    @property
    def highest(self) -> int:
        """The highest value of a pixel."""
        return (1 << self.bits) - 1

    @property
    def is_rgb(self) -> bool:
        """Whether images have the three channels that most networks were trained on."""
        return self.channels == _COLORS

    def __str__(self) -> str:
        return f"{counted(self.channels, 'channel')} of {self.bits} bits"


RGB: Final = PixelFormat()


def color_codes(pixels: Pixels) -> NDArray[np.uint32]:
    """Each colour as one number, red << 16 | green << 8 | blue: (height, width) of uint8 (height, width, 3)."""
    codes = pixels[..., 0].astype(np.uint32)
    for channel in (1, 2):
        codes <<= 8
        codes |= pixels[..., channel]
    return codes


def with_bits(pixels: NDArray[Any], bits: int) -> NDArray[Any]:
    """The same values on the scale of 8 or 16 bits; the lower byte is dropped, or the byte repeated."""
    if pixels.dtype == np.dtype(f"uint{bits}"):
        return pixels
    if bits == _BYTE:
        return (pixels >> _BYTE).astype(np.uint8)
    return pixels.astype(np.uint16) * np.uint16(_SPREAD)


def spread(values: NDArray[Any], value_range: tuple[float, float]) -> NDArray[np.uint16]:
    """Values of any type as uint16: `low` to `high` spread over 0 to 65535, others cut to it, NaN as 0."""
    low, high = value_range
    fractions = np.clip((values.astype(np.float64) - low) / (high - low), 0, 1)
    return np.asarray(np.rint(np.nan_to_num(fractions, nan=0.0) * np.iinfo(np.uint16).max), np.uint16)


def scale_of(pixels: NDArray[Any]) -> int:
    """What a value on the scale of 0 to 255 is multiplied by for the pixels of an array: 1, or 257 for 16 bits."""
    return _SPREAD if pixels.dtype == np.uint16 else 1


def shown(pixels: NDArray[Any]) -> Pixels:
    """An image for people: uint8 RGB (height, width, 3). Of more channels the first three are shown, of fewer the
    first as gray. 16 bits are stretched, as few images use all of them; bands each by themselves.
    """
    count = pixels.shape[2]
    colors = pixels if count == _COLORS else pixels[..., [0, 1, 2] if count > _COLORS else [0, 0, 0]]
    if colors.dtype == np.uint8:
        return colors
    axes = None if count == _COLORS else (0, 1)
    low, high = np.percentile(colors, (_DARK, _BRIGHT), axis=axes)
    stretched = (colors.astype(np.float32) - low) * (255 / np.maximum(1.0, high - low))
    clipped: Pixels = np.clip(np.rint(stretched), 0, 255).astype(np.uint8)
    return clipped


def check_format(pixels: NDArray[Any], wanted: PixelFormat, where: str) -> NDArray[Any]:
    """An image that somebody gives, in the bits of a dataset. One without an axis of channels is gray.

    Raises:
        ImageError: it is no such image, or has other channels.
    """
    if wanted.value_range is not None and pixels.dtype not in (np.uint8, np.uint16):
        pixels = spread(pixels, wanted.value_range)
    if pixels.ndim == 2 and wanted.channels in (1, _COLORS):  # noqa: PLR2004 - rows and columns
        pixels = np.repeat(pixels[..., np.newaxis], wanted.channels, axis=2)
    is_image = pixels.dtype in (np.uint8, np.uint16) and pixels.ndim == 3 and pixels.size > 0  # noqa: PLR2004 - axes
    if is_image and pixels.shape[2] == wanted.channels:
        return with_bits(pixels, wanted.bits)
    kind = f"{wanted.dtype} RGB" if wanted.is_rgb else wanted.dtype
    remedy = f"Convert it to {kind}, with values from 0 to {wanted.highest} and the channels last"
    if np.issubdtype(pixels.dtype, np.floating):
        remedy = f"If its values are from 0 to 1, give ({wanted.highest} * image).astype('{wanted.dtype}')"
    raise ImageError(
        where,
        expected=f"a {kind} array of shape (height, width, {wanted.channels})",
        found=f"{pixels.dtype} of shape {pixels.shape}",
        remedy=remedy,
    )


def moments(pixels: NDArray[Any]) -> tuple[tuple[float, float], ...]:
    """Of every channel the mean and the mean square, as fractions of the highest value."""
    flat = pixels.reshape(-1, 1, pixels.shape[-1]) if pixels.ndim == _COLORS else pixels.reshape(-1, 1, 1)
    highest = np.iinfo(pixels.dtype).max
    found = []
    for first in range(0, flat.shape[2], 4):  # OpenCV takes four channels at once
        mean, deviation = cv2.meanStdDev(np.ascontiguousarray(flat[..., first : first + 4]))
        found += [
            (float(m) / highest, (float(m) ** 2 + float(d) ** 2) / highest**2)
            for m, d in zip(mean[:, 0], deviation[:, 0], strict=True)
        ]
    return tuple(found)
