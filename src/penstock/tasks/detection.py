"""Detection: boxes around things, with their classes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np
import torch

from penstock import devices
from penstock.errors import LabelError
from penstock.feed import Field
from penstock.images import drawing, fetch_image, geometry, probe, warp_image
from penstock.kinds import KINDS
from penstock.kinds.labels import check_objects
from penstock.metrics import Boxes, DetectionScores, Found, check_extra
from penstock.models import Normalization, as_floats, build_detector, normalization, parse_detector
from penstock.models.segmentation import filled
from penstock.progress import counted
from penstock.records.schema import decode_detection
from penstock.tasks.abilities import Ability
from penstock.tasks.augment import Augment
from penstock.tasks.base import Task
from penstock.tasks.predictions import SHOWN, BoxPrediction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from torch import nn

    from penstock.datasets.description import Description, Split
    from penstock.feed import Prepare
    from penstock.images.geometry import Size, View
    from penstock.images.header import ImageInfo
    from penstock.models import Window
    from penstock.records.schema import Object
    from penstock.seeds import Generator
    from penstock.tasks.base import Collective, Tensors
    from penstock.tasks.predictions import Style
    from penstock.tasks.settings import TaskSettings
    from penstock.values import Record

    Pixels = NDArray[np.uint8]

LONGEST: Final = 640
"""Pixels of the longer side of images that nobody gave a size for."""

MOST_UNCOUNTED: Final = 512
"""Boxes in an image of a topic, which may not know, or only those of its beginning."""


@dataclass(frozen=True)
class PrepareDetection:
    """A record to `image`, uint8 (height, width, 3) RGB; `boxes`, float32 (most, 4), (x1, y1, x2, y2) in pixels of it;
    `label`, int64 (most,), -1 where there is none; `crowd`, uint8 (most,); `size`, int64 (2,), of what is not padding;
    and `scale`, float32, pixels of it per pixel of the image.

    Attributes:
        classes: the number of classes.
        most: boxes that an image may have.
        fill: the pixel that lies outside the image, RGB.
        augment: training's random view, and to what range of sizes images are brought.
        canvas: the size of an evaluation sample; None trains.
    """

    classes: int
    most: int
    fill: tuple[int, ...]
    augment: Augment
    canvas: Size | None = None

    @property
    def fields(self) -> dict[str, Field]:
        """The tensors of a sample."""
        return {
            "image": Field((*(self.canvas or self.augment.crop), 3), "uint8"),
            "boxes": Field((self.most, 4), "float32"),
            "label": Field((self.most,), "int64"),
            "crowd": Field((self.most,), "uint8"),
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
        if len(fields.objects) > self.most:
            raise LabelError(
                record.origin,
                expected=f"at most {counted(self.most, 'box')}, as the dataset's description says",
                found=str(len(fields.objects)),
                remedy="Pack or publish the data again; who sends records says how many with About(objects=...)",
            )
        view = self._view(info, record.origin, generator)
        matrix = self.augment.jitter.draw(generator) if generator and self.canvas is None else None
        fetch_image(fields.image, record.origin, info, view.affine, self.fill, out["image"], matrix)
        if generator and self.canvas is None:
            self.augment.degrade(out["image"], generator)
        edges = np.array([(o.left, o.top, o.right, o.bottom) for o in fields.objects], np.float64).reshape(-1, 4)
        least = 1.0 if self.canvas is None else 0.0  # all true boxes are scored
        moved, there = geometry.move_boxes(edges, view, info.size, self.augment.min_visibility, least)
        out["boxes"][...], out["label"][...], out["crowd"][...] = 0, -1, 0
        out["size"][...] = self._size(info, view)
        out["scale"][...] = 1 / view.affine.shrink
        kept = [(each, moved[number]) for number, each in enumerate(fields.objects) if there[number]]
        self.write_objects(kept, view, info.size, record.origin, out)

    def write_objects(
        self,
        kept: Sequence[tuple[Object, NDArray[np.float64]]],
        view: View,
        size: Size,
        origin: str,
        out: Mapping[str, NDArray[Any]],
    ) -> None:
        """Write the objects that a view shows into the sample.

        Args:
            kept: the objects, each with its box in pixels of the view.
            view: what of the image the sample shows.
            size: of the upright image.
            origin: of the record, named in errors.
            out: the sample's arrays; no object stands in them yet.
        """
        del view, size, origin
        for row, (each, box) in enumerate(kept):
            write_object(out, row, each, box)

    def _view(self, info: ImageInfo, origin: str, generator: Generator | None) -> View:
        if self.canvas is None and generator:
            return self.augment.view(info.size, generator)
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
            scale = float(tensors["scale"][row])
            there = tensors["label"][row] >= 0
            self.boxes.images.append(origin)
            label, boxes, crowd = (tensors[name][row][there] for name in ("label", "boxes", "crowd"))
            self.boxes.true += found_boxes(origin, label, boxes, crowd, scale)
            self.boxes.found += found_boxes(origin, output["labels"], output["boxes"], output["scores"], scale)

    def scores(self) -> DetectionScores:
        """Average precisions."""
        return self.boxes.scores(self.names)


def found_boxes(
    origin: str, labels: torch.Tensor, boxes: torch.Tensor, scores: torch.Tensor, scale: float
) -> list[Found]:
    """Boxes in pixels of the image, as left, top, width, height."""
    edges = boxes.double().cpu() / scale
    sizes = torch.cat([edges[:, :2], edges[:, 2:] - edges[:, :2]], dim=1)
    rows = zip(labels.tolist(), sizes.tolist(), scores.double().cpu().tolist(), strict=True)
    return [Found(origin, label, (x, y, w, h), score) for label, (x, y, w, h), score in rows]


@dataclass(frozen=True)
class Detection(Task):
    """Detection.

    The losses are torchvision's, averaged over the images of a micro-batch as it does, and weighed by their number.

    Attributes:
        name: the model, `ARCHITECTURE:BACKBONE`.
        classes: the classes' names; their index is their id.
        most: boxes that an image may have.
        augment: what training does to an image.
        canvas: the size of the largest image to evaluate, (height, width).
        weights: the backbone's: "pretrained", "none" or a file.
    """

    name: str
    classes: tuple[str, ...]
    most: int
    augment: Augment = field(default_factory=Augment)
    canvas: Size = (512, 512)
    weights: str = "none"

    kind = KINDS["detection"]
    best_metric = "map"
    evaluates_loss = False
    column_names: ClassVar[tuple[str, ...]] = ("class", "score", "xmin", "ymin", "xmax", "ymax")
    supports = frozenset(
        {
            Ability.PREDICT_IMAGES, Ability.SCORE, Ability.AUGMENTATION, Ability.BOX_VISIBILITY,
            Ability.ALTERNATING_FLIP, Ability.MODELS, Ability.PRETRAINED,
        }
    )  # fmt: skip

    @classmethod
    def of(cls, settings: TaskSettings, described: Description, split: Split, *, grows: bool = False) -> Self:
        """The task for a dataset."""
        del split
        stated = max(each.objects for each in described.splits.values())
        most = max(stated, MOST_UNCOUNTED) if grows else stated or MOST_UNCOUNTED
        model = settings.model
        return cls(model.name, described.classes, most, settings.augment, weights=model.weights)

    @classmethod
    def defaults(cls, weights: str = "") -> Mapping[str, Any]:
        """Those of fine-tuning a detector."""
        return {
            "model.name": "fasterrcnn:resnet50",
            "augment.scale": (0.5, 1.5),
            "optimizer.lr": 0.005,
            "optimizer.schedule": "cosine",
            "optimizer.grad_clip": 10.0,
            "train.batch": 8,
            "train.freeze_bn": weights != "none",  # without any, norms have no statistics to keep
        }

    @classmethod
    def sizes(cls, augment: Augment, split: Split) -> dict[str, Any]:
        """Images are brought to one length of their longer side, at most 640 pixels, and a crop holds all of the
        largest one (letterbox).
        """
        longest = min(LONGEST, max(split.height, split.width))
        sides = augment.resize_range or (longest, longest)
        height, width = geometry.fit_range((split.height, split.width), *sides)
        return {"augment.resize_range": sides, "augment.crop": (filled(height), filled(width))}

    ignore = drawing.OBJECTS

    @cached_property
    def normalization(self) -> Normalization:
        """What the backbone expects of its input."""
        return normalization(parse_detector(self.name)[1])

    def prepare(self, *, train: bool) -> Prepare:
        """A random view for training, the whole image for evaluation."""
        canvas = None if train else self.canvas
        return PrepareDetection(len(self.classes), self.most, self.normalization.fill, self.augment, canvas)

    def for_images(self, height: int, width: int, slices: int = 0) -> Self:
        """The task with a canvas that images of up to a size fit."""
        del slices
        if self.augment.resize_range:
            height = width = self.augment.resize_range[1]
        return replace(self, canvas=(filled(height), filled(width)))

    def model(self) -> nn.Module:
        """A new model."""
        return build_detector(self.name, len(self.classes), self.weights)

    def inputs(self, tensors: Tensors) -> dict[str, torch.Tensor]:
        """What `Detector` takes; crowds are not learnt."""
        image = self.normalization.apply(as_floats(tensors["image"]))
        label = torch.where(tensors["crowd"] > 0, -1, tensors["label"])
        return {"image": image, "size": tensors["size"], "boxes": tensors["boxes"], "label": label}

    def blank(self, height: int, width: int, device: torch.device) -> dict[str, torch.Tensor]:
        """What `inputs` wants beside one image of a size of which nothing is known."""
        return {
            "size": torch.tensor([[height, width]], device=device),
            "boxes": torch.zeros((1, 0, 4), device=device),
            "label": torch.zeros((1, 0), dtype=torch.int64, device=device),
            "crowd": torch.zeros((1, 0), dtype=torch.uint8, device=device),
        }

    def mask_padding(self, tensors: Tensors, weight: torch.Tensor) -> Tensors:
        """Padding samples have no boxes, and are as large as the canvas."""
        real = weight.to(tensors["label"].device) > 0
        size = torch.tensor(tensors["image"].shape[1:3], device=real.device)
        return {
            **tensors,
            "label": torch.where(real.unsqueeze(1), tensors["label"], -1),
            "size": torch.where(real.unsqueeze(1), tensors["size"], size),
            "scale": torch.where(real, tensors["scale"], 1.0),
        }

    def count(self, tensors: Tensors) -> torch.Tensor:
        """The number of images."""
        return torch.tensor([len(tensors["label"])], device=tensors["label"].device)

    def loss(self, outputs: Any, tensors: Tensors) -> torch.Tensor:
        """The sum of the losses over the images."""
        del tensors
        total: torch.Tensor = outputs.sum().unsqueeze(0)
        return total

    def metric(self) -> DetectionMetric:
        """Nothing found yet.

        Raises:
            RecipeError: what scores boxes is not installed.
        """
        check_extra()
        return DetectionMetric(self.classes)

    def classes_of(self, record: Record) -> set[int]:
        """The classes of a record's boxes."""
        return {each.label for each in decode_detection(record).objects}

    @property
    def legend(self) -> tuple[str, ...]:
        """Boxes are drawn in colours."""
        return self.classes

    def draw(
        self,
        arrays: Mapping[str, NDArray[Any]],
        outputs: Any = None,
        record: Record | None = None,
    ) -> Pixels:
        """The image with its boxes and, beside it, with those that were found with a score above 0.3."""
        del record
        height, width = (int(side) for side in arrays["size"])
        image, there = np.ascontiguousarray(arrays["image"][:height, :width]), arrays["label"] >= 0
        drawn = [drawing.boxes(image, arrays["boxes"][there], arrays["label"][there])]
        if outputs is not None:
            sure = outputs["scores"] > SHOWN
            found = {name: value[sure].float().cpu().numpy() for name, value in outputs.items()}
            words = [f"{self.classes[int(i)]} {s:.0%}" for i, s in zip(found["labels"], found["scores"], strict=True)]
            drawn.append(drawing.boxes(image, found["boxes"], found["labels"].astype(np.int64), words))
        return np.hstack(drawn)

    @torch.inference_mode()
    def predict(
        self,
        model: nn.Module,
        pixels: Pixels,
        *,
        device: torch.device,
        precision: str = "float32",
        window: Window | None = None,
    ) -> BoxPrediction:
        """The boxes in one image, the highest score first; arguments as for `Task.predict`, without a window."""
        del window
        found, scale = self.find(model, pixels, device, precision)
        return BoxPrediction(pixels, found["boxes"] * scale, found["scores"], found["labels"], self.classes)

    def find(
        self, model: nn.Module, pixels: Pixels, device: torch.device, precision: str
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.float32]]:
        """What the model finds in one image, as arrays, and pixels of the image per pixel that the model saw: float32
        (4,), x, y, x, y.
        """
        height, width = self.augment.fitted((pixels.shape[0], pixels.shape[1]))
        shown = np.empty((height, width, 3), np.uint8)
        view = geometry.resize((pixels.shape[0], pixels.shape[1]), (height, width))
        warp_image(pixels, view.affine, self.normalization.fill, shown)
        tensors = {"image": torch.from_numpy(shown).to(device).unsqueeze(0), **self.blank(height, width, device)}
        with devices.autocast(device, precision):
            (output,) = model(self.inputs(tensors))
        found = {name: value.cpu().numpy() for name, value in output.items()}
        found["boxes"] = found["boxes"].astype(np.float32)
        return found, np.array([pixels.shape[1] / width, pixels.shape[0] / height] * 2, np.float32)

    def prediction_suffixes(self, style: Style) -> tuple[str, ...]:
        """The drawing."""
        del style
        return ("-boxes",)

    def explain(self, table: str, rows: int, drawn: int, style: Style) -> str:
        """What the files hold."""
        return (
            f"{table} holds all {counted(rows, 'box')}, in pixels; NAME-boxes.png shows the {drawn:,} that score above "
            f"{style.score:g}"
        )
