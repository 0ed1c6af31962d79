"""Samples of images and masks, and their metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from numpy.typing import NDArray

from penstock.errors import LabelError
from penstock.feed import Field
from penstock.images import RGB, PixelFormat, fetch_image, geometry, probe
from penstock.images.geometry import Affine, Size, View
from penstock.images.header import ImageInfo
from penstock.images.warp import warp_mask
from penstock.kinds.fields import SegmentationRecord, decode_segmentation
from penstock.kinds.labels import LabelSet, decode_ids
from penstock.metrics import Confusion, SegmentationScores, Segments
from penstock.seeds import Generator
from penstock.settings import Augment
from penstock.tasks.roles import Tensors
from penstock.tasks.scoring import Collective
from penstock.values import Pixels, Record


@dataclass(frozen=True)
class PrepareSegmentation:
    """A record to `image`, uint8 or uint16 (height, width, channels), and `mask`, uint8 (height, width) of class ids.

    Attributes:
        classes: the number of classes; every other id but `ignore` is refused.
        ignore: the label that does not count; fills what lies outside the image.
        fill: the pixel that fills it, as many numbers as there are channels.
        augment: training's random view; None shows the whole image in the top left corner of `canvas`.
        canvas: the size of an evaluation sample, (height, width).
        pixel_format: channels and bits of the images.
    """

    classes: int
    ignore: int
    fill: tuple[int, ...]
    augment: Augment | None = None
    canvas: Size = (0, 0)
    pixel_format: PixelFormat = RGB

    mask_dtype: ClassVar[str] = "uint8"

    @property
    def size(self) -> Size:
        """(height, width) of every sample."""
        return self.augment.crop if self.augment else self.canvas

    @property
    def fields(self) -> dict[str, Field]:
        """The tensors of a sample; in evaluation also what (height, width) the image fills of them."""
        image = Field((*self.size, self.pixel_format.channels), self.pixel_format.dtype)
        pixels = {"image": image, "mask": Field(self.size, self.mask_dtype)}
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
        if self.augment and generator:
            if distortion := self.augment.distortion(generator, self.size):
                distortion.image(out["image"], self.fill)
                distortion.mask(out["mask"], self.ignore)
            self.augment.degrade(out["image"], generator)
        if "size" in out:
            out["size"][...] = info.size

    def partners(self, generator: Generator) -> int:
        """How many records a sample is made of beside its own."""
        return self.augment.partners(generator) if self.augment else 0

    def compose(self, records: Sequence[Record], generator: Generator, out: Mapping[str, NDArray[Any]]) -> None:
        """A mosaic of four records.

        Raises:
            DataError: a record, its image or its mask is not what it should be.
        """
        augment = self.augment
        assert augment is not None  # noqa: S101 - else there are no partners
        for record, (rows, columns) in zip(records, augment.quarters(generator), strict=True):
            part = {name: array[rows, columns] for name, array in out.items()}
            within = augment.within((part["mask"].shape[0], part["mask"].shape[1]))
            replace(self, augment=within)(record, generator, part)

    def _view(self, info: ImageInfo, origin: str, generator: Generator | None) -> View:
        if self.augment and generator:
            return self.augment.draw(info.size, generator)
        if info.size[0] > self.size[0] or info.size[1] > self.size[1]:
            raise LabelError(
                origin,
                expected=f"an image of at most {self.size[0]} x {self.size[1]} (height x width)",
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


class SegmentationMetric:
    """Counts predicted against true classes in an int64 confusion matrix, and segments where that is asked for."""

    def __init__(self, names: Sequence[str], ignore: int, *, segments: bool = False) -> None:
        self.confusion = Confusion(len(names), ignore)
        self.segments = Segments(len(names), ignore) if segments else None
        self.names = names

    def gather(self, ranks: Collective) -> None:
        """Add up what all ranks have counted."""
        ranks.sum(self.confusion.matrix)
        if self.segments:
            ranks.sum(self.segments.counts)

    def update(self, outputs: torch.Tensor, tensors: Tensors, origins: Sequence[str]) -> None:
        """Count one batch of logits; padding has only ignored labels."""
        predicted = outputs.argmax(dim=1)
        self.confusion.update(predicted, tensors["mask"], origins)
        if self.segments:
            self.segments.update(predicted, tensors["mask"], tensors["size"])

    def scores(self) -> SegmentationScores:
        """Intersection over union and accuracy."""
        scores = self.confusion.scores(self.names)
        return replace(scores, segments=self.segments.scores()) if self.segments else scores


def without_padding(
    arrays: Mapping[str, NDArray[Any]], outputs: torch.Tensor | None, record: Record | None
) -> tuple[Mapping[str, NDArray[Any]], torch.Tensor | None]:
    """A sample and its logits, cut to the size of the record's image where there is one."""
    if record is None:
        return arrays, outputs
    height, width = probe(decode_segmentation(record).image, record.origin).size
    arrays = {name: array[:height, :width] for name, array in arrays.items() if name != "size"}
    return arrays, None if outputs is None else outputs[:, :height, :width]
