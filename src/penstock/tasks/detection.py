"""Detection: boxes around things, with their classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from penstock.datasets.description import Description, SplitInfo
from penstock.feed import Prepare
from penstock.images import RGB, PixelFormat, drawing, geometry, shown, warp_image
from penstock.images.geometry import Size
from penstock.kinds import KINDS
from penstock.metrics import check_extra
from penstock.models import DETECTORS, Detector, Normalization, as_floats, build_detector, normalization, parse_detector
from penstock.models.segmentation import filled
from penstock.progress import counted
from penstock.settings import Augment, TaskSettings
from penstock.settings.augment import QUARTERS
from penstock.settings.predicting import SHOWN
from penstock.tasks.abilities import Ability
from penstock.tasks.base import Task
from penstock.tasks.boxes import DetectionMetric, PrepareDetection
from penstock.tasks.exported import Graph, ImageToObjects
from penstock.tasks.normalizing import of_data, usual_values
from penstock.tasks.predictions import BoxPrediction, Style
from penstock.tasks.roles import Drawing, Exporter, Predictor, ReadyModel, Tensors
from penstock.values import Pixels, Record

LONGEST: Final = 640
"""Pixels of the longer side of images that nobody gave a size for."""

MAX_UNCOUNTED: Final = 512
"""Boxes in an image of a topic, which may not know, or only those of its beginning."""


@dataclass(frozen=True)
class Detection(Task):
    """Detection.

    The losses are torchvision's, averaged over the images of a micro-batch as it does, and weighed by their number.

    Attributes:
        name: the model, `ARCHITECTURE:BACKBONE`.
        classes: the classes' names; their index is their id.
        max_boxes: boxes that an image may have.
        augment: what training does to an image.
        canvas: the size of the largest image to evaluate, (height, width).
        weights: the backbone's: "pretrained", "none" or a file.
        pixel_format: channels and bits of the images.
        statistics: of the data, by which images are normalised; None takes the backbone's.
    """

    name: str
    classes: tuple[str, ...]
    max_boxes: int
    augment: Augment = field(default_factory=Augment)
    canvas: Size = (512, 512)
    weights: str = "none"
    pixel_format: PixelFormat = RGB
    statistics: Normalization | None = None

    kind = KINDS["detection"]
    small_model = "ssd:resnet18"
    gives_masks = False
    """Whether the pixels of objects are predicted too."""
    networks: ClassVar[Mapping[str, str]] = DETECTORS
    """The architectures that a model may have."""
    samples: ClassVar[type[PrepareDetection]] = PrepareDetection
    """What makes samples of records."""
    best_metric = "map"
    evaluates_loss = False
    supports = frozenset(
        {
            Ability.SCORE, Ability.AUGMENTATION, Ability.BOX_VISIBILITY, Ability.MODELS,
            Ability.PRETRAINED, Ability.DATA_NORMALIZATION, Ability.MOSAIC,
        }
    )  # fmt: skip

    @classmethod
    def of(cls, settings: TaskSettings, described: Description, split: SplitInfo, *, grows: bool = False) -> Self:
        """The task for a dataset."""
        stated = max(each.objects for each in described.splits.values())
        max_boxes = max(stated, MAX_UNCOUNTED) if grows else stated or MAX_UNCOUNTED
        max_boxes *= QUARTERS if settings.augment.mosaic else 1
        model = settings.model
        return cls(
            model.name,
            described.classes,
            max_boxes,
            settings.augment,
            weights=model.weights,
            pixel_format=described.pixel_format,
            statistics=of_data(settings, described),
        )

    @classmethod
    def defaults(cls, weights: str = "") -> Mapping[str, Any]:
        """Those of fine-tuning a detector."""
        return {
            "model.name": "fasterrcnn:resnet50",
            "augment.view.scale": (0.5, 1.5),
            "optimizer.lr": 0.005,
            "optimizer.schedule.name": "cosine",
            "train.grad_clip": 10.0,
            "train.batch": 8,
            "train.freeze_bn": weights != "none",  # without any, norms have no statistics to keep
        }

    @classmethod
    def sizes(cls, augment: Augment, split: SplitInfo) -> dict[str, Any]:
        """The longer side becomes 640 pixels at most, and a crop holds all of the largest image (letterbox)."""
        longest = min(LONGEST, max(split.height, split.width))
        sides = augment.resize_range or (longest, longest)
        height, width = geometry.fit_range((split.height, split.width), *sides)
        return {"augment.resize_range": sides, "augment.crop": (filled(height), filled(width))}

    ignore = drawing.OBJECTS

    @cached_property
    def normalization(self) -> Normalization:
        """What the backbone expects of its input."""
        return self.statistics or normalization(parse_detector(self.name, self.networks)[1])

    @property
    def fill(self) -> tuple[int, ...]:
        """The pixel that lies outside images."""
        return self.normalization.mean_pixel(self.pixel_format.highest)

    def prepare(self, *, train: bool) -> Prepare:
        """A random view for training, the whole image for evaluation."""
        canvas = None if train else self.canvas
        return self.samples(len(self.classes), self.max_boxes, self.fill, self.augment, canvas, self.pixel_format)

    def for_images(self, height: int, width: int, slices: int = 0) -> Self:
        """The task with a canvas that images of up to a size fit."""
        if self.augment.resize_range:
            height = width = self.augment.resize_range[1]
        return replace(self, canvas=(filled(height), filled(width)))

    def model(self) -> nn.Module:
        """A new model."""
        return build_detector(self.name, len(self.classes), self.weights, self.networks)

    def inputs(self, tensors: Tensors) -> dict[str, torch.Tensor]:
        """What `Detector` takes; crowds are not learnt."""
        image = self.normalization.apply(as_floats(tensors["image"]))
        label = torch.where(tensors["crowd"] > 0, -1, tensors["label"])
        return {"image": image, "size": tensors["size"], "boxes": tensors["boxes"], "label": label}

    def blank(self, height: int, width: int, device: torch.device) -> dict[str, torch.Tensor]:
        """The tensors that `inputs` needs beside the image, for one image of a size and without labels."""
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
        total: torch.Tensor = outputs.sum().unsqueeze(0)
        return total

    def metric(self) -> DetectionMetric:
        """Nothing found yet.

        Raises:
            RecipeError: what scores boxes is not installed.
        """
        check_extra()
        return DetectionMetric(self.classes)

    @property
    def drawing(self) -> BoxDrawing:
        """Draws boxes."""
        return BoxDrawing(self.classes)

    @property
    def predictor(self) -> ObjectPredictor:
        """Predicts boxes."""
        return BoxPredictor(self)

    @property
    def exporter(self) -> DetectorExporter:
        """Makes graphs from an image to its objects."""
        return DetectorExporter(self)


@dataclass(frozen=True)
class BoxDrawing(Drawing):
    """Draws the boxes of objects.

    Attributes:
        classes: the classes' names; their index is their id.
    """

    classes: tuple[str, ...]

    panels = "labels, prediction"
    ignore = drawing.OBJECTS

    @property
    def legend(self) -> tuple[str, ...]:
        """All classes."""
        return self.classes

    def draw(self, arrays: Mapping[str, NDArray[Any]], outputs: Any = None, record: Record | None = None) -> Pixels:
        """The image with its objects and, beside it, with those that were found with a score above 0.3."""
        height, width = (int(side) for side in arrays["size"])
        image, there = np.ascontiguousarray(shown(arrays["image"][:height, :width])), arrays["label"] >= 0
        drawn = [self.draw_true(image, arrays, there)]
        if outputs is not None:
            sure = outputs["scores"] > SHOWN
            found = {name: value[sure].cpu().numpy() for name, value in outputs.items()}
            words = [f"{self.classes[i]} {s:.0%}" for i, s in zip(found["labels"], found["scores"], strict=True)]
            drawn.append(self.draw_found(image, found, words))
        return np.hstack(drawn)

    def draw_true(self, image: Pixels, arrays: Mapping[str, NDArray[Any]], there: NDArray[np.bool_]) -> Pixels:
        """An image with its objects, which stand in some rows of a sample's arrays."""
        return drawing.boxes(image, arrays["boxes"][there], arrays["label"][there])

    def draw_found(self, image: Pixels, found: Mapping[str, NDArray[Any]], words: Sequence[str]) -> Pixels:
        """An image with what the network found in it, the highest score first, and a word for each."""
        return drawing.boxes(image, found["boxes"], found["labels"], words)


@dataclass(frozen=True)
class ObjectPredictor(Predictor):
    """Predicts objects."""

    task: Detection

    writes_objects = True

    @property
    def columns(self) -> tuple[str, ...]:
        """The class of an object, its score, and the edges of its box."""
        return ("class", "score", "xmin", "ymin", "xmax", "ymax")

    def find(self, ready: ReadyModel, pixels: Pixels) -> tuple[dict[str, NDArray[Any]], NDArray[np.float32]]:
        """What the model finds in one image, as arrays, and its scale to the image: float32 (4,), x, y, x, y."""
        height, width = self.task.augment.fitted((pixels.shape[0], pixels.shape[1]))
        seen = np.empty((height, width, pixels.shape[2]), pixels.dtype)
        view = geometry.resize((pixels.shape[0], pixels.shape[1]), (height, width))
        warp_image(pixels, view.affine, self.task.fill, seen)
        image = torch.from_numpy(seen).to(ready.device).unsqueeze(0)
        with ready.autocast():
            inputs = self.task.inputs({"image": image, **self.task.blank(height, width, ready.device)})
            (output,) = ready.model(inputs)
        found = {name: value.cpu().numpy() for name, value in output.items()}
        found["boxes"] = found["boxes"].astype(np.float32)
        return found, np.array([pixels.shape[1] / width, pixels.shape[0] / height] * 2, np.float32)


@dataclass(frozen=True)
class BoxPredictor(ObjectPredictor):
    """Predicts boxes."""

    @torch.inference_mode()
    def predict(self, ready: ReadyModel, pixels: Pixels) -> BoxPrediction:
        """The boxes in one image, the highest score first."""
        found, scale = self.find(ready, pixels)
        return BoxPrediction(shown(pixels), found["boxes"] * scale, found["scores"], found["labels"], self.task.classes)

    def suffixes(self, style: Style) -> tuple[str, ...]:
        """The drawing."""
        return ("-boxes",)

    def explain(self, table: str, rows: int, drawn: int, style: Style) -> str:
        """What the files hold."""
        return (
            f"{table} holds {counted(rows, 'candidate box')}, in pixels; NAME-boxes.png shows the {drawn:,} that score "
            f"above {style.score:g}, and predictions.json holds them as COCO does"
        )


@dataclass(frozen=True)
class DetectorExporter(Exporter):
    """Graphs from one image to the objects in it."""

    task: Detection

    any_size = True

    def input_note(self, size: Size | None) -> str:
        """Whole images."""
        return "one whole image at a time, of any size"

    def graph(self, model: nn.Module, size: Size) -> Graph:
        """One image of any size, to the objects in it."""
        assert isinstance(model, Detector)  # noqa: S101 - `model` makes no other
        task = self.task
        module = ImageToObjects(model, task.normalization, task.augment.resize_range, masks=task.gives_masks)
        shape, values = (*size, task.pixel_format.channels), usual_values(task.statistics, task.pixel_format)
        return Graph(
            module.eval(), module.outputs, shape, any_size=True, bits=task.pixel_format.bits, values=values,
            axes=module.axes,
        )  # fmt: skip
