"""The number of steps in a number of epochs, and the default number of steps."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

from penstock.assembly.presets import GENERAL, Resolved
from penstock.config import toml
from penstock.datasets import locate
from penstock.errors import RecipeError
from penstock.settings import Recipe, Train

ORIGIN: Final = "train.epochs"
DATA: Final = "size of the data"
PASSES: Final = 100
"""Epochs by default, of data that is neither small nor large."""
MIN_STEPS: Final = 1000
"""Steps by default at least: a network that is trained on a few images needs them too."""
EVALUATIONS: Final = 20
"""Evaluations of a training by default."""

STEPS: Final = "train.steps"
_MIN_EVALUATIONS: Final = 4  # evaluations of a short training
_LINES: Final = 10  # of its log
_EVERY: Final = ("train.evaluate_every", "train.save_every")


def steps_of(recipe: Recipe) -> int:
    """The steps of the recipe's epochs.

    Raises:
        PenstockError: the dataset cannot be opened, or grows.
    """
    return max(1, math.ceil(recipe.train.epochs * _epoch(recipe)))


def with_steps(resolved: Resolved) -> Resolved:
    """The recipe with the steps that its epochs are, and an evaluation after each, unless others were given. Where
    fewer steps than usual were given, evaluations, checkpoints and lines of the log come more often too.

    Raises:
        RecipeError: other steps were given.
        PenstockError: as `steps_of`.
    """
    recipe = resolved.recipe
    if not recipe.train.epochs:
        return _with_few_steps(resolved)
    steps = steps_of(recipe)
    stated = resolved.given.get("train.steps", steps)
    if stated != steps:
        raise RecipeError(
            "train.epochs",
            remedy="Remove one of the two settings",
            message=f"train.epochs={recipe.train.epochs:g} are {steps:,} steps, but train.steps is {stated:,}.",
        )
    each = min(steps, max(1, math.ceil(_epoch(recipe))))
    return with_values(resolved, {"train.steps": steps, **dict.fromkeys(_EVERY, each)}, ORIGIN)


def _with_few_steps(resolved: Resolved) -> Resolved:
    """The recipe with evaluations, checkpoints and log lines that suit few steps; a model's own stay."""
    steps, usual = resolved.recipe.train.steps, Train().steps
    if "train.steps" not in resolved.given or steps >= usual:
        return resolved
    each = max(steps // EVALUATIONS, min(MIN_STEPS // EVALUATIONS, math.ceil(steps / _MIN_EVALUATIONS)))
    if steps < _LINES:
        each = steps  # somebody who tries whether it runs
    lines = max(1, min(Train().log_every, steps // _LINES))
    values = {**dict.fromkeys(_EVERY, each), "train.log_every": lines}
    return with_values(resolved, {k: v for k, v in values.items() if resolved.origin(k) == GENERAL}, STEPS)


def with_default_batch(resolved: Resolved, records: int) -> Resolved:
    """The recipe with a batch that is no larger than the data: the largest power of two, but at least 2, as batch
    normalisation needs. A batch that was given, or that comes with a model, stays.
    """
    train, limit = resolved.recipe.train, resolved.recipe.data.limit
    there = min(records, limit or records)
    if there >= train.batch:
        return resolved
    return with_values(resolved, {"train.batch": 1 << max(1, there.bit_length() - 1)}, DATA)


def with_default_steps(resolved: Resolved, records: int) -> Resolved:
    """The recipe with steps that suit the size of the data: 100 epochs, but at least 1,000 steps, and at most the
    general default; with an evaluation after each twentieth part. Steps or epochs that were given, or that come with a
    model or a task, stay.
    """
    train, limit = resolved.recipe.train, resolved.recipe.data.limit
    if train.epochs or resolved.origin("train.steps") != GENERAL:
        return resolved
    epoch = min(records, limit or records) / train.batch
    steps = min(train.steps, max(MIN_STEPS, math.ceil(PASSES * epoch)))
    if steps == train.steps:
        return resolved
    return with_values(resolved, {"train.steps": steps, **dict.fromkeys(_EVERY, max(1, steps // EVALUATIONS))}, DATA)


def with_values(resolved: Resolved, values: dict[str, Any], origin: str) -> Resolved:
    """The recipe with other values of settings, but for those that somebody gave."""
    values = {key: value for key, value in values.items() if key not in resolved.given}
    changed = toml.filled(resolved.recipe, values, "")
    differing = toml.changes(resolved.recipe, changed)
    return replace(resolved, recipe=changed, origins={**resolved.origins, **dict.fromkeys(differing, origin)})


def _epoch(recipe: Recipe) -> float:
    data = recipe.data
    location = locate(data.path)
    if location.grows:
        raise RecipeError(
            "train.epochs",
            expected="a packed dataset in a folder, whose records are counted",
            found=data.path,
            remedy="Give --steps instead",
        )
    records = location.open().split(data.train).records
    return min(records, data.limit or records) / recipe.train.batch
