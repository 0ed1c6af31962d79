"""Defaults that follow from the data: the sizes of images, whether they have colours, and how many there are."""

from __future__ import annotations

from typing import Final

from penstock.assembly.epochs import with_default_batch, with_default_steps, with_values
from penstock.assembly.presets import MODELS, Resolved
from penstock.datasets import Dataset, locate
from penstock.datasets.description import Description
from penstock.images import RGB
from penstock.tasks import Ability, Task

ORIGIN: Final = "size of the images"
COLORS: Final = "images in colour"
JITTER: Final = {"brightness": 0.2, "contrast": 0.2, "saturation": 0.2, "hue": 0.02}
"""Colour jitter of images in colour."""

_CROP: Final = "augment.crop"
_JITTER: Final = "augment.jitter"
_NORMALIZATION: Final = "model.normalization"


def with_data_defaults(resolved: Resolved, dataset: Dataset, task: type[Task]) -> Resolved:
    """The recipe with crop, colours, batch and steps that suit the data; given ones and the model's own stay."""
    if resolved.recipe.model.name in MODELS:
        return resolved
    data = resolved.recipe.data
    split = dataset.split(data.train)
    if not locate(data.path).grows:
        resolved = with_default_steps(with_default_batch(resolved, split.records), split.records)
    if _CROP not in resolved.given and not split.slices and split.height:
        resolved = with_values(resolved, task.sizes(resolved.recipe.augment, split), ORIGIN)
    described = dataset.description
    if _is_unusual(described) and _NORMALIZATION not in resolved.given and Ability.DATA_NORMALIZATION in task.supports:
        resolved = with_values(resolved, {_NORMALIZATION: "data"}, f"images: {described.pixel_format}")
    colored = described.pixel_format == RGB and not described.modalities and Ability.AUGMENTATION in task.supports
    if colored and not any(key.startswith(_JITTER) for key in resolved.given):
        jitter = {f"{_JITTER}.{name}": value for name, value in JITTER.items()}
        resolved = with_values(resolved, jitter, COLORS)
    return resolved


def _is_unusual(described: Description) -> bool:
    """Whether images are not those that backbones were trained on, and it is known what their values are like."""
    return described.pixel_format != RGB and not described.modalities and bool(described.mean)
