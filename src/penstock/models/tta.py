"""One answer from several looks at an image: at other sizes, moved, and mirrored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

from penstock.models.segmentation import STRIDE

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLASSES: Final = 2  # axes of a classifier's answer, which has no place in the image
_TINY: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Views:
    """How an image is looked at.

    Attributes:
        scales: each gives a look, at this many times the image's size.
        flip: whether each look is taken in the mirror too.
        shift: pixels by which a classifier's looks are moved up and left, and down and right, too (Jordan 2024,
            arXiv:2404.00498); the two together weigh as much as the look in place.
    """

    scales: tuple[float, ...] = (1.0,)
    flip: bool = False
    shift: int = 0

    @property
    def single(self) -> bool:
        """Whether there is nothing to average."""
        return self == Views()

    @property
    def name(self) -> str:
        """For a file's name: `x0.75,1,1.25-flip` or `x1-flip-shift1`; nothing for a single look."""
        if self.single:
            return ""
        shift = f"-shift{self.shift}" if self.shift else ""
        return f"x{','.join(f'{scale:g}' for scale in self.scales)}{'-flip' * self.flip}{shift}"


class Averaged(nn.Module):
    """Maps float (n, 3, h, w) to the logarithm of the mean of all looks' probabilities, float32 (n, classes, h, w).

    Probabilities are averaged, as DeepLab does, but not put through a softmax a second time; being logarithms, the
    result can take the place of logits.
    """

    def __init__(self, model: nn.Module, views: Views) -> None:
        super().__init__()
        self.model = model
        self.views = views

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Look and average."""
        looks = (look for scale in self.views.scales for look in _moved(_scaled(images, scale), self.views.shift))
        total: torch.Tensor | float = 0.0
        for weight, look in looks:
            for probabilities in self._looks(look):
                total = total + weight * _resized(probabilities, (images.shape[2], images.shape[3]))
        assert isinstance(total, torch.Tensor)  # noqa: S101 - there is a scale
        weights = len(self.views.scales) * (2 if self.views.flip else 1)
        return (total / weights).clamp(min=_TINY).log()

    def _looks(self, images: torch.Tensor) -> Iterator[torch.Tensor]:
        """Probabilities, straight and in the mirror."""
        yield self.model(images).float().softmax(dim=1)
        if self.views.flip:
            mirrored = self.model(images.flip(3)).float().softmax(dim=1)
            yield mirrored if mirrored.ndim == _CLASSES else mirrored.flip(3)


def _moved(images: torch.Tensor, shift: int) -> Iterator[tuple[float, torch.Tensor]]:
    """The images in place and moved, their edges mirrored, with the weight of each; the weights are 1 in all."""
    if not shift:
        yield 1.0, images
        return
    yield 0.5, images
    height, width = images.shape[2:]
    padded = F.pad(images, (shift,) * 4, "reflect")
    yield 0.25, padded[:, :, :height, :width]
    yield 0.25, padded[:, :, -height:, -width:]


def _scaled(images: torch.Tensor, scale: float) -> torch.Tensor:
    """The images at another size, whose sides are rounded to what every model accepts."""
    if scale == 1:
        return images
    height, width = (max(1, round(side * scale / STRIDE)) * STRIDE for side in images.shape[2:])
    return _resized(images, (height, width))


def _resized(values: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    if values.ndim == _CLASSES or tuple(values.shape[2:]) == size:
        return values
    return F.interpolate(values, size, mode="bilinear", align_corners=False, antialias=values.shape[2] > size[0])
