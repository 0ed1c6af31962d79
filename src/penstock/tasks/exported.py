"""What of a model is exported for other programs: from images as they are decoded to predictions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn

from penstock.models import as_floats, with_resizing
from penstock.models.detection import MASK_THRESHOLD

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.models import Detector, Normalization
    from penstock.tasks.base import Task


@dataclass(frozen=True)
class Graph:
    """What is exported.

    Attributes:
        module: takes images as they are decoded, and gives a tuple of tensors.
        outputs: their names.
        shape: of the images to export it with, without a batch axis; channels are last.
        multiple: divisor of height and width in a dynamic export; 0 if both are fixed.
        any_size: whether it takes one image of any size.
        axes: of such a graph: the names of the axes of each output whose length follows from the image; "" for others.
        bits: per channel of the images, 8 or 16.
        values: the lowest and the highest value of images to try it with; None for all that the bits allow.
    """

    module: nn.Module
    outputs: tuple[str, ...]
    shape: tuple[int, ...]
    multiple: int = 0
    any_size: bool = False
    bits: int = 8
    values: tuple[int, int] | None = None
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def dtype(self) -> str:
        """Of the images: the exporter that traces graphs of any size knows no integers of 16 bits without a sign."""
        if self.bits == 8:  # noqa: PLR2004 - a byte
            return "uint8"
        return "int32" if self.any_size else "uint16"


def class_graph(
    task: Task, model: nn.Module, shape: tuple[int, ...], values: tuple[int, int] | None = None, multiple: int = 0
) -> Graph:
    """The graph of images of one size, to classes and probabilities; arguments as the attributes of `Graph`."""
    module = ImagesToClasses(task, model).eval()
    return Graph(module, module.outputs, shape, multiple, bits=task.pixel_format.bits, values=values)


class ImagesToClasses(nn.Module):
    """Images to predictions.

    From uint8 or uint16 (n, height, width, channels): of masks `classes`, int32 (n, height, width), and
    `probabilities`, float32 (n, classes, height, width); of classes `classes`, int32 (n,), and `probabilities`, float32
    (n, classes). Patches of volumes have an axis of slices before their height.
    """

    outputs = ("classes", "probabilities")

    def __init__(self, task: Task, model: nn.Module) -> None:
        super().__init__()
        self.task, self.model = task, model

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Classes and probabilities."""
        probabilities = self.model(self.task.inputs({"image": image})).float().softmax(dim=1)
        return probabilities.argmax(dim=1).to(torch.int32), probabilities


class ImageToMask(nn.Module):
    """One whole image to its mask.

    From uint8 or int32 (height, width, channels) of any size: `classes`, int32 (height, width), and `probabilities`,
    float32 (classes, height, width). Padding is inside: on the right and below, to multiples of a stride.
    """

    outputs = ImagesToClasses.outputs
    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "classes": ("height", "width"), "probabilities": ("", "height", "width")
    }  # fmt: skip

    def __init__(self, task: Task, model: nn.Module, stride: int, fill: tuple[int, ...]) -> None:
        super().__init__()
        self.task, self.model, self.stride = task, model, stride
        pixel = torch.tensor(fill, dtype=torch.int32).view(1, 1, 1, -1)
        if task.pixel_format.bits == 8:  # noqa: PLR2004 - a byte
            pixel = pixel.to(torch.uint8)
        self.register_buffer("outside", task.inputs({"image": pixel}), persistent=False)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Classes and probabilities."""
        inputs = self.task.inputs({"image": image.unsqueeze(0)})
        height, width = inputs.shape[2], inputs.shape[3]
        below, right = (self.stride - side % self.stride for side in (height, width))
        outside: torch.Tensor = self.outside  # type: ignore[assignment] # a buffer
        padded = nn.functional.pad(inputs - outside, (0, right % self.stride, 0, below % self.stride)) + outside
        probabilities = self.model(padded).float().softmax(dim=1)[0, :, :height, :width]
        return probabilities.argmax(dim=0).to(torch.int32), probabilities


class ImageToObjects(nn.Module):
    """One image to the objects in it.

    From uint8 or uint16 (height, width, 3) RGB of any size: `boxes`, float32 (n, 4) as x1, y1, x2, y2 in pixels of the
    image; `scores`, float32 (n,), the highest first; `labels`, int64 (n,), class ids; and of Mask R-CNN `masks`, bool
    (n, height, width). Images are resized inside, where the model was trained so.
    """

    def __init__(
        self, detector: Detector, normalization: Normalization, resize_range: tuple[int, int] | None, *, masks: bool
    ) -> None:
        super().__init__()
        self.network, self.first = with_resizing(detector, resize_range), detector.first
        self.normalization, self.masks = normalization, masks

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what it gives."""
        return tuple(self.axes)

    @property
    def axes(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the axes of what it gives whose length follows from the image."""
        rows = {"boxes": ("objects", ""), "scores": ("objects",), "labels": ("objects",)}
        return {**rows, "masks": ("objects", "height", "width")} if self.masks else rows

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Boxes, scores, labels, and perhaps masks."""
        (found,) = self.network([self.normalization.apply(as_floats(image.unsqueeze(0)))[0]])
        objects = found["boxes"], found["scores"], found["labels"] - self.first
        return (*objects, found["masks"][:, 0] > MASK_THRESHOLD) if self.masks else objects
