"""Class weights from how many pixels each class has."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    Weighting = Literal["none", "inverse", "median", "effective"]


def class_weights(pixels: Sequence[int], how: Weighting) -> tuple[float, ...]:
    """One weight per class, 1 on the mean over the classes that occur; a class without pixels gets 1.

    Args:
        pixels: per class, of the training split.
        how: "inverse" frequency; the "median" frequency divided by the class's own (Eigen and Fergus 2015), over all
            pixels; the inverse of the "effective" number of samples (Cui et al. 2019), with beta = 1 - 1 / all pixels.

    Raises:
        ValueError: no class has a pixel.
    """
    if how == "none":
        return ()
    total, present = sum(pixels), sorted(count for count in pixels if count)
    if not present:
        message = "no class has a pixel"
        raise ValueError(message)
    middle = (present[(len(present) - 1) // 2] + present[len(present) // 2]) / 2
    raw = [_weight(count, total, middle, how) if count else 0.0 for count in pixels]
    mean = sum(raw) / len(present)
    return tuple(weight / mean if weight else 1.0 for weight in raw)


def _weight(count: int, total: int, middle: float, how: Weighting) -> float:
    if how == "inverse":
        return total / count
    if how == "median":
        return middle / count
    # (1 - beta) / (1 - beta ** count) with beta = 1 - 1 / total, whose powers lose their digits where total is large
    return 1 / total / -math.expm1(count * math.log1p(-1 / total)) if total > 1 else 1.0
