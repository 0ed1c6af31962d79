"""What a task may support, and the one sentence that refuses what it does not."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from penstock.errors import RecipeError

if TYPE_CHECKING:
    from penstock.tasks.base import Task


class Ability(Enum):
    """Something that some tasks support and others do not; the value names it at the beginning of a sentence."""

    TTA = "Test-time augmentation"
    SCALE_TTA = "Test-time augmentation at other scales"
    SHIFT_TTA = "Test-time augmentation by shifts"
    SLIDING_WINDOW = "A sliding window"
    SEGMENT_SCORES = "Scoring boundaries and segments"
    EXPORT = "Export"
    PREDICT_IMAGES = "Prediction of images"
    PREDICT_VOLUMES = "Prediction of NIfTI volumes"
    ORIGINAL_IDS = "Writing original ids"
    PALETTE = "A palette"
    COLOR_MASKS = "Writing masks in colour"
    SCORE = "A least score"
    LOSSES = "A choice of losses"
    CLASS_WEIGHTS = "Weighting classes"
    REGULARIZE = "Mixing, erasing and toning images"
    VIEWS = "Augmentation beyond crop, slices and flip"
    CENTER_CROP = "Evaluating the middle of an image"
    REFLECTED_BORDER = "A reflected border"
    ALTERNATING_FLIP = "Alternating flip"
    BOX_VISIBILITY = "A least visibility of boxes"
    SLICES = "Patches of several slices"
    PRETRAINED = "A pretrained backbone"


def refusal(task: Task | type[Task] | str, ability: Ability, settings: str, remedy: str = "") -> RecipeError:
    """The error for settings that a task does not support.

    Args:
        task: what is learnt, or what else does not support it, as people call it.
        ability: what it does not support.
        settings: what asked for it, as people wrote it.
        remedy: what to do; by default to remove the settings.
    """
    name = task if isinstance(task, str) else task.kind.name
    remedy = remedy or f"Remove {settings}"
    return RecipeError(
        settings,
        expected=f"a task that supports it: {ability.value.lower()}",
        found=name,
        remedy=remedy,
        message=f"{ability.value} is not supported for {name}. {remedy}.",
    )
