"""Semantic segmentation: every pixel gets a class."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from penstock.errors import LabelError
from penstock.feed import Field
from penstock.images import codecs, drawing, fetch_image, geometry, probe
from penstock.images.warp import warp_mask
from penstock.kinds.labels import LabelSet, decode_ids
from penstock.metrics import Confusion, SegmentationScores, Segments
from penstock.models import DeepLab, Normalization, as_floats, build_segmenter, normalization, parse_name
from penstock.models.segmentation import filled
from penstock.records.schema import SegmentationRecord, decode_segmentation
from penstock.tasks.augment import Augment
from penstock.tasks.base import Task
from penstock.tasks.objective import Objective

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from torch import nn

    from penstock.feed import Prepare
    from penstock.images.geometry import Affine, Size, View
    from penstock.images.header import ImageInfo
    from penstock.losses import Mixture
    from penstock.seeds import Generator
    from penstock.tasks.base import Tensors, Together
    from penstock.values import Record

    Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class PrepareSegmentation:
    """A record to `image`, uint8 (height, width, channels), and `mask`, uint8 (height, width) of class ids.

    Attributes:
        classes: the number of classes; every other id but `ignore` is refused.
        ignore: the label that does not count; fills what lies outside the picture.
        fill: the pixel that fills it, as many numbers as there are channels.
        augment: training's random view; None shows the whole picture in the top left corner of `canvas`.
        canvas: the size of an evaluation sample, (height, width).
    """

    classes: int
    ignore: int
    fill: tuple[int, ...]
    augment: Augment | None = None
    canvas: Size = (0, 0)

    @property
    def size(self) -> Size:
        """(height, width) of every sample."""
        return self.augment.crop if self.augment else self.canvas

    @property
    def fields(self) -> dict[str, Field]:
        """The tensors of a sample; in evaluation also what (height, width) the picture fills of them."""
        pixels = {"image": Field((*self.size, len(self.fill)), "uint8"), "mask": Field(self.size, "uint8")}
        return pixels if self.augment else {**pixels, "size": Field((2,), "int64")}

    def __call__(self, record: Record, generator: Generator | None, out: Mapping[str, NDArray[Any]]) -> None:
        """Decode, crop, scale and flip image and mask by one affine map.

        Raises:
            DataError: the record, its image or its mask is not what it should be.
        """
        fields = decode_segmentation(record)
        info = probe(fields.image, record.origin)
        view = self._view(info, record.origin, generator)
        matrix = self.augment.jitter.draw(generator) if self.augment and generator else None
        fetch_image(fields.image, record.origin, info, view.affine, self.fill, out["image"], matrix)
        self._mask(fields, info, view.affine, record.origin, out["mask"])
        if "size" in out:
            out["size"][...] = info.size

    def _view(self, info: ImageInfo, origin: str, generator: Generator | None) -> View:
        if self.augment and generator:
            return self.augment.view(info.size, generator)
        if info.size[0] > self.size[0] or info.size[1] > self.size[1]:
            raise LabelError(
                origin,
                expected=f"a picture of at most {self.size[0]} x {self.size[1]} (height x width)",
                found=f"one of {info.size[0]} x {info.size[1]}",
                remedy="Pack the dataset again: its dataset.json states a smaller largest size",
            )
        return geometry.whole(info.size, self.size)

    def _mask(self, fields: SegmentationRecord, image: ImageInfo, affine: Affine, origin: str, out: Pixels) -> None:
        where = f"{origin} (mask)"
        ids, upright = decode_ids(fields.mask, where, image.size)
        self._labels.check(ids, where)
        warp_mask(ids, affine.then(upright), self.ignore, out)

    @cached_property
    def _labels(self) -> LabelSet:
        return LabelSet(self.classes, self.ignore)


class SegmentationScorer:
    """Counts predicted against true classes in an int64 confusion matrix, and segments where that is asked for."""

    def __init__(self, names: Sequence[str], ignore: int, *, segments: bool = False) -> None:
        self.confusion = Confusion(len(names), ignore)
        self.segments = Segments(len(names), ignore) if segments else None
        self.names = names

    def gather(self, ranks: Together) -> None:
        """Add up what all ranks have counted."""
        ranks.sum(self.confusion.matrix)
        if self.segments:
            ranks.sum(self.segments.counts)

    def update(self, outputs: torch.Tensor, tensors: Tensors, origins: Sequence[str]) -> None:
        """Count one batch of logits; padding has only ignored labels."""
        answers = outputs.argmax(dim=1)
        self.confusion.update(answers, tensors["mask"], origins)
        if self.segments:
            self.segments.update(answers, tensors["mask"], tensors["size"])

    def scores(self) -> SegmentationScores:
        """Intersection over union and accuracy."""
        scores = self.confusion.scores(self.names)
        return replace(scores, segments=self.segments.scores()) if self.segments else scores


@dataclass(frozen=True)
class Segmentation(Task):
    """Semantic segmentation.

    Attributes:
        name: the model, `ARCHITECTURE:BACKBONE`.
        classes: the classes' names; their index is their id.
        ignore: the label that does not count.
        augment: what training does to a picture.
        canvas: the size of the largest picture to evaluate, (height, width).
        weights: the backbone's: "pretrained", "none" or a file.
        objective: the losses.
        class_weights: of cross-entropy, one per class or none.
        parts: of a `deeplab`.
        segments: whether boundary IoU and panoptic quality are scored too.
        channels: of the pictures.
        step: finished steps, where the objective depends on them; None stands for the end of training.
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
    parts: DeepLab = DeepLab()  # noqa: RUF009 - frozen
    segments: bool = False
    channels: int = 3

    main_score = "mean_iou"

    @cached_property
    def normalization(self) -> Normalization:
        """What the backbone expects of its input."""
        return normalization(parse_name(self.name)[1]).over(self.channels)

    def prepare(self, *, train: bool) -> Prepare:
        """A random view for training, the whole picture for evaluation."""
        fill = self.normalization.fill
        if train:
            return PrepareSegmentation(len(self.classes), self.ignore, fill, self.augment)
        return PrepareSegmentation(len(self.classes), self.ignore, fill, canvas=self.canvas)

    def model(self) -> nn.Module:
        """A new model."""
        return build_segmenter(self.name, len(self.classes), self.weights, self.parts, self.channels)

    def inputs(self, tensors: Tensors) -> torch.Tensor:
        """Float32 (n, channels, h, w), channels last in memory, from uint8 (n, h, w, channels)."""
        return self.normalization.apply(as_floats(tensors["image"]))

    def mask_padding(self, tensors: Tensors, weight: torch.Tensor) -> Tensors:
        """All pixels of padding samples get the ignored label."""
        real = weight.to(tensors["mask"].device).view(-1, 1, 1) > 0
        return {**tensors, "mask": torch.where(real, tensors["mask"], self.ignore)}

    def after(self, step: int) -> Segmentation:
        """The task as it is after some steps: hard pixel mining may begin slowly."""
        return replace(self, step=step) if self.objective.hardest_after else self

    @cached_property
    def losses(self) -> Mixture:
        """The losses as they are now."""
        return self.objective.mixture(self.class_weights, self.step)

    def count(self, tensors: Tensors) -> torch.Tensor:
        """What each loss is divided by: pixels or pictures with a label."""
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

    def scorer(self) -> SegmentationScorer:
        """A fresh confusion matrix."""
        return SegmentationScorer(self.classes, self.ignore, segments=self.segments)

    def for_pictures(self, height: int, width: int) -> Segmentation:
        """The task with a canvas that pictures of up to a size fit."""
        canvas = filled(height), filled(width)
        return replace(self, canvas=canvas, parts=replace(self.parts, upsample=True))  # answers are of the labels' size

    def shown(self, record: Record) -> set[int]:
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
        colors = drawing.palette(self.ignore)
        masks = [arrays["mask"]]
        if outputs is not None:
            masks.append(outputs.argmax(dim=0).to(torch.uint8).cpu().numpy())
        image = arrays["image"][..., :3]  # of more modalities, the first three
        return np.hstack([image, *(drawing.overlay(image, mask, colors) for mask in masks)])


def classes_in(record: Record) -> set[int]:
    """The ids in a record's mask, the ignored one included."""
    mask = decode_segmentation(record).mask
    return set(np.unique(codecs.decode_mask(mask, f"{record.origin} (mask)", palette=True)).tolist())


def without_padding(
    arrays: Mapping[str, NDArray[Any]], outputs: torch.Tensor | None, record: Record | None
) -> tuple[Mapping[str, NDArray[Any]], torch.Tensor | None]:
    """A sample and its logits, cut to the size of the record's picture where there is one."""
    if record is None:
        return arrays, outputs
    height, width = probe(decode_segmentation(record).image, record.origin).size
    arrays = {name: array[:height, :width] for name, array in arrays.items() if name != "size"}
    return arrays, None if outputs is None else outputs[:, :height, :width]
