"""What classifiers are kept from learning by heart with: mixed images, erased parts, changed tones.

Everything random is drawn with the sample, by its position, and applied to the batch on the device. Images are mixed
in pairs of neighbours of the global batch, 0 and 1, 2 and 3, ...: ranks and micro-batches take whole pairs, so that
their number changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import numpy as np
import torch
from msgspec import Meta

from penstock.bounds import Fraction, ascending

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    """A number of Beta(alpha, alpha)."""
    return float(generator.numpy().beta(alpha, alpha))


def _rectangle(generator: Generator, height: float, width: float, *, inside: bool) -> tuple[float, float, float, float]:
    """Top, bottom, left and right of a rectangle that lies inside the image, or has its middle in it."""
    edges = []
    for side in (height, width):
        start = generator.uniform(0, 1 - side) if inside else generator.uniform() - side / 2
        edges += [max(0.0, start), min(1.0, start + side)]
    return edges[0], edges[1], edges[2], edges[3]


def toned(pixels: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
    """Pixels from 0 to 255, float32 (n, 3, h, w), with their brightness and contrast changed, as TensorFlow does: not
    clipped.
    """
    brightness, contrast = (draws[:, i].view(-1, 1, 1, 1) for i in (9, 10))
    means = pixels.mean(dim=(2, 3), keepdim=True)
    return (pixels - means) * contrast + means + brightness


def mixed(images: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
    """Normalised images, float32 (n, 3, h, w), mixed with their partners, and with a rectangle erased to 0, which is
    the mean.
    """
    own = draws[:, 0].view(-1, 1, 1, 1)
    others = images[partners(len(images), images.device)]
    images = torch.where(_inside(images, draws[:, 1:5]), others, own * images + (1 - own) * others)
    return torch.where(_inside(images, draws[:, 5:9]), 0.0, images)


def mixed_targets(targets: torch.Tensor, draws: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """Probabilities of classes, float32 (n, classes), mixed as the images are, by the pixels that each gives."""
    cut = _cut(draws[:, 1:5], size)
    area = (cut[:, 1] - cut[:, 0]) * (cut[:, 3] - cut[:, 2]) / (size[0] * size[1])
    own = (draws[:, 0] * (1 - area)).unsqueeze(1)
    return own * targets + (1 - own) * targets[partners(len(targets), targets.device)]


def partners(count: int, device: torch.device) -> torch.Tensor:
    """The index of the image that each of a batch is mixed with: its neighbour; one that has none is its own."""
    index = torch.arange(count, device=device) ^ 1
    return torch.where(index < count, index, index - 1)


def whole_pairs(real: torch.Tensor) -> torch.Tensor:
    """Which images of a batch, bool (n,), are there and have a neighbour to be mixed with that is there too."""
    others = partners(len(real), real.device)
    return real & real[others] & (others != torch.arange(len(real), device=real.device))


def unmixed(draws: torch.Tensor, alone: torch.Tensor) -> torch.Tensor:
    """Draws of which some, bool (n,), mix nothing; what else they say stays."""
    own = torch.zeros_like(draws[:, :5])
    own[:, 0] = 1
    return torch.where(alone.unsqueeze(1), torch.cat([own, draws[:, 5:]], dim=1), draws)


def _cut(edges: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """Edges in whole pixels."""
    pixels: torch.Tensor = edges * torch.tensor((size[0], size[0], size[1], size[1]), device=edges.device)
    return pixels.round()


def _inside(images: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    """Which pixels lie in each sample's rectangle: bool (n, 1, h, w)."""
    height, width = images.shape[2:]
    top, bottom, left, right = (edge.view(-1, 1, 1) for edge in _cut(edges, (height, width)).T)
    rows = torch.arange(height, device=images.device).view(1, -1, 1)
    columns = torch.arange(width, device=images.device).view(1, 1, -1)
    inside: torch.Tensor = ((rows >= top) & (rows < bottom) & (columns >= left) & (columns < right)).unsqueeze(1)
    return inside
