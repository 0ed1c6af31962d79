"""Class weights from how many pixels each class has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

Weighting = Literal["none", "inverse", "median", "effective"]


def class_weights(pixels: Sequence[int], how: Weighting, image_pixels: Sequence[int] = ()) -> tuple[float, ...]:
    """One weight per class, 1 on the mean over the classes that occur; a class without pixels gets 1.

    Args:
        pixels: per class, of the training split.
        how: "inverse" frequency over all pixels; "median" frequency (Eigen and Fergus 2015), whose frequency of a class
            is among the pixels of the images that it occurs in; the inverse of the "effective" number of samples (Cui
            et al. 2019), with beta = 1 - 1 / all pixels.
        image_pixels: per class, the labelled pixels of the images that it occurs in; "median" needs them.

    Raises:
        ValueError: no class has a pixel, or "median" has no image_pixels.
    """
    if how == "none":
        return ()
    if not any(pixels):
        message = "no class has a pixel"
        raise ValueError(message)
    if how == "median":
        pairs = zip(pixels, image_pixels, strict=True)
        raw = [around / count if count else 0.0 for count, around in pairs]  # the median itself cancels out below
    elif how == "inverse":
        raw = [1 / count if count else 0.0 for count in pixels]
    else:
        total = sum(pixels)
        raw = [1 / _effective(count, total) if count else 0.0 for count in pixels]
    mean = sum(raw) / sum(weight > 0 for weight in raw)
    return tuple(weight / mean if weight else 1.0 for weight in raw)


def _effective(count: int, total: int) -> float:
    """The effective number of samples over `total`: 1 - beta ** count, exact for large counts too."""
    return -math.expm1(count * math.log1p(-1 / total)) if total > 1 else 1.0
