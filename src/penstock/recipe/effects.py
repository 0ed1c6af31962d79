"""Which settings have an effect only beside others: one table, from which refusals follow."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.recipe.values import Recipe

TASK: Final = "the task"
"""Stands for what is learnt, in place of a setting."""


@dataclass(frozen=True)
class Need:
    """What a setting needs of another one.

    Attributes:
        settings: those that need it.
        other: the setting that they need, or `TASK`.
        holds: whether its value lets them have an effect.
        said: the values that do, in words.
    """

    settings: tuple[str, ...]
    other: str
    holds: Callable[[Any], bool]
    said: str


def _above(least: float) -> tuple[Callable[[Any], bool], str]:
    return lambda value: value > least, f"above {least:g}"


def _below(most: float) -> tuple[Callable[[Any], bool], str]:
    return lambda value: value < most, f"below {most:g}"


def _one_of(*values: str) -> tuple[Callable[[Any], bool], str]:
    return lambda value: value in values, " or ".join(values)


def _none_of(*values: object) -> tuple[Callable[[Any], bool], str]:
    return lambda value: value not in values, f"another than {' and '.join(map(str, values))}"


def _is(wanted: object) -> tuple[Callable[[Any], bool], str]:
    return lambda value: bool(value == wanted), str(wanted).lower()


def _some() -> tuple[Callable[[Any], bool], str]:
    return bool, "set"


NEEDS: Final = (
    Need(("loss.class_weights", "loss.smoothing", "loss.hardest", "loss.threshold"), "loss.cross_entropy", *_above(0)),
    Need(("loss.hardest_after",), "loss.hardest", *_below(1)),
    Need(("loss.gamma",), "loss.focal", *_above(0)),
    Need(("loss.false_positive", "loss.false_negative"), "loss.tversky", *_above(0)),
    Need(("optimizer.momentum",), "optimizer.name", *_one_of("sgd", "rmsprop", "muon")),
    Need(("optimizer.rest_momentum", "optimizer.unit_filters"), "optimizer.name", *_one_of("muon")),
    Need(("optimizer.decay_biases",), "optimizer.weight_decay", *_above(0)),
    Need(("optimizer.power",), "optimizer.schedule", *_one_of("poly")),
    Need(("optimizer.decay",), "optimizer.schedule", *_one_of("step", "multistep", "exponential")),
    Need(("optimizer.decay_steps",), "optimizer.schedule", *_one_of("step", "exponential")),
    Need(("optimizer.milestones",), "optimizer.schedule", *_one_of("multistep")),
    Need(("optimizer.floor",), "optimizer.schedule", *_none_of("constant")),
    Need(("optimizer.warmup_share",), "optimizer.warmup", *_above(0)),
    Need(("optimizer.head",), "optimizer.head_rate", *_none_of(1.0)),
    Need(("augment.scale", "augment.scale_step"), "augment.method", *_one_of("scale-crop")),
    Need(("augment.margin",), "augment.method", *_one_of("pad-crop")),
    Need(("augment.area", "augment.aspect"), "augment.method", *_one_of("resized-crop")),
    Need(("augment.flip",), "augment.flip_by_turns", *_is(wanted=False)),
    Need(("augment.shown",), TASK, *_one_of("classification")),
    Need(("augment.shown",), "augment.method", *_none_of("pad-crop")),
    Need(("augment.kept",), TASK, *_one_of("detection")),
    Need(("augment.slices",), TASK, *_one_of("volumes")),
    Need(("train.window",), "data.validation", *_some()),
    Need(("follow.records", "follow.seconds", "follow.patience", "follow.group"), "follow.on", *_is(wanted=True)),
    Need(("model.deeplab.pooling_size",), "model.deeplab.pooling", *_is(wanted=True)),
    Need(("model.deeplab.pooling_stride",), "model.deeplab.pooling_size", *_some()),
    Need(
        ("model.deeplab.decoder_strides", "model.deeplab.decoder_sum", "model.deeplab.decoder_logits"),
        "model.deeplab.decoder",
        *_is(wanted=True),
    ),
    Need(("model.deeplab.logits_kernel",), "model.deeplab.decoder_logits", *_is(wanted=False)),
    Need(("model.deeplab.merge",), "model.deeplab.pyramid", *_none_of((1.0,))),
    Need(("model.deeplab.rates",), "model.deeplab.cell", *_is(wanted=())),
)


def check_effects(recipe: Recipe, learnt: str, *begun: Recipe) -> None:
    """Settings that somebody changed must have an effect.

    Args:
        recipe: with the changes.
        learnt: the task, as dataset.json names it.
        begun: what they may have been changed from: the defaults, or the recipe of a run that is resumed.

    Raises:
        RecipeError: one has none; the error names it, and what it needs.
    """
    for need in NEEDS:
        other = learnt if need.other == TASK else attrgetter(need.other)(recipe)
        if need.holds(other):
            continue
        for setting in need.settings:
            value = attrgetter(setting)(recipe)
            if value not in map(attrgetter(setting), begun):
                raise RecipeError(
                    setting,
                    expected=f"{need.other} {need.said}, without which it has no effect",
                    found=f"{setting} {_shown(value)} beside {need.other} {_shown(other)}",
                    remedy=f"Leave {setting} out, or change {need.other}",
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
