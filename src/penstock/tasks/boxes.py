"""Samples of images and boxes, and their metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from penstock.errors import LabelError
from penstock.feed import Field
from penstock.images import RGB, PixelFormat, fetch_image, geometry, probe
from penstock.images.distort import Distortion
from penstock.images.geometry import Size, View
from penstock.images.header import ImageInfo
from penstock.kinds.fields import decode_detection
from penstock.kinds.labels import check_objects
from penstock.metrics import Boxes, ScoredBox
from penstock.progress import counted
from penstock.seeds import Generator
from penstock.settings import Augment
from penstock.settings.augment import QUARTERS
from penstock.tasks.roles import Tensors
from penstock.tasks.scoring import Collective, Scores
from penstock.values import Object, Record


class VisibleRegion(NamedTuple):
    """What of an image a sample shows, and how.

    Attributes:
        view: what fills the sample.
        size: (height, width) of the upright image.
        distortion: of the sample after that.
    """

    view: View
    size: Size
    distortion: Distortion | None


@dataclass(frozen=True)
class PrepareDetection:
    """A record to `image`, uint8 or uint16 (height, width, 3) RGB; `boxes`, float32 (max_boxes, 4), (x1, y1, x2, y2) in
    pixels of it; `label`, int64 (max_boxes,), -1 where there is none; `crowd`, uint8 (max_boxes,); `size`, int64 (2,),
    of what is not padding; and `scale`, float32, pixels of it per pixel of the image.

    Attributes:
        classes: the number of classes.
        max_boxes: boxes that an image may have.
        fill: the pixel that lies outside the image, RGB.
        augment: training's random view, and to what range of sizes images are brought.
        canvas: the size of an evaluation sample; None trains.
        pixel_format: channels and bits of the images.
    """

    classes: int
    max_boxes: int
    fill: tuple[int, ...]
    augment: Augment
    canvas: Size | None = None
    pixel_format: PixelFormat = RGB

    @property
    def fields(self) -> dict[str, Field]:
        """The tensors of a sample."""
        size = self.canvas or self.augment.crop
        return {
            "image": Field((*size, self.pixel_format.channels), self.pixel_format.dtype),
            "boxes": Field((self.max_boxes, 4), "float32"),
            "label": Field((self.max_boxes,), "int64"),
            "crowd": Field((self.max_boxes,), "uint8"),
            "size": Field((2,), "int64"),
            "scale": Field((), "float32"),
        }

    def __call__(self, record: Record, generator: Generator | None, out: Mapping[str, NDArray[Any]]) -> None:
        """Decode, crop, scale and flip the image, and move its boxes with it.

        Raises:
            DataError: the record, its image or a box is not what it should be.
        """
        fields = decode_detection(record)
        info = probe(fields.image, record.origin)
        check_objects(fields, self.classes, info.size, record.origin)
        if len(fields.objects) > self.max_boxes:
            raise LabelError(
                record.origin,
                expected=f"at most {counted(self.max_boxes, 'box')}, as the dataset's description says",
                found=str(len(fields.objects)),
                remedy="Pack or publish the data again; who sends records says how many with About(objects=...)",
            )
        view = self._view(info, record.origin, generator)
        matrix = self.augment.jitter.draw(generator) if generator and self.canvas is None else None
        fetch_image(fields.image, record.origin, info, view.affine, self.fill, out["image"], matrix)
        distortion = None
        if generator and self.canvas is None:
            if distortion := self.augment.distortion(generator, view.size):
                distortion.image(out["image"], self.fill)
            self.augment.degrade(out["image"], generator)
        edges = np.array([(o.left, o.top, o.right, o.bottom) for o in fields.objects], np.float64).reshape(-1, 4)
        least = 1.0 if self.canvas is None else 0.0  # all true boxes are scored
        moved, there = geometry.move_boxes(edges, view, info.size, self.augment.min_visibility, least)
        if distortion:
            moved, large = geometry.cut_boxes(distortion.boxes(moved), view.size, least)
            there &= large
        self.clear(out)
        out["size"][...] = self._size(info, view)
        out["scale"][...] = 1 / view.affine.shrink
        kept = [(each, moved[number]) for number, each in enumerate(fields.objects) if there[number]]
        self.write_objects(kept, VisibleRegion(view, info.size, distortion), record.origin, out)

    def partners(self, generator: Generator) -> int:
        """How many records a sample is made of beside its own."""
        return self.augment.partners(generator) if self.canvas is None else 0

    def compose(self, records: Sequence[Record], generator: Generator, out: Mapping[str, NDArray[Any]]) -> None:
        """A mosaic of four records; each brings its objects.

        Raises:
            DataError: a record, its image or a box is not what it should be.
        """
        self.clear(out)
        out["size"][...], out["scale"][...] = self.augment.crop, 1.0
        row, max_boxes = 0, self.max_boxes // QUARTERS
        for record, (rows, columns) in zip(records, self.augment.quarters(generator), strict=True):
            image = out["image"][rows, columns]
            maker = replace(self, max_boxes=max_boxes, augment=self.augment.within((image.shape[0], image.shape[1])))
            part = {name: np.empty(each.shape, each.dtype) for name, each in maker.fields.items() if name != "image"}
            part["image"] = image
            maker(record, generator, part)
            there = np.flatnonzero(part["label"] >= 0)
            for each in there:
                self.place(part, int(each), (rows.start, columns.start), out, row)
                row += 1

    def clear(self, out: Mapping[str, NDArray[Any]]) -> None:
        """Write into a sample that there is no object."""
        out["boxes"][...], out["label"][...], out["crowd"][...] = 0, -1, 0

    def place(
        self,
        part: Mapping[str, NDArray[Any]],
        each: int,
        at: tuple[int, int],
        out: Mapping[str, NDArray[Any]],
        row: int,
    ) -> None:
        """Write an object of a part of a mosaic into a row of the sample.

        Args:
            part: the arrays of the part.
            each: the object's row there.
            at: where the part begins in the sample, (row, column) of pixels.
            out: the sample's arrays.
            row: the object's row in them.
        """
        top, left = at
        out["boxes"][row] = part["boxes"][each] + np.array([left, top, left, top], np.float32)
        out["label"][row], out["crowd"][row] = part["label"][each], part["crowd"][each]

    def write_objects(
        self,
        kept: Sequence[tuple[Object, NDArray[np.float64]]],
        shown: VisibleRegion,
        origin: str,
        out: Mapping[str, NDArray[Any]],
    ) -> None:
        """Write the objects that a view shows into the sample.

        Args:
            kept: the objects, each with its box in pixels of the view.
            shown: what of the image the sample shows.
            origin: of the record, named in errors.
            out: the sample's arrays; no object stands in them yet.
        """
        for row, (each, box) in enumerate(kept):
            write_object(out, row, each, box)

    def _view(self, info: ImageInfo, origin: str, generator: Generator | None) -> View:
        if self.canvas is None and generator:
            return self.augment.draw(info.size, generator)
        if self.canvas is None:
            return geometry.resize(info.size, self.augment.crop)
        size = self.augment.fitted(info.size)
        if size[0] > self.canvas[0] or size[1] > self.canvas[1]:
            raise LabelError(
                origin,
                expected=f"an image of at most {self.canvas[0]} x {self.canvas[1]} (height x width)",
                found=f"one of {size[0]} x {size[1]}",
                remedy="Pack the dataset again: its dataset.json states a smaller largest size",
            )
        return geometry.resize(info.size, size, self.canvas)

    def _size(self, info: ImageInfo, view: View) -> Size:
        return view.size if self.canvas is None else self.augment.fitted(info.size)


def write_object(out: Mapping[str, NDArray[Any]], row: int, each: Object, box: Sequence[float] | Any) -> None:
    """Write one object into a row of a sample; its box is in pixels of the sample."""
    out["boxes"][row] = box
    out["label"][row] = each.label
    out["crowd"][row] = each.crowd or each.difficult


class DetectionMetric:
    """Gathers boxes."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.boxes = Boxes()

    def gather(self, ranks: Collective) -> None:
        """Put together what all ranks have found."""
        self.boxes.gather(ranks.gather)

    def update(self, outputs: Any, tensors: Tensors, origins: Sequence[str]) -> None:
        """Add what was found in some images; padding has no origin."""
        for row, (origin, output) in enumerate(zip(origins, outputs, strict=True)):
            if not origin:
                continue
            true, found = self.objects(origin, {name: tensor[row] for name, tensor in tensors.items()}, output)
            self.boxes.images.append(origin)
            self.boxes.true += true
            self.boxes.found += found

    def objects(self, origin: str, sample: Tensors, output: Tensors) -> tuple[list[ScoredBox], list[ScoredBox]]:
        """The true objects of one image, and those that were found in it."""
        scale, there = float(sample["scale"]), sample["label"] >= 0
        label, boxes, crowd = (sample[name][there] for name in ("label", "boxes", "crowd"))
        true = _found(origin, label, boxes, crowd, scale)
        return true, _found(origin, output["labels"], output["boxes"], output["scores"], scale)

    def scores(self) -> Scores:
        """Average precisions."""
        return self.boxes.scores(self.names)


def _found(
    origin: str, labels: torch.Tensor, boxes: torch.Tensor, scores: torch.Tensor, scale: float
) -> list[ScoredBox]:
    """Boxes in pixels of the image, as left, top, width, height."""
    edges = boxes.double().cpu() / scale
    sizes = torch.cat([edges[:, :2], edges[:, 2:] - edges[:, :2]], dim=1)
    rows = zip(labels.tolist(), sizes.tolist(), scores.double().cpu().tolist(), strict=True)
    return [ScoredBox(origin, label, (x, y, w, h), score) for label, (x, y, w, h), score in rows]
