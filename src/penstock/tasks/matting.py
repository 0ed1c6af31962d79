"""Matting: every pixel gets an alpha value, learnt from soft labels (DeepLab's `gt_is_matting_map`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import torch

from penstock.images import drawing, shown
from penstock.images.warp import warp_image, warp_mask
from penstock.kinds import KINDS
from penstock.kinds.labels import decode_ids
from penstock.losses import Mixture, SoftLabels
from penstock.metrics import Mattes, MatteScores
from penstock.tasks.abilities import Ability, refusal
from penstock.tasks.masks import PrepareSegmentation, without_padding
from penstock.tasks.normalizing import of_data
from penstock.tasks.predictions import MattePrediction
from penstock.tasks.segmentation import MASK_ABILITIES, Segmentation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from torch import nn

    from penstock.datasets.description import Description, Split
    from penstock.images.geometry import Affine
    from penstock.images.header import ImageInfo
    from penstock.models import Window
    from penstock.records.schema import SegmentationRecord
    from penstock.settings import TaskSettings
    from penstock.tasks.base import Tensors
    from penstock.tasks.predictions import Style
    from penstock.tasks.scoring import Collective
    from penstock.values import Pixels, Record


NOWHERE: Final = -1
"""The label of what lies outside the image."""


@dataclass(frozen=True)
class PrepareMatte(PrepareSegmentation):
    """A record to `image`, uint8 or uint16 (height, width, channels), and `mask`, int16 (height, width): alpha
    in 255ths, bilinear as the image is, -1 outside it.
    """

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
        del origins
        self.mattes.update(outputs.float().softmax(dim=1)[:, 1], tensors["mask"])

    def scores(self) -> MatteScores:
        """Errors of alpha."""
        return self.mattes.scores()


@dataclass(frozen=True)
class Matting(Segmentation):
    """Matting, as segmentation of background and foreground with soft labels; attributes as there."""

    ignore: int = NOWHERE

    kind = KINDS["matting"]
    samples = PrepareMatte
    best_metric = "mae"
    lower_is_better = frozenset({"mae"})
    supports = MASK_ABILITIES

    @classmethod
    def of(cls, settings: TaskSettings, described: Description, split: Split, *, grows: bool = False) -> Self:
        """The task for a dataset."""
        del split, grows
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

    def metric(self) -> MatteMetric:  # type: ignore[override] # both are metrics
        """A fresh counter of errors."""
        return MatteMetric()

    def classes_of(self, record: Record) -> set[int]:
        """Both, mostly."""
        del record
        return {0, 1}

    @property
    def legend(self) -> tuple[str, ...]:
        """Shares are drawn as gray."""
        return ()

    def draw(
        self,
        arrays: Mapping[str, NDArray[Any]],
        outputs: torch.Tensor | None = None,
        record: Record | None = None,
    ) -> Pixels:
        """Image, alpha as gray and, where there are logits (2, h, w), the predicted ones, side by side."""
        arrays, outputs = without_padding(arrays, outputs, record)
        mattes = [np.maximum(arrays["mask"], 0).astype(np.uint8)]
        if outputs is not None:
            mattes.append((255 * outputs.float().softmax(dim=0)[1]).round().to(torch.uint8).cpu().numpy())
        return np.hstack([shown(arrays["image"]), *(drawing.gray(each) for each in mattes)])

    def predict(  # type: ignore[override] # a prediction too
        self,
        model: nn.Module,
        pixels: Pixels,
        *,
        device: torch.device,
        precision: str = "float32",
        window: Window | None = None,
    ) -> MattePrediction:
        """The alpha of every pixel of one image; arguments as for `Task.predict`."""
        _, foreground = self.probabilities(model, pixels, device, precision, window)
        alpha: Pixels = (255 * foreground).round().astype(np.uint8)
        return MattePrediction(shown(pixels), alpha)

    def predict_volume(self, *_: Any, **__: Any) -> Pixels:
        """Volumes have no mattes."""
        raise refusal(self, Ability.PREDICT_VOLUMES, "penstock predict", "Name images")

    def prediction_suffixes(self, style: Style) -> tuple[str, ...]:
        """The matte, and the foreground over green."""
        del style
        return "", "-overlay"

    def written_ids(self, style: Style) -> list[list[str]]:
        """None: alpha has no classes."""
        del style
        return []

    def explain(self, table: str, rows: int, drawn: int, style: Style) -> str:
        """What the files are."""
        del table, rows, drawn, style
        return "NAME.png holds alpha, white for foreground; NAME-overlay.png lays it over green"

    def with_segments(self) -> Self:
        """Mattes have no segments."""
        raise refusal(self, Ability.SEGMENT_SCORES, "--segments")
