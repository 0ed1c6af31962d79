"""Classification: every image gets a class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from numpy.typing import NDArray
from torch import nn

from penstock.datasets.description import Description, SplitInfo
from penstock.errors import RecipeError
from penstock.feed import Prepare
from penstock.images import RGB, PixelFormat, drawing, shown, warp_image
from penstock.images.geometry import Size
from penstock.kinds import KINDS
from penstock.losses import Mixture, SoftCrossEntropy
from penstock.models import Normalization, as_floats, build_classifier, classifier_normalization
from penstock.settings import Augment, Objective, Regularize, TaskSettings
from penstock.settings.views import PadCrop
from penstock.tasks import regularize
from penstock.tasks.abilities import Ability
from penstock.tasks.base import Task
from penstock.tasks.classes import ClassificationMetric, PrepareClassification
from penstock.tasks.exported import Graph, class_graph
from penstock.tasks.normalizing import of_data, usual_values
from penstock.tasks.objective import mixture, weights_of
from penstock.tasks.predictions import NAMED, ClassPrediction, Style
from penstock.tasks.resized import ImageToClass
from penstock.tasks.roles import Drawing, Exporter, Predictor, ReadyModel, Tensors
from penstock.values import Pixels, Record

PADDING: Final = -1
"""The label of what does not count."""

_SIDE: Final = 192  # of a drawn image
_MIN: Final = 0.005  # fraction of a class that is worth a word


@dataclass(frozen=True)
class Classification(Task):
    """Classification.

    Attributes:
        name: the model: a timm backbone, or a network for CIFAR.
        classes: the classes' names; their index is their id.
        augment: what training does to an image; evaluation shows its middle.
        regularize: what else it does.
        weights: the backbone's: "pretrained", "none" or a file.
        objective: the losses: cross-entropy and focal.
        class_weights: of cross-entropy, one per class or none.
        pixel_format: channels and bits of the images.
        statistics: of the data, by which images are normalised; None takes the backbone's.
    """

    name: str
    classes: tuple[str, ...]
    augment: Augment = field(default_factory=Augment)
    regularize: Regularize = Regularize()  # noqa: RUF009 - frozen
    weights: str = "none"
    objective: Objective = field(default_factory=Objective)
    class_weights: tuple[float, ...] = ()
    pixel_format: PixelFormat = RGB
    statistics: Normalization | None = None

    kind = KINDS["classification"]
    small_model = "resnet18"
    best_metric = "top1"
    ignore = PADDING
    supports = frozenset(
        {
            Ability.TTA, Ability.SHIFT_TTA, Ability.LOSSES, Ability.REGULARIZE, Ability.AUGMENTATION,
            Ability.CENTER_CROP, Ability.REFLECTED_BORDER, Ability.MODELS,
            Ability.PRETRAINED, Ability.DATA_NORMALIZATION,
        }
    )  # fmt: skip

    @classmethod
    def of(cls, settings: TaskSettings, described: Description, split: SplitInfo, *, grows: bool = False) -> Self:
        """The task for a dataset."""
        _check_losses(settings.loss, settings.regularize)
        weights = weights_of(settings.loss, described.classes, split.per_class, split.image_pixels)
        model = settings.model
        return cls(
            model.name,
            described.classes,
            settings.augment,
            settings.regularize,
            model.weights,
            settings.loss,
            weights,
            described.pixel_format,
            of_data(settings, described),
        )

    @classmethod
    def defaults(cls, weights: str = "") -> Mapping[str, Any]:
        """Those of training on ImageNet."""
        return {
            "model.name": "resnet50",
            "augment.crop": (224, 224),
            "augment.view.name": "resized-crop",
            "loss.label_smoothing": 0.1,
            "optimizer.schedule.name": "cosine",
            "optimizer.weight_decay": 5e-5,
            "train.batch": 64,
        }

    @cached_property
    def normalization(self) -> Normalization:
        """What the network expects of its input."""
        return self.statistics or classifier_normalization(self.name).over(self.pixel_format.channels)

    @property
    def fill(self) -> tuple[int, ...] | None:
        """The pixel that lies outside images; None mirrors them at their edges."""
        return None if self.augment.border == "reflect" else self._mean_pixel

    @property
    def _mean_pixel(self) -> tuple[int, ...]:
        return self.normalization.mean_pixel(self.pixel_format.highest)

    def prepare(self, *, train: bool) -> Prepare:
        """A random view for training, the middle for evaluation."""
        return PrepareClassification(
            len(self.classes), self.fill, self.augment, train, self.regularize, self.pixel_format
        )

    def model(self) -> nn.Module:
        """A new model."""
        return build_classifier(self.name, len(self.classes), self.weights, self.pixel_format.channels)

    def logits_shape(self, size: Size) -> tuple[int, ...]:
        """A channel for every class."""
        return 1, len(self.classes)

    def inputs(self, tensors: Tensors) -> torch.Tensor:
        """Float32 (n, channels, h, w), normalised, and in training changed as the draws say."""
        images = as_floats(tensors["image"])
        if "draws" not in tensors:
            return self.normalization.apply(images)
        draws = tensors["draws"]
        return regularize.mixed(self.normalization.apply(regularize.toned(images, draws)), draws)

    def mask_padding(self, tensors: Tensors, weight: torch.Tensor) -> Tensors:
        """Padding gets a label that does not count. Neither it nor the partner of it is mixed."""
        real = weight.to(tensors["label"].device) > 0
        changed = {"label": torch.where(real, tensors["label"], PADDING)}
        if "draws" in tensors:
            changed["draws"] = regularize.unmixed(tensors["draws"], ~regularize.whole_pairs(real))
        return {**tensors, **changed}

    def kept(self, real: torch.Tensor) -> torch.Tensor:
        """Whole pairs first, so that their images stay neighbours; then images without a partner."""
        paired = regularize.whole_pairs(real)
        return torch.cat([torch.nonzero(paired)[:, 0], torch.nonzero(real & ~paired)[:, 0]])

    @cached_property
    def losses(self) -> Mixture:
        """The losses of whole labels."""
        return mixture(self.objective, self.class_weights)

    def count(self, tensors: Tensors) -> torch.Tensor:
        """What each loss is divided by: images, or the sum of their weights."""
        if self.regularize.mixes and "draws" in tensors:
            return self._soft.count(self.targets(tensors)).unsqueeze(0)
        return self.losses.count(tensors["label"].view(-1, 1, 1), PADDING)

    def loss(self, outputs: torch.Tensor, tensors: Tensors) -> torch.Tensor:
        """The sum of each loss."""
        if self.regularize.mixes and "draws" in tensors:
            return self._soft.sum(outputs, self.targets(tensors)).unsqueeze(0)
        return self.losses.sum(outputs.view(*outputs.shape, 1, 1), tensors["label"].view(-1, 1, 1), PADDING)

    @cached_property
    def _soft(self) -> SoftCrossEntropy:
        return SoftCrossEntropy(self.class_weights, self.objective.label_smoothing, self.objective.cross_entropy)

    def targets(self, tensors: Tensors) -> torch.Tensor:
        """Probabilities of the classes, float32 (n, classes); all 0 where nothing counts."""
        label = tensors["label"]
        whole = F.one_hot(label.clamp(min=0), len(self.classes)).float() * (label >= 0).unsqueeze(1)
        height, width = tensors["image"].shape[1:3]
        return regularize.mixed_targets(whole, tensors["draws"], (height, width))

    def metric(self) -> ClassificationMetric:
        """A fresh counter of predictions."""
        return ClassificationMetric(self.classes)

    @property
    def drawing(self) -> ClassDrawing:
        """Draws images above the names of their classes."""
        return ClassDrawing(self)

    @property
    def predictor(self) -> ClassPredictor:
        """Predicts probabilities of classes."""
        return ClassPredictor(self)

    @property
    def exporter(self) -> ClassExporter:
        """Makes graphs from images to classes and probabilities."""
        return ClassExporter(self)


@dataclass(frozen=True)
class ClassDrawing(Drawing):
    """Draws images, whose classes are words below them."""

    task: Classification

    panels = ""

    def seen(self, tensors: Tensors) -> Tensors:
        """The images mixed, erased and toned, and `target`, the fractions of their classes."""
        if "draws" not in tensors:
            return tensors
        draws, fill = tensors["draws"], torch.tensor(self.task.normalization.fill).view(1, -1, 1, 1)
        toned = regularize.toned(as_floats(tensors["image"]), draws).clamp(0, 255)
        mixed = regularize.mixed(toned - fill, draws) + fill
        dtype = tensors["image"].dtype
        image = (mixed * (self.task.pixel_format.highest / 255)).round().to(dtype).permute(0, 2, 3, 1)
        return {**tensors, "image": image, "target": self.task.targets(tensors)}

    def draw(
        self, arrays: Mapping[str, NDArray[Any]], outputs: torch.Tensor | None = None, record: Record | None = None
    ) -> Pixels:
        """The image alone: its class is a word."""
        return drawing.fit(np.ascontiguousarray(shown(arrays["image"])), _SIDE)

    def words(self, arrays: Mapping[str, NDArray[Any]], outputs: torch.Tensor | None = None) -> tuple[str, ...]:
        """Its class, or the classes that are mixed in it, and the prediction, which is marked if it is wrong."""
        target = arrays["target"] if "target" in arrays else self._certain(int(arrays["label"]))
        words = [" + ".join(self._named_fraction(int(i), target[i]) for i in np.flatnonzero(target > _MIN))]
        if outputs is not None:
            probability, predicted = outputs.float().softmax(dim=0).max(dim=0)
            wrong = "" if int(predicted) == int(np.argmax(target)) else "WRONG "
            words.append(f"{wrong}prediction: {self.task.classes[int(predicted)]} ({float(probability):.0%})")
        return tuple(words)

    def _named_fraction(self, label: int, fraction: float) -> str:
        return f"{self.task.classes[label]}{'' if fraction > 1 - _MIN else f' {fraction:.0%}'}"

    def _certain(self, label: int) -> NDArray[Any]:
        """The fractions of the classes in an image that is not mixed; none in a hole of a topic."""
        fractions = np.zeros(len(self.task.classes))
        if label != PADDING:
            fractions[label] = 1
        return fractions


@dataclass(frozen=True)
class ClassPredictor(Predictor):
    """Predicts a probability for every class."""

    task: Classification

    @property
    def columns(self) -> tuple[str, ...]:
        """The most probable classes with their probabilities."""
        ranks = range(1, min(NAMED, len(self.task.classes)) + 1)
        return tuple(cell for rank in ranks for cell in (f"class{rank}", f"probability{rank}"))

    @torch.inference_mode()
    def predict(self, ready: ReadyModel, pixels: Pixels) -> ClassPrediction:
        """The probabilities of one image."""
        view = self.task.augment.middle((pixels.shape[0], pixels.shape[1]))
        seen = np.empty((*view.size, pixels.shape[2]), pixels.dtype)
        warp_image(pixels, view.affine, self.task.fill, seen)
        with ready.autocast():
            logits = ready.model(self.task.inputs({"image": torch.from_numpy(seen).to(ready.device).unsqueeze(0)}))
        found: NDArray[np.float32] = logits.float().softmax(dim=1)[0].cpu().numpy()
        return ClassPrediction(shown(pixels), found, self.task.classes)

    def explain(self, table: str, rows: int, drawn: int, style: Style) -> str:
        """What the table holds."""
        return f"{table} holds the most likely classes of every image, the likeliest first"


@dataclass(frozen=True)
class ClassExporter(Exporter):
    """Graphs from images to classes and probabilities."""

    task: Classification

    def input_note(self, size: Size | None) -> str:
        """The middle of an image."""
        augment = self.task.augment
        return augment.view.describe_middle(size or augment.crop)

    def graph(self, model: nn.Module, size: Size) -> Graph:
        """Images of one size to classes."""
        shape = (*size, self.task.pixel_format.channels)
        return class_graph(self.task, model, shape, usual_values(self.task.statistics, self.task.pixel_format))

    def whole_graph(self, model: nn.Module, size: Size) -> Graph | None:
        """One image of any size to its class, resized inside; none where images are padded and not resized."""
        view = self.task.augment.view
        if isinstance(view, PadCrop):
            return None
        module = ImageToClass(self.task, model, size, view.crop_pct).eval()
        return replace(self.graph(model, size), module=module, any_size=True)


def _check_losses(loss: Objective, regularize: Regularize) -> None:
    """An image has one label: what needs more than one, or whole labels, is refused."""
    names = ["dice", "jaccard", "tversky", "lovasz", "ohem_warmup_steps", "ohem_threshold"]
    if regularize.mixes:
        names += ["focal", "custom"]
    set_ = [f"loss.{name}={getattr(loss, name)}" for name in names if getattr(loss, name)]
    if loss.ohem_ratio < 1:
        set_.append(f"loss.ohem_ratio={loss.ohem_ratio}")
    if set_ or not (loss.cross_entropy or loss.focal or loss.custom):
        mixed = " of mixed images" if regularize.mixes else ""
        raise RecipeError(
            "loss",
            expected=f"cross_entropy{'' if mixed else ' or focal'}, for one label an image{mixed}",
            found=", ".join(set_) or "neither",
            remedy="Leave out the others",
        )
