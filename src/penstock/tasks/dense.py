"""What tasks share that predict a value for every pixel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from penstock.datasets.description import SplitInfo
from penstock.errors import RecipeError
from penstock.feed import Prepare
from penstock.images import RGB, PixelFormat
from penstock.images.geometry import Size
from penstock.losses import Mixture
from penstock.models import Normalization, Windowed, as_floats, build_segmenter, segmenter_normalization
from penstock.models.segmentation import STRIDE, filled, nearest_size
from penstock.settings import Augment, DeepLabConfig
from penstock.tasks.abilities import Ability
from penstock.tasks.base import Task
from penstock.tasks.exported import Graph, ImageToMask, class_graph
from penstock.tasks.masks import PrepareSegmentation
from penstock.tasks.normalizing import usual_values
from penstock.tasks.roles import Exporter, Predictor, ReadyModel, Tensors
from penstock.values import Pixels

MAX_PROBABILITIES: Final = 1 << 26
"""Probabilities that an exported model gives for one image at most: a quarter of a gigabyte."""


@dataclass(frozen=True)
class DenseTask(Task):
    """A class, or a fraction of one, for every pixel of an image.

    Attributes:
        name: the model, `ARCHITECTURE:BACKBONE`.
        classes: the classes' names; their index is their id.
        ignore: the label that does not count.
        augment: what training does to an image.
        canvas: the size of the largest image to evaluate, (height, width).
        weights: the backbone's: "pretrained", "none" or a file.
        parts: of a `deeplab`.
        pixel_format: channels and bits of the images.
        statistics: of the data, by which images are normalised; None takes the backbone's.
        decoder: options of the decoder of a network of segmentation_models.pytorch.
    """

    name: str
    classes: tuple[str, ...]
    ignore: int = 255
    augment: Augment = field(default_factory=Augment)
    canvas: Size = (512, 512)
    weights: str = "none"
    parts: DeepLabConfig = DeepLabConfig()  # noqa: RUF009 - frozen
    pixel_format: PixelFormat = RGB
    statistics: Normalization | None = None
    decoder: Mapping[str, Any] = field(default_factory=dict)

    small_model = "unet:resnet18"
    evaluates_whole = True
    samples: ClassVar[type[PrepareSegmentation]] = PrepareSegmentation
    """Makes samples of records."""
    supports = frozenset(
        {
            Ability.TTA, Ability.SCALE_TTA, Ability.SLIDING_WINDOW, Ability.AUGMENTATION,
            Ability.MODELS, Ability.PRETRAINED, Ability.DATA_NORMALIZATION, Ability.MOSAIC,
        }
    )  # fmt: skip

    @property
    @abstractmethod
    def losses(self) -> Mixture:
        """The losses as they are now."""

    @cached_property
    def normalization(self) -> Normalization:
        """What the backbone expects of its input."""
        return self.statistics or segmenter_normalization(self.name).over(self.pixel_format.channels)

    @property
    def fill(self) -> tuple[int, ...]:
        """The pixel that lies outside images."""
        return self.normalization.mean_pixel(self.pixel_format.highest)

    def prepare(self, *, train: bool) -> Prepare:
        """A random view for training, the whole image for evaluation."""
        augment = self.augment if train else None
        canvas = (0, 0) if train else self.canvas
        return self.samples(len(self.classes), self.ignore, self.fill, augment, canvas, self.pixel_format)

    def model(self) -> nn.Module:
        """A new model."""
        return build_segmenter(
            self.name, len(self.classes), self.weights, self.parts, self.pixel_format.channels, self.decoder
        )

    def logits_shape(self, size: Size) -> tuple[int, ...]:
        """A channel for every class."""
        return 1, len(self.classes), *size

    def inputs(self, tensors: Tensors) -> torch.Tensor:
        """Float32 (n, channels, h, w), channels last in memory, from uint8 or uint16 (n, h, w, channels)."""
        return self.normalization.apply(as_floats(tensors["image"]))

    def mask_padding(self, tensors: Tensors, weight: torch.Tensor) -> Tensors:
        """All pixels of padding samples get the ignored label."""
        real = weight.to(tensors["mask"].device).view(-1, 1, 1) > 0
        return {**tensors, "mask": torch.where(real, tensors["mask"], self.ignore)}

    def count(self, tensors: Tensors) -> torch.Tensor:
        """What each loss is divided by: pixels or images with a label."""
        return self.losses.count(self._target(tensors, small=not self.parts.upsample), self.ignore)

    def loss(self, outputs: Any, tensors: Tensors) -> torch.Tensor:
        """The sum of each loss; of a list of weighted logits, that of all of them."""
        if isinstance(outputs, torch.Tensor):
            return self.losses.sum(outputs, self._target(tensors, small=False), self.ignore)
        target = self._target(tensors, small=not self.parts.upsample)
        total: torch.Tensor = sum(weight * self.losses.sum(each, target, self.ignore) for weight, each in outputs)
        return total

    def _target(self, tensors: Tensors, *, small: bool) -> torch.Tensor:
        """The labels, or those in the middle of what each of a `deeplab`'s small logits stands for."""
        mask, stride = tensors["mask"], self.parts.stride
        return mask[:, stride // 2 :: stride, stride // 2 :: stride] if small else mask

    def for_images(self, height: int, width: int, slices: int = 0) -> Self:
        """The task with a canvas that images of up to a size fit."""
        canvas = filled(height), filled(width)
        return replace(
            self, canvas=canvas, parts=replace(self.parts, upsample=True)
        )  # predictions are of the labels' size

    @property
    def exporter(self) -> DenseExporter:
        """Makes graphs from images to classes and probabilities."""
        return DenseExporter(self)


@dataclass(frozen=True)
class DensePredictor(Predictor):
    """Predicts a value for every pixel of an image."""

    task: DenseTask

    @torch.inference_mode()
    def probabilities(self, ready: ReadyModel, pixels: Pixels) -> NDArray[np.float32]:
        """Of every class at every pixel: float32 (classes, height, width)."""
        model, (height, width) = ready.model, pixels.shape[:2]
        if ready.window:  # which is moved to the device, not the whole image
            image, model = torch.from_numpy(pixels), Windowed(model, ready.window, ready.device)
        else:
            padded = np.empty((filled(height), filled(width), pixels.shape[2]), pixels.dtype)
            padded[...] = self.task.fill
            padded[:height, :width] = pixels
            image = torch.from_numpy(padded).to(ready.device)
        with ready.autocast():
            logits = model(self.task.inputs({"image": image.unsqueeze(0)}))
        probabilities = logits.exp_() if ready.window else logits.float().softmax(dim=1)
        found: NDArray[np.float32] = probabilities[0, :, :height, :width].cpu().numpy()
        return found


@dataclass(frozen=True)
class DenseExporter(Exporter):
    """Graphs from images to classes and probabilities."""

    task: DenseTask

    def size(self, splits: Iterable[SplitInfo]) -> Size | None:
        """What holds every image of the dataset, where its size is known and the predictions are not too large."""
        sizes = [(split.height, split.width) for split in splits]
        height, width = max(size[0] for size in sizes), max(size[1] for size in sizes)
        if not height:
            return None
        canvas = filled(height), filled(width)
        return canvas if canvas[0] * canvas[1] * len(self.task.classes) <= MAX_PROBABILITIES else None

    def check_size(self, size: Size) -> None:
        """Sides must divide by 32."""
        if any(side % STRIDE for side in size):
            better = nearest_size(size)
            raise RecipeError(
                "--size",
                expected=f"multiples of {STRIDE}",
                found=f"{size[0]} x {size[1]}",
                remedy=f"Use --size {better[0]} {better[1]}, and pad images to it",
            )

    def input_note(self, size: Size | None) -> str:
        """Whole images, padded."""
        sides = f"{size[0]} x {size[1]}" if size else f"multiples of {STRIDE}"
        fill = ", ".join(f"{value:g}" for value in self.task.fill)
        return f"images that are not resized, but padded on the right and below to {sides} with {fill}"

    def graph(self, model: nn.Module, size: Size) -> Graph:
        """Images to masks; their sides may be any multiples of 32, where that is asked for."""
        shape = (*size, self.task.pixel_format.channels)
        return class_graph(self.task, model, shape, usual_values(self.task.statistics, self.task.pixel_format), STRIDE)

    def whole_graph(self, model: nn.Module, size: Size) -> Graph:
        """One image of any size to its mask; padding is inside."""
        module = ImageToMask(self.task, model, STRIDE, self.task.fill).eval()
        return replace(self.graph(model, size), module=module, multiple=0, any_size=True, axes=module.axes)
