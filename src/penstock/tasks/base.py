"""The contract between a task and everything that trains, evaluates, predicts or draws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import nn

from penstock.datasets.description import Description, SplitInfo
from penstock.feed import Prepare
from penstock.images import RGB, PixelFormat
from penstock.images.geometry import Size
from penstock.kinds import Kind
from penstock.models.segmentation import STRIDE
from penstock.settings import Augment, TaskSettings
from penstock.settings.views import ScaleCrop
from penstock.tasks.abilities import Ability
from penstock.tasks.roles import Drawing, Exporter, Predictor, Tensors
from penstock.tasks.scoring import Metric


class Task(ABC):
    """Everything that depends on what is learnt. Nobody else asks which task it is.

    There may be several losses. Each is a sum, and has a count that follows from the labels alone; the session divides
    by the count over the global batch.
    """

    kind: ClassVar[Kind]
    """The kind of record that is learnt from."""

    supports: ClassVar[frozenset[Ability]] = frozenset()
    """The settings and options that it knows."""

    classes: tuple[str, ...]
    """The classes' names; their index is their id."""

    ignore: int
    """The label that does not count."""

    best_metric: str
    """The name in `Scores.summary()` that decides which checkpoint is best."""

    lower_is_better: ClassVar[frozenset[str]] = frozenset()
    """The names of the scores of which smaller values are better."""

    small_model: ClassVar[str] = ""
    """A small network, to try things with on a CPU; "" where there is no choice."""

    evaluates_loss = True
    """Whether the model gives what the losses need in evaluation too."""

    evaluates_whole: ClassVar[bool] = False
    """Whether evaluation shows the network whole images, and not those of training's size."""

    pixel_format: PixelFormat = RGB
    """Channels and bits of the images."""

    @classmethod
    @abstractmethod
    def of(cls, settings: TaskSettings, described: Description, split: SplitInfo, *, grows: bool = False) -> Self:
        """The task for a dataset.

        Args:
            settings: the sections of the recipe that are about the task.
            described: the dataset.
            split: the training split, whose counts of every class give them weights.
            grows: whether records may come that nobody has counted yet.

        Raises:
            RecipeError: a setting does not fit the dataset.
        """

    @classmethod
    def defaults(cls, weights: str = "") -> Mapping[str, Any]:
        """Settings of a recipe that are better for this task than the general ones, named as `section.key`."""
        return {}

    @classmethod
    def sizes(cls, augment: Augment, split: SplitInfo) -> dict[str, Any]:
        """Settings of the crop that suit images, where nobody gave a crop: no larger than the largest image, so that
        little of a sample is padding, in multiples of 32.

        Args:
            augment: with the defaults of the task.
            split: what is learnt from, with the size of its largest image.
        """
        if not isinstance(augment.view, ScaleCrop):
            return {}
        sides = zip(augment.crop, (split.height, split.width), strict=True)
        return {"augment.crop": tuple(min(usual, max(STRIDE, side // STRIDE * STRIDE)) for usual, side in sides)}

    @abstractmethod
    def prepare(self, *, train: bool) -> Prepare:
        """What turns a record into a sample."""

    @abstractmethod
    def model(self) -> nn.Module:
        """A new model, with its initial weights."""

    def logits_shape(self, size: Size) -> tuple[int, ...] | None:
        """The shape of what a network must give for one image of a (height, width); None where trying says nothing."""
        return None

    @abstractmethod
    def inputs(self, tensors: Tensors) -> Any:
        """What the model takes, its images normalised on the device."""

    @abstractmethod
    def mask_padding(self, tensors: Tensors, weight: torch.Tensor) -> Tensors:
        """The batch with the labels of samples of weight 0 turned into ones that do not count."""

    def kept(self, real: torch.Tensor) -> torch.Tensor:
        """The indices of a batch's samples that are no padding, in the order in which they are learnt.

        Args:
            real: bool (n,), true for samples that are no padding.
        """
        return torch.nonzero(real)[:, 0]

    @abstractmethod
    def count(self, tensors: Tensors) -> torch.Tensor:
        """What each loss is divided by, of shape (losses,), on the device."""

    @abstractmethod
    def loss(self, outputs: Any, tensors: Tensors) -> torch.Tensor:
        """The sum of each loss over what counts: float32 of shape (losses,)."""

    def after(self, step: int) -> Task:
        """The task as it is after some finished steps, where the losses depend on them."""
        return self

    @abstractmethod
    def metric(self) -> Metric:
        """A fresh counter of predictions."""

    def for_images(self, height: int, width: int, slices: int = 0) -> Self:
        """The task ready to evaluate images of up to a size, or volumes of up to so many slices of it."""
        return self

    def with_segments(self) -> Self | None:
        """The task with boundary IoU and panoptic quality among its scores; None where it has none."""
        return None

    @property
    @abstractmethod
    def drawing(self) -> Drawing:
        """Draws samples and predictions."""

    @property
    def predictor(self) -> Predictor | None:
        """Predicts images; None where it does not."""
        return None

    @property
    def exporter(self) -> Exporter | None:
        """Makes graphs for other programs; None where models are not exported."""
        return None
