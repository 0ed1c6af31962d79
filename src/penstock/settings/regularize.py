"""Batch augmentation of classifiers (mixup, CutMix, erasing), and the random numbers of each sample."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from penstock.bounds import Fraction, ascending
from penstock.seeds import Generator

_ERASED: Final = (0.02, 1 / 3)  # bounds of the erased fraction of an image, and below of height by width (Zhong et al.)
_ASPECT: Final = (0.3, 1 / 0.3)
DRAWS: Final = 11
"""Numbers per sample: the fraction of the own image; a rectangle cut from the partner and one that is erased (top,
bottom, left, right, in fractions of the image); brightness and contrast."""


@dataclass(frozen=True)
class Regularize:
    """How training images of a classifier are changed beyond their view.

    Attributes:
        mixup: Parameter of the Beta distribution of mixup (Zhang et al. 2018); 0 does not mix.
        cutmix: Parameter of the Beta distribution of CutMix (Yun et al. 2019). 0 disables it. If `mixup` is
            above 0 too, each pair of images gets one of the two, with equal probability.
        random_erasing: Probability of erasing a rectangle (Zhong et al. 2020).
        brightness: Largest brightness added to all pixels, on the scale of 0 to 255, as in the CIFAR-10 tutorial of
            TensorFlow (63). For other models use `augment.jitter`.
        contrast: Bounds of the random contrast factor, by which differences from the mean of a channel are multiplied,
            as in the CIFAR-10 tutorial of TensorFlow (0.2, 1.8). For other models use `augment.jitter`.
    """

    mixup: Annotated[float, Meta(ge=0, le=100)] = 0.0
    cutmix: Annotated[float, Meta(ge=0, le=100)] = 0.0
    random_erasing: Fraction = 0.0
    brightness: Annotated[float, Meta(ge=0, le=255)] = 0.0
    contrast: Annotated[tuple[float, float], ascending(100)] = (1.0, 1.0)

    @property
    def mixes(self) -> bool:
        """Whether labels are mixed."""
        return bool(self.mixup or self.cutmix)

    @property
    def on(self) -> bool:
        """Whether anything is done."""
        return self != Regularize()

    def draw(self, generator: Generator) -> NDArray[np.float32]:
        """The `DRAWS` numbers of a sample."""
        own, cut = 1.0, (0.0, 0.0, 0.0, 0.0)
        if self.cutmix and (not self.mixup or generator.chance(0.5)):
            side = math.sqrt(1 - _beta(generator, self.cutmix))
            cut = _rectangle(generator, side, side, inside=False)
        elif self.mixup:
            own = _beta(generator, self.mixup)
        erased = (0.0, 0.0, 0.0, 0.0)
        if self.random_erasing and generator.chance(self.random_erasing):
            fraction, ratio = generator.uniform(*_ERASED), generator.uniform(*(math.log(bound) for bound in _ASPECT))
            height, width = (min(1.0, math.sqrt(fraction * math.exp(sign * ratio))) for sign in (1, -1))
            erased = _rectangle(generator, height, width, inside=True)
        tone = generator.uniform(-self.brightness, self.brightness), generator.uniform(*self.contrast)
        return np.array((own, *cut, *erased, *tone), np.float32)


def _beta(generator: Generator, alpha: float) -> float:
    return float(generator.numpy().beta(alpha, alpha))


def _rectangle(generator: Generator, height: float, width: float, *, inside: bool) -> tuple[float, float, float, float]:
    """Top, bottom, left and right of a rectangle that lies inside the image, or has its middle in it."""
    edges = []
    for side in (height, width):
        start = generator.uniform(0, 1 - side) if inside else generator.uniform() - side / 2
        edges += [max(0.0, start), min(1.0, start + side)]
    return edges[0], edges[1], edges[2], edges[3]
