"""Crops of many padded images at once, byte for byte what `warp_image` makes of `geometry.pad_and_crop`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.images.geometry import Size


def pad(image: NDArray[Any], margin: int, fill: Sequence[int] | None) -> NDArray[Any]:
    """An image (height, width, channels) with a margin on every side: `fill`, or with None its mirror."""
    if fill is None:
        return np.pad(image, ((margin, margin), (margin, margin), (0, 0)), mode="reflect")
    height, width, channels = image.shape
    padded = np.full((height + 2 * margin, width + 2 * margin, channels), fill, image.dtype)
    padded[margin : margin + height, margin : margin + width] = image
    return padded


def crops(
    padded: NDArray[Any], chosen: NDArray[np.int64], crop: Size, at: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> NDArray[Any]:
    """Some images of one size at their own scale, cropped (He et al. 2016).

    Args:
        padded: (images, height, width, channels), contiguous, with their margins.
        chosen: which of them, (n,).
        crop: the size of the outputs, at most that of an image with its margins.
        at: where each crop lies in the room that it has, (vertical, horizontal), (n,) each, in [0, 1).

    Returns:
        (n, height, width, channels), of the type of `padded`.
    """
    height, width, channels = padded.shape[1:]
    room = height - crop[0], width - crop[1]
    tops, lefts = ((fraction * (free + 1)).astype(np.int64) for fraction, free in zip(at, room, strict=True))
    # Rows of pixels are copied as they lie in memory: each is a run of the whole array.
    runs = np.lib.stride_tricks.sliding_window_view(padded.reshape(-1), crop[1] * channels)[::channels]
    first = (chosen * height + tops) * width + lefts
    rows: NDArray[Any] = runs[first[:, np.newaxis] + np.arange(crop[0]) * width]
    return rows.reshape(len(chosen), *crop, channels)


def flip(images: NDArray[Any], chosen: NDArray[np.bool_]) -> None:
    """Mirror some images, (n, height, width, channels), contiguous, left to right in place."""
    pixels = images.view(f"V{images.shape[3] * images.itemsize}")  # copied whole, not channel by channel
    pixels[chosen] = pixels[chosen][:, :, ::-1]
