"""A classifier that takes whole images of any size: what `predict` does to an image before the network, as tensors.

The middle of the image is resized as OpenCV does it: bilinearly or, where both sides shrink to a half or less, by the
mean of the area. Both are separable, so each is one matrix for the rows and one for the columns.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.onnx.operators import shape_as_tensor

from penstock.images.geometry import Size
from penstock.tasks.base import Task
from penstock.tasks.exported import ImagesToClasses

_HALVES = 2.0


class ImageToClass(nn.Module):
    """One whole image to its class.

    From uint8 or int32 (height, width, channels) of any size: `classes`, int32 (), and `probabilities`, float32
    (classes,).
    """

    outputs = ImagesToClasses.outputs

    def __init__(self, task: Task, model: nn.Module, size: Size, fraction: float) -> None:
        super().__init__()
        self.task, self.model, self.size, self.fraction = task, model, size, fraction

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Class and probabilities."""
        seen = middle(image, self.size, self.fraction)
        probabilities = self.model(self.task.inputs({"image": seen.unsqueeze(0)})).float().softmax(dim=1)[0]
        return probabilities.argmax(dim=0).to(torch.int32), probabilities


def middle(image: torch.Tensor, size: Size, fraction: float) -> torch.Tensor:
    """The middle of an image in the proportions of a size, and resized to it, as `geometry.middle` and `warp_image` do.

    Args:
        image: integers (height, width, channels).
        size: (height, width) of what is given.
        fraction: of the largest such window.
    """
    source = shape_as_tensor(image)[:2].double()
    wanted = torch.tensor(size, dtype=torch.float64)
    scale = fraction * (source / wanted).min()
    length = torch.minimum((scale * wanted).round(), source).clamp(min=1)
    first = ((source - length) / 2).floor()
    shrinks = (length >= _HALVES * wanted).all()
    rows = _weights(image[:, 0, 0], first[0], length[0], size[0], shrinks)
    columns = _weights(image[0, :, 0], first[1], length[1], size[1], shrinks)
    floats = image.permute(2, 0, 1).float()
    resized = rows @ floats @ columns.T
    return resized.round().permute(1, 2, 0).to(image.dtype)


def _weights(
    line: torch.Tensor, first: torch.Tensor, length: torch.Tensor, count: int, shrinks: torch.Tensor
) -> torch.Tensor:
    """What each of `count` pixels takes from the pixels of a line, of which `length` from `first` on count: float32."""
    pixel = torch.ones_like(line, dtype=torch.float64).cumsum(0) - 1
    step = length / count
    start = (first + step * torch.arange(count, dtype=torch.float64)).unsqueeze(1)
    centre = (start + step / 2 - 0.5).clamp(min=first, max=first + length - 1)
    bilinear = (1 - (pixel - centre).abs()).clamp(min=0)
    inside = torch.minimum(pixel + 1, start + step) - torch.maximum(pixel, start)
    return torch.where(shrinks, inside.clamp(min=0) / step, bilinear).float()
