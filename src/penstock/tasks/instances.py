"""Instance segmentation: the pixels of every object, with its class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from penstock.feed import Field
from penstock.images import drawing, geometry, shown
from penstock.images.geometry import Size
from penstock.images.warp import warp_mask
from penstock.kinds import KINDS
from penstock.kinds.instances import decode_object
from penstock.metrics import InstanceScores, ScoredBox, check_extra, run_lengths
from penstock.models import INSTANCE_NETWORKS, unpack_masks
from penstock.progress import counted
from penstock.tasks.boxes import DetectionMetric, PrepareDetection, VisibleRegion, write_object
from penstock.tasks.detection import BoxDrawing, Detection, ObjectPredictor
from penstock.tasks.predictions import InstancePrediction, Style
from penstock.tasks.roles import ReadyModel, Tensors
from penstock.values import Object, Pixels


class PrepareInstances(PrepareDetection):
    """A record to what detection learns from, and `masks`, uint8 (most, height, ceil(width / 8)): the pixels of every
    object, eight to a byte, the first in the highest bit.

    Boxes are those around the pixels that a view shows. In training, an object of which it shows no pixel is left out.
    """

    @property
    def fields(self) -> dict[str, Field]:
        """The tensors of a sample."""
        height, width = self.canvas or self.augment.crop
        return {**super().fields, "masks": Field((self.max_boxes, height, -(-width // 8)), "uint8")}

    def clear(self, out: Mapping[str, NDArray[Any]]) -> None:
        """Write into a sample that there is no object."""
        super().clear(out)
        out["masks"][...] = 0

    def place(
        self,
        part: Mapping[str, NDArray[Any]],
        each: int,
        at: tuple[int, int],
        out: Mapping[str, NDArray[Any]],
        row: int,
    ) -> None:
        """Write an object of a part of a mosaic into a row of the sample, with its pixels."""
        super().place(part, each, at, out, row)
        height, width = part["image"].shape[:2]
        whole = np.zeros(out["image"].shape[:2], np.uint8)
        whole[at[0] : at[0] + height, at[1] : at[1] + width] = np.unpackbits(part["masks"][each], axis=1)[:, :width]
        out["masks"][row] = np.packbits(whole, axis=1)

    def write_objects(
        self,
        kept: Sequence[tuple[Object, NDArray[np.float64]]],
        shown: VisibleRegion,
        origin: str,
        out: Mapping[str, NDArray[Any]],
    ) -> None:
        """Move the pixels of the objects with the image."""
        seen, row = np.empty(out["image"].shape[:2], np.uint8), 0
        for each, box in kept:
            warp_mask(decode_object(each, shown.size, origin).astype(np.uint8), shown.view.affine, 0, seen)
            if shown.distortion:
                shown.distortion.mask(seen, 0)
            there = seen > 0
            if there.any():
                write_object(out, row, each, geometry.edges_of(there))
            elif self.canvas is None:
                continue
            else:
                write_object(out, row, each, box)  # too small for a pixel, but scored
            out["masks"][row] = np.packbits(there, axis=1)
            row += 1


class InstanceMetric(DetectionMetric):
    """Gathers objects with their pixels. Masks are compared at the size at which images are evaluated."""

    def objects(self, origin: str, sample: Tensors, output: Tensors) -> tuple[list[ScoredBox], list[ScoredBox]]:
        """The true objects of one image, and those that were found in it, with their pixels."""
        true, found = super().objects(origin, sample, output)
        height, width = sample["size"].tolist()
        masks = unpack_masks(sample["masks"][sample["label"] >= 0], (height, width))
        return _with_masks(true, masks), _with_masks(found, output["masks"])

    def scores(self) -> InstanceScores:
        """Average precisions."""
        return InstanceScores(self.boxes.scores(self.names, masks=True), self.boxes.scores(self.names))


def _with_masks(found: list[ScoredBox], masks: torch.Tensor) -> list[ScoredBox]:
    size = (masks.shape[1], masks.shape[2])
    pixels = masks.cpu().numpy()
    return [each._replace(mask=run_lengths(mask), size=size) for each, mask in zip(found, pixels, strict=True)]


@dataclass(frozen=True)
class Instances(Detection):
    """Instance segmentation, as detection is, with masks.

    The losses are those of Mask R-CNN: torchvision's of detection, and that of the masks.
    """

    kind = KINDS["instances"]
    small_model = "maskrcnn:resnet18"
    gives_masks = True
    networks = INSTANCE_NETWORKS
    samples = PrepareInstances

    @classmethod
    def defaults(cls, weights: str = "") -> Mapping[str, Any]:
        """Those of detection, with Mask R-CNN."""
        return {**super().defaults(weights), "model.name": "maskrcnn:resnet50"}

    def inputs(self, tensors: Tensors) -> dict[str, torch.Tensor]:
        """What `Detector` takes; one image of which nothing is known has no masks."""
        masks = {"masks": tensors["masks"]} if "masks" in tensors else {}
        return {**super().inputs(tensors), **masks}

    def metric(self) -> InstanceMetric:
        """Nothing found yet.

        Raises:
            RecipeError: what scores masks is not installed.
        """
        check_extra()
        return InstanceMetric(self.classes)

    @property
    def drawing(self) -> InstanceDrawing:
        """Draws the pixels of objects."""
        return InstanceDrawing(self.classes)

    @property
    def predictor(self) -> InstancePredictor:
        """Predicts boxes and pixels of objects."""
        return InstancePredictor(self)


@dataclass(frozen=True)
class InstanceDrawing(BoxDrawing):
    """Draws the pixels of objects."""

    @property
    def legend(self) -> tuple[str, ...]:
        """None where there is one class: each object has a colour of its own then."""
        return self.classes if len(self.classes) > 1 else ()

    def draw_true(self, image: Pixels, arrays: Mapping[str, NDArray[Any]], there: NDArray[np.bool_]) -> Pixels:
        """An image with the pixels of its objects."""
        masks = np.unpackbits(arrays["masks"][there], axis=2)[:, : image.shape[0], : image.shape[1]] > 0
        labels = arrays["label"][there].tolist()
        return drawing.instances(image, list(masks), labels, classes=len(self.classes))

    def draw_found(self, image: Pixels, found: Mapping[str, NDArray[Any]], words: Sequence[str]) -> Pixels:
        """An image with the pixels that were found; better ones lie on top."""
        masks, labels = found["masks"][::-1], found["labels"][::-1]
        return drawing.instances(image, list(masks), labels.tolist(), words[::-1], classes=len(self.classes))


@dataclass(frozen=True)
class InstancePredictor(ObjectPredictor):
    """Predicts boxes and pixels of objects."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of a box, and the number of the object in NAME.png."""
        return (*super().columns, "number")

    @torch.inference_mode()
    def predict(self, ready: ReadyModel, pixels: Pixels) -> InstancePrediction:
        """The objects in one image, the highest score first."""
        found, scale = self.find(ready, pixels)
        masks = _enlarged(found["masks"], (pixels.shape[0], pixels.shape[1]))
        return InstancePrediction(
            shown(pixels), found["boxes"] * scale, found["scores"], found["labels"], self.task.classes, masks
        )

    def suffixes(self, style: Style) -> tuple[str, ...]:
        """The numbers of the objects, and the drawing."""
        return ("", "-instances")

    def explain(self, table: str, rows: int, drawn: int, style: Style) -> str:
        """What the files hold."""
        return (
            f"{table} holds {counted(rows, 'candidate object')}, with boxes in pixels; NAME.png holds the numbers of "
            f"the {drawn:,} that score above {style.score:g} (0 where there is none), NAME-instances.png shows them, "
            "and predictions.json holds them as COCO does"
        )


def _enlarged(masks: NDArray[np.bool_], size: Size) -> NDArray[np.bool_]:
    """Masks brought from the size that the model saw to that of the image."""
    if masks.shape[1:] == size:
        return masks
    enlarged = np.zeros((len(masks), *size), np.uint8)
    view = geometry.resize((masks.shape[1], masks.shape[2]), size)
    for mask, out in zip(masks, enlarged, strict=True):
        warp_mask(mask.astype(np.uint8), view.affine, 0, out)
    return enlarged > 0
