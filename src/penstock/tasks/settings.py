"""The settings of a recipe that a task is made from."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from penstock.errors import RecipeError
from penstock.models import DeepLabConfig
from penstock.tasks.augment import Augment
from penstock.tasks.objective import Objective
from penstock.tasks.regularize import Regularize

if TYPE_CHECKING:
    from collections.abc import Mapping

Options = TypeVar("Options")


@dataclass(frozen=True)
class Model:
    """What learns.

    Attributes:
        name: Model: ARCHITECTURE:BACKBONE for segmentation, matting, detection and instances, BACKBONE (or
            cifar10-fast, cifar10-tutorial) for classification, unet3d for volumes; or FILE.py:NAME, or
            package.module:NAME.
        weights: Backbone weights: "pretrained", "none" or a file. Or weights of a whole network: "coco" for fasterrcnn,
            maskrcnn, retinanet and fcos with resnet50, or OWNER/NAME for a network of segmentation_models.pytorch on
            the Hugging Face hub, such as smp-hub/segformer-b0-512x512-ade-160k for segformer:mit_b0.
        deeplab: Parts of `deeplab:BACKBONE`.
        decoder: Options of the decoder of a network of segmentation_models.pytorch, by the names that its classes give
            them, such as decoder_channels. Weights of the hub bring those of their network.
        normalization: Mean and standard deviation that images are normalised with: "backbone" takes those that the
            backbone was trained with, "data" those of the training images. The default is "data" for images of 16 bits
            or of other channels than RGB.
    """

    name: str = "deeplabv3plus:resnet50"
    weights: str = "pretrained"
    deeplab: DeepLabConfig = field(default_factory=DeepLabConfig)
    decoder: dict[str, Any] = field(default_factory=dict)
    normalization: Literal["backbone", "data"] = "backbone"


@dataclass(frozen=True)
class TaskSettings:
    """The sections of a recipe that a task is made from.

    Attributes:
        model: the network.
        augment: what training does to an image.
        regularize: what training does to a batch of images.
        loss: what training makes small.
        options: of a task of somebody's own.
    """

    model: Model = field(default_factory=Model)
    augment: Augment = field(default_factory=Augment)
    regularize: Regularize = field(default_factory=Regularize)
    loss: Objective = field(default_factory=Objective)
    options: Mapping[str, Any] = field(default_factory=dict)

    def typed(self, settings: type[Options]) -> Options:
        """The options of a task of somebody's own as its dataclass of settings, whose fields have types and bounds.

        Raises:
            RecipeError: one is not known, or its value does not fit.
        """
        known = [each.name for each in fields(settings)]  # type: ignore[arg-type] # a dataclass
        if unknown := [name for name in self.options if name not in known]:
            raise RecipeError(
                "task_options",
                expected=", ".join(known) or "none",
                found=unknown[0],
                remedy="Check the name",
                message=f"The task has no setting {unknown[0]} in task_options, only {', '.join(known) or 'none'}. "
                "Check the name.",
            )
        try:
            return msgspec.convert(dict(self.options), settings)
        except msgspec.ValidationError as error:
            raise RecipeError(
                "task_options",
                expected="values of the types of the task's settings",
                found=str(error),
                remedy="Check the values",
            ) from None
