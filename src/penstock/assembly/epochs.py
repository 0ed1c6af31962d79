"""How many steps some passes over the training split are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.config import toml
from penstock.datasets import locate
from penstock.errors import RecipeError

if TYPE_CHECKING:
    from penstock.config import Recipe, Resolved

ORIGIN: Final = "train.epochs"
_EVERY: Final = ("train.evaluate_every", "train.save_every")


def steps_of(recipe: Recipe) -> int:
    """The steps of the recipe's epochs.

    Raises:
        PenstockError: the dataset cannot be opened, or grows.
    """
    return max(1, math.ceil(recipe.train.epochs * _epoch(recipe)))


def with_steps(resolved: Resolved) -> Resolved:
    """The recipe with the steps that its epochs are, and an evaluation after each, unless others were given.

    Raises:
        RecipeError: other steps were given.
        PenstockError: as `steps_of`.
    """
    recipe = resolved.recipe
    if not recipe.train.epochs:
        return resolved
    steps = steps_of(recipe)
    stated = resolved.given.get("train.steps", steps)
    if stated != steps:
        raise RecipeError(
            "train.epochs",
            expected="epochs or steps",
            found="both",
            remedy="Remove one of the two settings",
            message=f"train.epochs={recipe.train.epochs:g} are {steps:,} steps, but train.steps is {stated:,}. Remove "
            "one of the two settings.",
        )
    each = min(steps, max(1, math.ceil(_epoch(recipe))))
    values: dict[str, Any] = {"train.steps": steps, **dict.fromkeys(_EVERY, each)}
    values = {key: value for key, value in values.items() if key not in resolved.given}
    origins = {**resolved.origins, **dict.fromkeys(values, ORIGIN)}
    return replace(resolved, recipe=toml.filled(recipe, values, ""), origins=origins)


def _epoch(recipe: Recipe) -> float:
    """The steps of one epoch."""
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
