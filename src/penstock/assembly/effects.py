"""Which settings have an effect only beside others: one table, from which refusals follow."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final

from penstock.assembly.presets import defaults
from penstock.errors import RecipeError
from penstock.models import check_decoder
from penstock.settings import Augment, DeepLabConfig, Objective, Recipe, Regularize
from penstock.tasks import Ability, Task, refusal


@dataclass(frozen=True)
class Need:
    """The value that settings need another setting to have.

    Attributes:
        settings: those that need it.
        other: the setting that they need.
        how: its value must be `above`, `below`, `in` or `not in` what is wanted, or `set` at all.
        value: what is wanted.
    """

    settings: tuple[str, ...]
    other: str
    how: str
    value: Any = None

    def holds(self, value: Any) -> bool:
        """Whether a value of the other setting lets these have an effect."""
        return bool(_HOLDS[self.how](value, self.value))

    @property
    def wanted(self) -> str:
        """The values that do, in words."""
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        named = [str(each).lower() if isinstance(each, bool) else str(each) for each in values]
        words = {"in": " or ".join(named), "not in": f"another than {' and '.join(named)}", "set": "set"}
        return words.get(self.how) or f"{self.how} {self.value:g}"


_HOLDS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "above": operator.gt,
    "below": operator.lt,
    "in": lambda value, wanted: value in wanted,
    "not in": lambda value, wanted: value not in wanted,
    "set": lambda value, _: bool(value),
}

_VIEWS: Final = tuple(
    f"augment.{each.name}"
    for each in fields(Augment)
    if each.name not in {"crop", "slices", "flip", "min_visibility", "border", "mosaic"}
)

NEEDS: Final = (
    Need(
        ("loss.class_weights", "loss.label_smoothing", "loss.ohem_ratio", "loss.ohem_threshold"),
        "loss.cross_entropy",
        "above",
        0,
    ),
    Need(("loss.ohem_warmup_steps",), "loss.ohem_ratio", "below", 1),
    Need(("loss.focal_gamma",), "loss.focal", "above", 0),
    Need(("loss.tversky_alpha", "loss.tversky_beta"), "loss.tversky", "above", 0),
    Need(("loss.custom_weight",), "loss.custom", "set"),
    Need(("optimizer.decay_biases",), "optimizer.weight_decay", "above", 0),
    Need(("optimizer.warmup_start_ratio",), "optimizer.warmup_steps", "above", 0),
    Need(("optimizer.head",), "optimizer.head_lr_mult", "not in", (1.0,)),
    Need(("augment.flip",), "augment.alternating_flip", "in", (False,)),
    Need(("train.sliding_window", "train.patience"), "data.validation", "set"),
    Need(("train.nonfinite_limit",), "train.nonfinite", "in", ("skip", "rewind")),
    Need(("train.epochs", "data.limit", "data.repeat_threshold"), "follow.on", "in", (False,)),
    Need(("follow.records", "follow.seconds", "follow.idle_timeout", "follow.group"), "follow.on", "in", (True,)),
    Need(("model.deeplab.pooling_size",), "model.deeplab.pooling", "in", (True,)),
    Need(("model.deeplab.pooling_stride",), "model.deeplab.pooling_size", "set"),
    Need(
        ("model.deeplab.decoder_strides", "model.deeplab.decoder_sum", "model.deeplab.decoder_logits"),
        "model.deeplab.decoder",
        "in",
        (True,),
    ),
    Need(("model.deeplab.logits_kernel",), "model.deeplab.decoder_logits", "in", (False,)),
    Need(("model.deeplab.merge",), "model.deeplab.image_pyramid", "not in", ((1.0,),)),
    Need(("model.deeplab.rates",), "model.deeplab.cell", "in", ((),)),
)


ABILITIES: Final = (
    (Ability.LOSSES, tuple(f"loss.{each.name}" for each in fields(Objective))),
    (Ability.REGULARIZE, tuple(f"regularize.{each.name}" for each in fields(Regularize))),
    (Ability.CENTER_CROP, ("augment.view.crop_pct",)),
    (Ability.BOX_VISIBILITY, ("augment.min_visibility",)),
    (Ability.SLICES, ("augment.slices",)),
    (Ability.REFLECTED_BORDER, ("augment.border",)),
    (Ability.AUGMENTATION, _VIEWS),
    (Ability.MOSAIC, ("augment.mosaic",)),
    (Ability.PRETRAINED, ("model.weights",)),
    (Ability.DATA_NORMALIZATION, ("model.normalization",)),
    (Ability.SLIDING_WINDOW, ("train.sliding_window",)),
)
"""What a task must support for settings to be changed."""

_NOTHING: Final = {"model.weights": "none"}
"""The value of a setting that asks for nothing, which every task supports."""


def check_chosen(recipe: Recipe, task: type[Task]) -> None:
    """Every setting of a new training that differs from the defaults must have an effect.

    Raises:
        RecipeError: a setting has no effect; the error names it, and what it needs.
    """
    begun = defaults(recipe, task)
    check_parts(recipe)
    check_abilities(recipe, task, *begun)
    check_effects(recipe, *begun, Recipe())


def check_effects(recipe: Recipe, *begun: Recipe) -> None:
    """Settings that somebody changed must have an effect.

    Args:
        recipe: with the changes.
        begun: what they may have been changed from: the defaults, or the recipe of a run that is resumed.

    Raises:
        RecipeError: one has none; the error names it, and what it needs.
    """
    for need in NEEDS:
        other = attrgetter(need.other)(recipe)
        if need.holds(other):
            continue
        for setting in (each for each in need.settings if _changed(each, recipe, begun)):
            raise RecipeError(
                setting,
                remedy=f"Remove {setting}, or change {need.other}",
                message=f"{setting} has no effect: it needs {need.other} {need.wanted}, but {need.other} is "
                f"{_shown(other)}.",
            )


def check_abilities(recipe: Recipe, task: type[Task], *begun: Recipe) -> None:
    """Refuse changed settings that the task does not support; arguments as for `check_effects`.

    Raises:
        RecipeError: the task does not support one.
    """
    for ability, settings in ABILITIES:
        if ability in task.supports:
            continue
        asked = [each for each in settings if _value(recipe, each) != _NOTHING.get(each)]
        named = [each for each in asked if _changed(each, recipe, begun)]
        if named:
            raise refusal(task, ability, ", ".join(named))


def _changed(setting: str, recipe: Recipe, begun: Sequence[Recipe]) -> bool:
    return _value(recipe, setting) not in [_value(each, setting) for each in begun]


def _value(recipe: Recipe, setting: str) -> Any:
    """The value of a setting; None if it belongs to another member of a union than the chosen one."""
    section, _, name = setting.rpartition(".")
    return getattr(attrgetter(section)(recipe), name, None)


def check_parts(recipe: Recipe) -> None:
    """Refuse settings of a network that the recipe does not train.

    Raises:
        RecipeError: there are such settings.
    """
    check_decoder(recipe.model.name, recipe.model.decoder)
    parts, plain = recipe.model.deeplab, DeepLabConfig()
    if parts != plain and not recipe.model.name.startswith("deeplab:"):
        changed = [field.name for field in fields(plain) if getattr(parts, field.name) != getattr(plain, field.name)]
        raise RecipeError(
            "model.deeplab",
            expected="no such settings, as only deeplab:BACKBONE has them",
            found=f"{', '.join(changed)}, for {recipe.model.name}",
            remedy=f"Remove them, or train deeplab:{recipe.model.name.partition(':')[2] or recipe.model.name}",
        )


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return (
        ", ".join(map(str, value))
        if isinstance(value, tuple) and value
        else f"{value:g}"
        if isinstance(value, float)
        else str(value or "nothing")
    )
