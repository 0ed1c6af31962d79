"""Crops of many images of one size at once, byte for byte what `warp_image` makes of `geometry.pad_and_crop`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from penstock.images.geometry import Size


def padded_crops(
    images: NDArray[Any],
    crop: Size,
    margin: int,
    fill: Sequence[int] | None,
    at: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> NDArray[Any]:
    """Every image at its own scale with a margin around it, cropped (He et al. 2016).

    Args:
        images: (n, height, width, channels).
        crop: the size of the outputs, at most that of an image with its margins.
        margin: in pixels, on every side; below half of the crop and below the sides of an image.
        fill: the pixel in the margin; None mirrors the image at its edges.
        at: where each crop lies in the room that it has, (vertical, horizontal), (n,) each, in [0, 1).

    Returns:
        (n, height, width, channels), of the type of `images`.
    """
    padded = _padded(images, margin, fill)
    count, height, width, channels = padded.shape
    room = height - crop[0], width - crop[1]
    tops, lefts = ((fraction * (free + 1)).astype(np.int64) for fraction, free in zip(at, room, strict=True))
    # Rows of pixels are copied as they lie in memory: each is a run of the whole array.
    runs = np.lib.stride_tricks.sliding_window_view(padded.reshape(-1), crop[1] * channels)[::channels]
    first = (np.arange(count) * height + tops) * width + lefts
    rows: NDArray[Any] = runs[first[:, np.newaxis] + np.arange(crop[0]) * width]
    return rows.reshape(count, *crop, channels)


def _padded(images: NDArray[Any], margin: int, fill: Sequence[int] | None) -> NDArray[Any]:
    if not margin:
        return np.ascontiguousarray(images)
    if fill is None:
        return np.pad(images, ((0, 0), (margin, margin), (margin, margin), (0, 0)), mode="reflect")
    count, height, width, channels = images.shape
    padded = np.empty((count, height + 2 * margin, width + 2 * margin, channels), images.dtype)
    padded[...] = np.full(padded.shape[1:], fill, images.dtype)  # one image's margins, copied as a whole
    padded[:, margin:-margin, margin:-margin] = images
    return padded
