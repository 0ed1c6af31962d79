"""What settings and options a task may support, and the one sentence that refuses what it does not."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from penstock.errors import RecipeError

if TYPE_CHECKING:
    from penstock.tasks.base import Task

T = TypeVar("T")


class Ability(Enum):
    """A setting or an option that some tasks support and others do not. What a task does beside training is a role.

    Attributes:
        title: its name at the beginning of a sentence.
        promise: what a task that supports it must do.
    """

    TTA = "Test-time augmentation", "outputs of several views of an image can be averaged"
    SCALE_TTA = "Test-time augmentation at other scales", "the network takes images of any size"
    SHIFT_TTA = (
        "Test-time augmentation by shifts",
        "outputs do not depend on positions in the image (for example probabilities of classes, but not masks)",
    )
    SLIDING_WINDOW = (
        "A sliding window",
        "`Predictor.predict` uses the `window` of the model, and outputs have the size of the image",
    )
    ORIGINAL_IDS = "Writing original ids", "predictions use `Style.original`"
    PALETTE = "A palette", "predictions use `Style.palette`"
    COLOR_MASKS = "Writing masks in colour", "predictions use `Style.color`"
    SCORE = "A minimum score", "predictions use `Style.score`"
    LOSSES = "A choice of losses", "`loss` uses the settings of the section `[loss]`"
    REGULARIZE = (
        "Batch augmentation (mixup, CutMix, random erasing, brightness, contrast)",
        "`inputs` and `loss` use the settings of the section `[regularize]`",
    )
    AUGMENTATION = (
        "Augmentation beyond crop, slices and flip",
        "training samples are made with the method `Augment.draw`",
    )
    MOSAIC = "A mosaic of images", "the samples have the methods `partners` and `compose` (`feed.Composing`)"
    CENTER_CROP = "Evaluating the middle of an image", "evaluation samples are made with the method `Augment.middle`"
    REFLECTED_BORDER = "A reflected border", "samples use `augment.border`"
    BOX_VISIBILITY = "A minimum visibility of boxes", "samples use `augment.min_visibility`"
    SLICES = "Cropping in depth", "samples use `augment.slices`"
    PRETRAINED = (
        "A pretrained backbone",
        "`Task.model` loads the weights that `model.weights` names (without this ability: `none`)",
    )
    DATA_NORMALIZATION = (
        "Normalisation by the data",
        "`inputs` normalises images as `model.normalization` says (`tasks.normalizing.of_data`)",
    )
    MODELS = (
        "A choice of models",
        "`Task.model` builds the network that `model.name` names (without this ability: the name of the kind)",
    )

    def __init__(self, title: str, promise: str) -> None:
        self.title = title
        self.promise = promise


def required(role: T | None, task: Task, title: str, settings: str, remedy: str = "") -> T:
    """A role of a task.

    Raises:
        RecipeError: the task does not have it; arguments as for `refusal`.
    """
    if role is None:
        raise refusal(task, title, settings, remedy)
    return role


def refusal(task: Task | type[Task] | str, ability: Ability | str, settings: str, remedy: str = "") -> RecipeError:
    """The error for settings that a task does not support.

    Args:
        task: what is learnt, or what else does not support it, as people call it.
        ability: what it does not support: an ability, or a role's name at the beginning of a sentence.
        settings: what asked for it, as people wrote it.
        remedy: what to do; by default to remove the settings.
    """
    name = task if isinstance(task, str) else task.kind.name
    title = ability if isinstance(ability, str) else ability.title
    remedy = remedy or f"Remove {settings}"
    return RecipeError(settings, remedy=remedy, message=f"{title} is not supported for {name}.")
