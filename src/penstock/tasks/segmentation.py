"""Semantic segmentation: every pixel gets a class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from penstock.datasets.description import Description, SplitInfo
from penstock.errors import RecipeError
from penstock.images import drawing, shown
from penstock.images.color import Jitter
from penstock.kinds import KINDS
from penstock.losses import Mixture
from penstock.progress import counted
from penstock.settings import Augment, Objective, TaskSettings
from penstock.tasks.abilities import Ability
from penstock.tasks.dense import DensePredictor, DenseTask
from penstock.tasks.masks import SegmentationMetric, without_padding
from penstock.tasks.normalizing import of_data
from penstock.tasks.objective import mixture, weights_of
from penstock.tasks.predictions import MaskPrediction, Style
from penstock.tasks.roles import Drawing, ReadyModel
from penstock.values import Pixels, Record

_COLORS = 3


@dataclass(frozen=True)
class Segmentation(DenseTask):
    """Semantic segmentation.

    Attributes, beside those of `DenseTask`:
        objective: the losses.
        class_weights: of cross-entropy, one per class or none.
        step: finished steps, where the objective depends on them; None stands for the end of training.
        segments: whether boundary IoU and panoptic quality are scored too.
        colors: of the classes, (red, green, blue); empty takes distinct ones.
    """

    objective: Objective = field(default_factory=Objective)
    class_weights: tuple[float, ...] = ()
    step: int | None = None
    segments: bool = False
    colors: tuple[tuple[int, int, int], ...] = ()

    kind = KINDS["segmentation"]
    best_metric = "mean_iou"
    supports = DenseTask.supports | {Ability.ORIGINAL_IDS, Ability.PALETTE, Ability.COLOR_MASKS, Ability.LOSSES}

    @classmethod
    def of(cls, settings: TaskSettings, described: Description, split: SplitInfo, *, grows: bool = False) -> Self:
        """The task for a dataset."""
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

    def after(self, step: int) -> Self:
        """The task as it is after some steps: hard mining may begin slowly."""
        return replace(self, step=step) if self.objective.ohem_warmup_steps else self

    @cached_property
    def losses(self) -> Mixture:
        """The losses as they are now."""
        return mixture(self.objective, self.class_weights, self.step)

    def metric(self) -> SegmentationMetric:
        """A fresh confusion matrix."""
        return SegmentationMetric(self.classes, self.ignore, segments=self.segments)

    def with_segments(self) -> Self:
        """The task with boundary IoU and panoptic quality among its scores."""
        return replace(self, segments=True)

    @property
    def drawing(self) -> MaskDrawing:
        """Draws masks in colours."""
        return MaskDrawing(self.classes, self.ignore, self.colors)

    @property
    def predictor(self) -> MaskPredictor:
        """Predicts masks."""
        return MaskPredictor(self)


@dataclass(frozen=True)
class MaskDrawing(Drawing):
    """Draws masks over images.

    Attributes:
        classes: the classes' names; their index is their id.
        ignore: the label that does not count.
        colors: of the classes, (red, green, blue); empty takes distinct ones.
    """

    classes: tuple[str, ...]
    ignore: int
    colors: tuple[tuple[int, int, int], ...] = ()
    panels: ClassVar[str] = "image, labels, prediction, errors in red"

    @property
    def legend(self) -> tuple[str, ...]:
        """All classes."""
        return self.classes

    def draw(
        self, arrays: Mapping[str, NDArray[Any]], outputs: torch.Tensor | None = None, record: Record | None = None
    ) -> Pixels:
        """Image, labels over it and, where there are logits (classes, h, w), the prediction over it and its errors."""
        arrays, outputs = without_padding(arrays, outputs, record)
        background = drawing.background_of(self.classes)
        return self.beside(shown(arrays["image"]), arrays["mask"], outputs, background)

    def beside(self, image: Pixels, mask: Pixels, logits: torch.Tensor | None, background: int | None) -> Pixels:
        """The panels side by side; the background is not coloured."""
        colors = drawing.palette(self.ignore, self.colors)
        panels = [image, drawing.overlay(image, mask, colors, background=background)]
        if logits is not None:
            predicted = logits.argmax(dim=0).to(torch.uint8).cpu().numpy()
            panels.append(drawing.overlay(image, predicted, colors, background=background))
            panels.append(drawing.errors(image, (predicted != mask) & (mask != self.ignore)))
        return np.hstack(panels)


@dataclass(frozen=True)
class MaskPredictor(DensePredictor):
    """Predicts a class for every pixel."""

    task: Segmentation

    def predict(self, ready: ReadyModel, pixels: Pixels) -> MaskPrediction:
        """The mask of one image at its own size."""
        probabilities = self.probabilities(ready, pixels)
        mask: Pixels = probabilities.argmax(axis=0).astype(np.uint8)
        return MaskPrediction(shown(pixels), mask, self.task.classes, self.task.ignore, self.task.colors)

    def suffixes(self, style: Style) -> tuple[str, ...]:
        """The mask, the mask over the image and, where it is asked for, the mask in colour."""
        return ("", "-overlay", "-color") if style.color else ("", "-overlay")

    def ids(self, style: Style) -> list[list[str]]:
        """Of every class: the id in masks, its name, and its colour."""
        colors = drawing.palette_of(style.palette, self.task.ignore, self.task.colors)
        ids = style.written(np.arange(len(self.task.classes), dtype=np.uint8)).tolist()
        rows = zip(ids, self.task.classes, colors.tolist(), strict=False)
        return [[str(i), name, *map(str, color)] for i, name, color in rows]

    def explain(self, table: str, rows: int, drawn: int, style: Style) -> str:
        """What the files are."""
        shown = "NAME-overlay.png shows them in the colours of legend.png"
        return f"NAME.png holds class ids, which look nearly black; {shown}"


def _check_colors(augment: Augment, channels: int) -> None:
    if channels != _COLORS and augment.jitter != Jitter():
        raise RecipeError(
            "augment.jitter",
            expected=f"nothing: images of {counted(channels, 'channel')} have no colours",
            found=f"{augment.jitter}",
            remedy="Leave it out",
        )
