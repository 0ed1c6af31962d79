"""Test-time augmentation: the mean prediction for an image at several sizes, moved and mirrored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

from penstock.models.segmentation import STRIDE

_CLASSES: Final = 2  # axes of a classifier's output, which has no place in the image
_TINY: Final = 1e-12


@dataclass(frozen=True, slots=True)
class TestTimeAugmentation:
    """How an image is augmented for prediction.

    Attributes:
        scales: factors of the image's size; the image is predicted at each.
        flip: whether each of these images is predicted in the mirror too.
        shift: pixels by which a classifier's images are moved up and left, and down and right, too (Jordan 2024,
            arXiv:2404.00498). The two moved images together weigh as much as the one in place.
    """

    __test__: ClassVar[bool] = False  # pytest takes classes of such names for tests

    scales: tuple[float, ...] = (1.0,)
    flip: bool = False
    shift: int = 0

    @property
    def single(self) -> bool:
        """Whether there is nothing to average."""
        return self == TestTimeAugmentation()

    @property
    def name(self) -> str:
        """For a file's name: `x0.75,1,1.25-flip` or `x1-flip-shift1`; nothing without augmentation."""
        if self.single:
            return ""
        shift = f"-shift{self.shift}" if self.shift else ""
        return f"x{','.join(f'{scale:g}' for scale in self.scales)}{'-flip' * self.flip}{shift}"


class TTAModel(nn.Module):
    """Maps float (n, 3, h, w) to the logarithm of the mean of all probabilities, float32 (n, classes, h, w).

    Probabilities are averaged, as DeepLab does, but not put through a softmax a second time; being logarithms, the
    result can take the place of logits.
    """

    def __init__(self, model: nn.Module, tta: TestTimeAugmentation) -> None:
        super().__init__()
        self.model = model
        self.tta = tta

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Predict every augmented image, and average."""
        scaled = (_scaled(images, scale) for scale in self.tta.scales)
        augmented = (each for one in scaled for each in _moved(one, self.tta.shift))
        total: torch.Tensor | float = 0.0
        for weight, each in augmented:
            for probabilities in self._probabilities(each):
                total = total + weight * _resized(probabilities, (images.shape[2], images.shape[3]))
        assert isinstance(total, torch.Tensor)  # noqa: S101 - there is a scale
        weights = len(self.tta.scales) * (2 if self.tta.flip else 1)
        return (total / weights).clamp(min=_TINY).log()

    def _probabilities(self, images: torch.Tensor) -> Iterator[torch.Tensor]:
        """Probabilities, straight and in the mirror."""
        yield self.model(images).float().softmax(dim=1)
        if self.tta.flip:
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
