"""Semantic segmentation: every pixel gets a class."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np
import torch

from penstock import devices
from penstock.errors import RecipeError
from penstock.images import RGB, PixelFormat, drawing, shown
from penstock.images.color import Jitter
from penstock.kinds import KINDS
from penstock.models import Normalization, Windowed, as_floats, build_segmenter, segmenter_normalization
from penstock.models.segmentation import STRIDE, filled, nearest_size
from penstock.progress import counted
from penstock.settings import Augment, DeepLabConfig, Objective
from penstock.tasks.abilities import Ability
from penstock.tasks.base import Task
from penstock.tasks.exported import WholePredictor
from penstock.tasks.masks import PrepareSegmentation, SegmentationMetric, classes_in, without_padding
from penstock.tasks.normalizing import of_data
from penstock.tasks.objective import mixture, weights_of
from penstock.tasks.predictions import MaskPrediction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray
    from torch import nn

    from penstock.datasets.description import Description, Split
    from penstock.feed import Prepare
    from penstock.images.geometry import Size
    from penstock.images.volumes import Volume
    from penstock.losses import Mixture
    from penstock.models import Window
    from penstock.settings import TaskSettings
    from penstock.tasks.base import Tensors
    from penstock.tasks.exported import Graph
    from penstock.tasks.predictions import Style
    from penstock.values import Pixels, Record


MOST_PROBABILITIES = 1 << 26
"""Probabilities that an exported model gives for one image at most: a quarter of a gigabyte."""

_COLORS = 3
MASK_ABILITIES: Final = frozenset(
    {
        Ability.TTA, Ability.SCALE_TTA, Ability.SLIDING_WINDOW, Ability.EXPORT, Ability.PREDICT_IMAGES,
        Ability.AUGMENTATION, Ability.ALTERNATING_FLIP, Ability.MODELS, Ability.PRETRAINED, Ability.DATA_NORMALIZATION,
        Ability.MOSAIC,
    }
)  # fmt: skip


@dataclass(frozen=True)
class Segmentation(Task):
    """Semantic segmentation.

    Attributes:
        name: the model, `ARCHITECTURE:BACKBONE`.
        classes: the classes' names; their index is their id.
        ignore: the label that does not count.
        augment: what training does to an image.
        canvas: the size of the largest image to evaluate, (height, width).
        weights: the backbone's: "pretrained", "none" or a file.
        objective: the losses.
        class_weights: of cross-entropy, one per class or none.
        parts: of a `deeplab`.
        decoder: options of the decoder of a network of segmentation_models.pytorch.
        segments: whether boundary IoU and panoptic quality are scored too.
        pixel_format: channels and bits of the images.
        statistics: of the data, by which images are normalised; None takes the backbone's.
        step: finished steps, where the objective depends on them; None stands for the end of training.
        colors: of the classes, (red, green, blue); empty takes distinct ones.
    """

    name: str
    classes: tuple[str, ...]
    ignore: int = 255
    augment: Augment = field(default_factory=Augment)
    canvas: Size = (512, 512)
    weights: str = "none"
    objective: Objective = field(default_factory=Objective)
    class_weights: tuple[float, ...] = ()
    step: int | None = None
    parts: DeepLabConfig = DeepLabConfig()  # noqa: RUF009 - frozen
    segments: bool = False
    pixel_format: PixelFormat = RGB
    statistics: Normalization | None = None
    decoder: Mapping[str, Any] = field(default_factory=dict)
    colors: tuple[tuple[int, int, int], ...] = ()

    kind = KINDS["segmentation"]
    samples: ClassVar[type[PrepareSegmentation]] = PrepareSegmentation
    """What makes samples of records."""
    small_model = "unet:resnet18"
    best_metric = "mean_iou"
    supports = MASK_ABILITIES | {
        Ability.SEGMENT_SCORES, Ability.PREDICT_VOLUMES, Ability.ORIGINAL_IDS, Ability.PALETTE, Ability.COLOR_MASKS,
        Ability.LOSSES,
    }  # fmt: skip

    @classmethod
    def of(cls, settings: TaskSettings, described: Description, split: Split, *, grows: bool = False) -> Self:
        """The task for a dataset."""
        del grows
        _check_colors(settings.augment, described.channels)
        weights = weights_of(settings.loss, described.classes, split.per_class, split.image_pixels)
        return cls(
            settings.model.name,
            described.classes,
            described.ignore_label,
            settings.augment,
            weights=settings.model.weights,
            objective=settings.loss,
            class_weights=weights,
            parts=settings.model.deeplab,
            pixel_format=described.pixel_format,
            statistics=of_data(settings, described),
            decoder=settings.model.decoder,
            colors=described.colors,
        )

    @cached_property
    def normalization(self) -> Normalization:
        """What the backbone expects of its input."""
        return self.statistics or segmenter_normalization(self.name).over(self.pixel_format.channels)

    def usual_values(self) -> tuple[int, int] | None:
        """Those of the data, where it is normalised by its own."""
        return self.statistics.usual_values(self.pixel_format.highest) if self.statistics else None

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

    def inputs(self, tensors: Tensors) -> torch.Tensor:
        """Float32 (n, channels, h, w), channels last in memory, from uint8 or uint16 (n, h, w, channels)."""
        return self.normalization.apply(as_floats(tensors["image"]))

    def mask_padding(self, tensors: Tensors, weight: torch.Tensor) -> Tensors:
        """All pixels of padding samples get the ignored label."""
        real = weight.to(tensors["mask"].device).view(-1, 1, 1) > 0
        return {**tensors, "mask": torch.where(real, tensors["mask"], self.ignore)}

    def after(self, step: int) -> Self:
        """The task as it is after some steps: hard pixel mining may begin slowly."""
        return replace(self, step=step) if self.objective.ohem_warmup_steps else self

    @cached_property
    def losses(self) -> Mixture:
        """The losses as they are now."""
        return mixture(self.objective, self.class_weights, self.step)

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

    def metric(self) -> SegmentationMetric:
        """A fresh confusion matrix."""
        return SegmentationMetric(self.classes, self.ignore, segments=self.segments)

    def check_crop(self, crop: Size, model: nn.Module) -> None:
        """Decoders put feature maps of different strides together, so sides must divide by the largest."""
        backbone = getattr(model, "encoder", None)
        if backbone is None:
            return  # a network of somebody's own, which is tried instead
        stride = int(getattr(backbone, "output_stride", STRIDE))
        if any(side % stride for side in crop):
            better = nearest_size(crop, stride)
            raise RecipeError(
                "augment.crop",
                expected=f"multiples of {stride}, the largest stride of {self.name}",
                found=f"{crop[0]} x {crop[1]}",
                remedy=f"Use --crop {better[0]} {better[1]}",
            )

    def trial_sizes(self, crop: Size, window: int, *, evaluated: bool) -> list[Size]:
        """The crop, and the window or something larger where a split is evaluated: some networks take one size only."""
        if not evaluated:
            return [crop]
        larger = (filled(window), filled(window)) if window else (crop[0] + STRIDE, crop[1] + STRIDE)
        return [crop, larger]

    def for_images(self, height: int, width: int, slices: int = 0) -> Self:
        """The task with a canvas that images of up to a size fit."""
        del slices
        canvas = filled(height), filled(width)
        return replace(
            self, canvas=canvas, parts=replace(self.parts, upsample=True)
        )  # predictions are of the labels' size

    def classes_of(self, record: Record) -> set[int]:
        """The classes in a record's mask."""
        return classes_in(record) - {self.ignore}

    @property
    def legend(self) -> tuple[str, ...]:
        """Masks are drawn in colours."""
        return self.classes

    def draw(
        self,
        arrays: Mapping[str, NDArray[Any]],
        outputs: torch.Tensor | None = None,
        record: Record | None = None,
    ) -> Pixels:
        """Image, labels over it and, where there are logits (classes, h, w), the prediction over it, side by side."""
        arrays, outputs = without_padding(arrays, outputs, record)
        colors = drawing.palette(self.ignore, self.colors)
        masks = [arrays["mask"]]
        if outputs is not None:
            masks.append(outputs.argmax(dim=0).to(torch.uint8).cpu().numpy())
        image, background = shown(arrays["image"]), drawing.background_of(self.classes)
        overlays = [drawing.overlay(image, mask, colors, background=background) for mask in masks]
        return np.hstack([image, *overlays])

    def wrong_outputs(self, outputs: Any, size: Size) -> tuple[str, str] | None:
        """Logits must be a tensor with a channel for every class."""
        expected = (1, len(self.classes), *size)
        if isinstance(outputs, torch.Tensor) and tuple(outputs.shape) == expected:
            return None
        found = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
        return f"logits of shape {expected} for an image of {size[0]} x {size[1]}", str(found)

    def predict(
        self,
        model: nn.Module,
        pixels: Pixels,
        *,
        device: torch.device,
        precision: str = "float32",
        window: Window | None = None,
    ) -> MaskPrediction:
        """The mask of one image at its own size; arguments as for `Task.predict`."""
        probabilities = self.probabilities(model, pixels, device, precision, window)
        mask: Pixels = probabilities.argmax(axis=0).astype(np.uint8)
        return MaskPrediction(shown(pixels), mask, self.classes, self.ignore, self.colors)

    @torch.inference_mode()
    def probabilities(
        self, model: nn.Module, pixels: Pixels, device: torch.device, precision: str, window: Window | None
    ) -> NDArray[np.float32]:
        """Of every class at every pixel: float32 (classes, height, width)."""
        height, width = pixels.shape[:2]
        if window:  # which is moved to the device, not the whole image
            image, model = torch.from_numpy(pixels), Windowed(model, window, device)
        else:
            padded = np.empty((filled(height), filled(width), pixels.shape[2]), pixels.dtype)
            padded[...] = self.fill
            padded[:height, :width] = pixels
            image = torch.from_numpy(padded).to(device)
        with devices.autocast(device, precision):
            logits = model(self.inputs({"image": image.unsqueeze(0)}))
        probabilities = logits.exp_() if window else logits.float().softmax(dim=1)
        found: NDArray[np.float32] = probabilities[0, :, :height, :width].cpu().numpy()
        return found

    def predict_volume(
        self,
        model: nn.Module,
        volume: Volume,
        *,
        device: torch.device,
        precision: str = "float32",
        window: Window | None = None,
    ) -> Pixels:
        """The labels of a volume, slice by slice; arguments as for `Task.predict_volume`."""
        images = volume.images(self.pixel_format.channels)
        masks = [self.predict(model, i, device=device, precision=precision, window=window).mask for i in images]
        return volume.labels(np.stack(masks))

    def with_segments(self) -> Self:
        """The task with boundary IoU and panoptic quality among its scores."""
        return replace(self, segments=True)

    def prediction_suffixes(self, style: Style) -> tuple[str, ...]:
        """The mask, the mask over the image and, where it is asked for, the mask in colour."""
        return ("", "-overlay", "-color") if style.color else ("", "-overlay")

    def written_ids(self, style: Style) -> list[list[str]]:
        """Of every class: the id in masks, its name, and its colour."""
        colors = drawing.palette_of(style.palette, self.ignore, self.colors)
        ids = style.written(np.arange(len(self.classes), dtype=np.uint8)).tolist()
        rows = zip(ids, self.classes, colors.tolist(), strict=False)
        return [[str(i), name, *map(str, color)] for i, name, color in rows]

    def explain(self, table: str, rows: int, drawn: int, style: Style) -> str:
        """What the files are."""
        del table, rows, drawn, style
        shown = "NAME-overlay.png shows them in the colours of legend.png"
        return f"NAME.png holds class ids, which look nearly black; {shown}"

    def export_size(self, splits: Iterable[Split]) -> Size | None:
        """What holds every image of the dataset, where its size is known and the predictions are not too large."""
        sizes = [(split.height, split.width) for split in splits]
        height, width = max(size[0] for size in sizes), max(size[1] for size in sizes)
        if not height:
            return None
        canvas = self.for_images(height, width).canvas
        return canvas if canvas[0] * canvas[1] * len(self.classes) <= MOST_PROBABILITIES else None

    def check_export_size(self, size: Size) -> None:
        """Sides must divide by 32."""
        if any(side % STRIDE for side in size):
            better = nearest_size(size)
            raise RecipeError(
                "--size",
                expected=f"multiples of {STRIDE}",
                found=f"{size[0]} x {size[1]}",
                remedy=f"Use --size {better[0]} {better[1]}, and pad images to it",
            )

    def export_input(self, size: Size) -> str:
        """Whole images, padded."""
        return (
            f"images that are not resized, but padded on the right and below to {size[0]} x {size[1]} with {self._fill}"
        )

    def export_any_input(self) -> str:
        """Whole images, padded."""
        return (
            f"images that are not resized, but padded on the right and below to multiples of {STRIDE} with {self._fill}"
        )

    @property
    def _fill(self) -> str:
        return ", ".join(f"{value:g}" for value in self.fill)

    def graph(self, model: nn.Module, size: Size) -> Graph:
        """Images to masks; their sides may be any multiples of 32, where that is asked for."""
        return replace(super().graph(model, size), multiple=STRIDE)

    def whole_graph(self, model: nn.Module, size: Size) -> Graph:
        """One image of any size to its mask; padding is inside."""
        module = WholePredictor(self, model, STRIDE, self.fill).eval()
        plain = super().graph(model, size)
        return replace(plain, module=module, any_size=True, axes=module.axes)


def _check_colors(augment: Augment, channels: int) -> None:
    if channels != _COLORS and augment.jitter != Jitter():
        raise RecipeError(
            "augment.jitter",
            expected=f"nothing: images of {counted(channels, 'channel')} have no colours",
            found=f"{augment.jitter}",
            remedy="Leave it out",
        )
