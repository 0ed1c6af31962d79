"""Matting: every pixel gets an alpha value, learnt from soft labels (DeepLab's `gt_is_matting_map`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray

from penstock.datasets.description import Description, SplitInfo
from penstock.images import drawing, shown
from penstock.images.geometry import Affine
from penstock.images.header import ImageInfo
from penstock.images.warp import warp_image, warp_mask
from penstock.kinds import KINDS
from penstock.kinds.fields import SegmentationRecord
from penstock.kinds.labels import decode_ids
from penstock.losses import Mixture, SoftLabels
from penstock.metrics import Mattes, MatteScores
from penstock.settings import TaskSettings
from penstock.tasks.dense import DensePredictor, DenseTask
from penstock.tasks.masks import PrepareSegmentation, without_padding
from penstock.tasks.normalizing import of_data
from penstock.tasks.predictions import MattePrediction, Style
from penstock.tasks.roles import Drawing, ReadyModel, Tensors
from penstock.tasks.scoring import Collective
from penstock.values import Pixels, Record

NOWHERE: Final = -1
"""The label of what lies outside the image."""


@dataclass(frozen=True)
class PrepareMatte(PrepareSegmentation):
    """A record to `image` (height, width, channels), and `mask`, int16: alpha in 255ths, bilinear, -1 outside it."""

    mask_dtype = "int16"

    def _mask(
        self, fields: SegmentationRecord, image: ImageInfo, affine: Affine, origin: str, out: NDArray[Any]
    ) -> None:
        alpha, upright = decode_ids(fields.mask, f"{origin} (mask)", image.size)
        view = affine.then(upright)
        soft, inside = np.empty((*out.shape, 1), np.uint8), np.empty(out.shape, np.uint8)
        warp_image(alpha[..., np.newaxis], view, (0,), soft)
        warp_mask(np.ones_like(alpha), view, 0, inside)
        out[...] = NOWHERE
        np.copyto(out, soft[..., 0], where=inside > 0)


class MatteMetric:
    """Adds up how far predicted alpha values are from true ones."""

    def __init__(self) -> None:
        self.mattes = Mattes(NOWHERE)

    def gather(self, ranks: Collective) -> None:
        """Add up what all ranks have counted."""
        ranks.sum(self.mattes.counts)

    def update(self, outputs: torch.Tensor, tensors: Tensors, origins: Sequence[str]) -> None:
        """Count one batch of logits; padding has only labels that do not count."""
        self.mattes.update(outputs.float().softmax(dim=1)[:, 1], tensors["mask"])

    def scores(self) -> MatteScores:
        """Errors of alpha."""
        return self.mattes.scores()


@dataclass(frozen=True)
class Matting(DenseTask):
    """Matting, as segmentation of background and foreground with soft labels; attributes as of `DenseTask`."""

    ignore: int = NOWHERE

    kind = KINDS["matting"]
    samples = PrepareMatte
    best_metric = "mae"
    lower_is_better = frozenset({"mae"})

    @classmethod
    def of(cls, settings: TaskSettings, described: Description, split: SplitInfo, *, grows: bool = False) -> Self:
        """The task for a dataset."""
        model = settings.model
        return cls(
            model.name,
            described.classes,
            augment=settings.augment,
            weights=model.weights,
            parts=model.deeplab,
            pixel_format=described.pixel_format,
            statistics=of_data(settings, described),
            decoder=model.decoder,
        )

    @cached_property
    def losses(self) -> Mixture:
        """Cross-entropy against alpha."""
        return Mixture([(1.0, SoftLabels())])

    def metric(self) -> MatteMetric:
        """A fresh counter of errors."""
        return MatteMetric()

    @property
    def drawing(self) -> MatteDrawing:
        """Draws alpha in gray."""
        return MatteDrawing()

    @property
    def predictor(self) -> MattePredictor:
        """Predicts alpha."""
        return MattePredictor(self)


class MatteDrawing(Drawing):
    """Draws alpha as gray beside the image."""

    def draw(
        self, arrays: Mapping[str, NDArray[Any]], outputs: torch.Tensor | None = None, record: Record | None = None
    ) -> Pixels:
        """Image, alpha as gray and, where there are logits (2, h, w), the predicted one, side by side."""
        arrays, outputs = without_padding(arrays, outputs, record)
        mattes = [np.maximum(arrays["mask"], 0).astype(np.uint8)]
        if outputs is not None:
            mattes.append((255 * outputs.float().softmax(dim=0)[1]).round().to(torch.uint8).cpu().numpy())
        return np.hstack([shown(arrays["image"]), *(drawing.gray(each) for each in mattes)])


@dataclass(frozen=True)
class MattePredictor(DensePredictor):
    """Predicts the alpha of every pixel."""

    def predict(self, ready: ReadyModel, pixels: Pixels) -> MattePrediction:
        """The alpha of one image at its own size."""
        _, foreground = self.probabilities(ready, pixels)
        alpha: Pixels = (255 * foreground).round().astype(np.uint8)
        return MattePrediction(shown(pixels), alpha)

    def suffixes(self, style: Style) -> tuple[str, ...]:
        """The matte, and the foreground over green."""
        return "", "-overlay"

    def explain(self, table: str, rows: int, drawn: int, style: Style) -> str:
        """What the files are."""
        return "NAME.png holds alpha, white for foreground; NAME-overlay.png lays it over green"
