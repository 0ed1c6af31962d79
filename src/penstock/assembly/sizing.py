"""A default crop that fits the images."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.config import toml
from penstock.models.segmentation import STRIDE

if TYPE_CHECKING:
    from penstock.config import Resolved
    from penstock.datasets import Dataset

ORIGIN: Final = "size of the images"
_KEY: Final = "augment.crop"


def with_crop(resolved: Resolved, dataset: Dataset) -> Resolved:
    """The recipe with a default crop that is no larger than the largest training image, so that little of a sample is
    padding: its sides are rounded down to multiples of 32. A crop that was given, or that comes with a model, stays.

    Args:
        resolved: with the defaults of the task.
        dataset: what is learnt from.
    """
    recipe = resolved.recipe
    split = dataset.split(recipe.data.train)
    chosen = _KEY in resolved.given or resolved.origins.get(_KEY, "").startswith("model")
    if chosen or recipe.augment.method != "scale-crop" or split.slices or not split.height:
        return resolved
    sides = zip(recipe.augment.crop, (split.height, split.width), strict=True)
    crop = tuple(min(usual, max(STRIDE, side // STRIDE * STRIDE)) for usual, side in sides)
    if crop == recipe.augment.crop:
        return resolved
    origins = {**resolved.origins, _KEY: ORIGIN}
    return replace(resolved, recipe=toml.filled(recipe, {_KEY: crop}, ""), origins=origins)
