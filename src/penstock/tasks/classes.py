"""Samples of images and their classes, and their metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from penstock.errors import LabelError
from penstock.feed import Field
from penstock.images import RGB, PixelFormat, fetch_image, probe
from penstock.images.crops import pad
from penstock.images.geometry import Affine
from penstock.images.header import ImageInfo
from penstock.kinds.fields import ClassificationRecord, decode_classification
from penstock.metrics import ClassificationScores, PredictionCounts
from penstock.seeds import Generator, Generators
from penstock.settings import DRAWS, Augment, Regularize
from penstock.settings.views import PadCrop
from penstock.tasks.roles import Tensors
from penstock.tasks.scoring import Collective
from penstock.values import Record


@dataclass(frozen=True)
class PrepareClassification:
    """A record to `image`, uint8 or uint16 (height, width, channels), and `label`, int64; in training also to the draws
    of `regularize`.

    Attributes:
        classes: the number of classes.
        fill: the pixel that lies outside the image, RGB; None mirrors the image at its edges.
        augment: the view: random for training, else its middle.
        train: whether it is for training.
        regularize: what else is drawn for training.
        pixel_format: channels and bits of the images.
    """

    classes: int
    fill: tuple[int, ...] | None
    augment: Augment
    train: bool
    regularize: Regularize = Regularize()  # noqa: RUF009 - frozen
    pixel_format: PixelFormat = RGB

    @property
    def fields(self) -> dict[str, Field]:
        """The tensors of a sample."""
        image = Field((*self.augment.crop, self.pixel_format.channels), self.pixel_format.dtype)
        fields = {"image": image, "label": Field((), "int64")}
        return {**fields, "draws": Field((DRAWS,), "float32")} if self.train and self.regularize.on else fields

    def __call__(self, record: Record, generator: Generator | None, out: Mapping[str, NDArray[Any]]) -> None:
        """Decode, crop, scale and flip the image.

        Raises:
            DataError: the record, its image or its label is not what it should be.
        """
        fields, info = self._look(record)
        drawn = generator if self.train else None
        view = self.augment.draw(info.size, drawn) if drawn else self.augment.middle(info.size)
        matrix = self.augment.jitter.draw(drawn) if drawn else None
        fetch_image(fields.image, record.origin, info, view.affine, self.fill, out["image"], matrix)
        if drawn:
            if distortion := self.augment.distortion(drawn, self.augment.crop):
                distortion.image(out["image"], self.fill)
            self.augment.degrade(out["image"], drawn)
        out["label"][...] = fields.label
        if "draws" in out:
            out["draws"][...] = self.regularize.draw(drawn) if drawn else NOTHING

    @property
    def gathers(self) -> bool:
        """Whether samples show pixels of the image as they are."""
        return self.augment.crops_only if self.train else isinstance(self.augment.view, PadCrop)

    def decode(self, record: Record) -> dict[str, NDArray[Any]] | None:
        """The upright image with its margins, and the class.

        Raises:
            DataError: the record, its image or its label is not what it should be.
        """
        fields, info = self._look(record)
        if not self.augment.covers(info.size):
            return None
        image = np.empty((*info.size, self.pixel_format.channels), self.pixel_format.dtype)
        fetch_image(fields.image, record.origin, info, Affine(), self.fill, image)
        return {"image": pad(image, self.augment.margin, self.fill), "label": np.array(fields.label)}

    def gather(
        self,
        decoded: Mapping[str, NDArray[Any]],
        chosen: NDArray[np.int64],
        generators: Generators | None,
        out: Mapping[str, NDArray[Any]],
    ) -> None:
        """Crop and flip the images."""
        drawn = generators if self.train else None
        out["image"][...] = self.augment.crops(decoded["image"], chosen, drawn)
        out["label"][...] = decoded["label"][chosen]
        if "draws" in out:
            out["draws"][...] = [self.regularize.draw(one) for one in drawn.apart()] if drawn else NOTHING

    def _look(self, record: Record) -> tuple[ClassificationRecord, ImageInfo]:
        fields = decode_classification(record)
        if not 0 <= fields.label < self.classes:
            raise LabelError(
                record.origin,
                expected=f"a class from 0 to {self.classes - 1}",
                found=str(fields.label),
                remedy="Check the classes in dataset.json, or pack the data again",
            )
        return fields, probe(fields.image, record.origin)


NOTHING: Final = np.array([1] + [0] * (DRAWS - 2) + [1], np.float32)
"""The draws of a sample that is not changed."""


class ClassificationMetric:
    """Counts predictions."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.predictions = PredictionCounts(len(names))

    def gather(self, ranks: Collective) -> None:
        """Add up what all ranks have counted."""
        ranks.sum(self.predictions.counts)

    def update(self, outputs: torch.Tensor, tensors: Tensors, origins: Sequence[str]) -> None:
        """Count one batch of logits; padding has a label below 0."""
        self.predictions.update(outputs.float().softmax(dim=1), tensors["label"])

    def scores(self) -> ClassificationScores:
        """Accuracies and calibration."""
        return self.predictions.scores(self.names)
