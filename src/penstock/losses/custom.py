"""A custom loss, by its place: `FILE.py:NAME` or `package.module:NAME`.

The place names a function `loss(logits, target, ignore)` that gives one number for each image, float (n,): the session
adds them up and divides by the number of images with a label. A loss with a count of its own is a class with the
methods of `Term`, without arguments to make it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from penstock import custom
from penstock.errors import RecipeError
from penstock.losses.base import Term

_SETTING = "loss.custom"


@dataclass(frozen=True)
class PerImage:
    """A function that gives one number for each image.

    Attributes:
        function: maps logits (n, classes, h, w), targets (n, h, w) and the ignore label to float (n,).
        name: its place, for errors.
    """

    function: Callable[..., torch.Tensor]
    name: str

    def count(self, target: torch.Tensor, ignore: int) -> torch.Tensor:
        """The number of images with a label."""
        return (target != ignore).flatten(1).any(dim=1).sum()

    def sum(self, logits: torch.Tensor, target: torch.Tensor, ignore: int) -> torch.Tensor:
        """The numbers added up, of images with a label."""
        values = self.function(logits.float(), target, ignore)
        if tuple(values.shape) != (len(logits),):
            raise RecipeError(
                f"{_SETTING} = {self.name}",
                expected=f"one number for each image, of shape ({len(logits)},)",
                found=f"a tensor of shape {tuple(values.shape)}",
                remedy="Take the mean over everything but the first axis",
            )
        labelled = (target != ignore).flatten(1).any(dim=1)
        return values.where(labelled, 0.0).sum()


def load_custom(name: str) -> Term:
    """The loss at a place.

    Raises:
        RecipeError: there is none, or it takes other arguments.
    """
    place = custom.import_path_of(name)
    if place is None:
        raise RecipeError(
            _SETTING, expected="FILE.py:NAME or package.module:NAME", found=name, remedy="Name a place, or leave it out"
        )
    found: Any = custom.load(place, _SETTING)
    if isinstance(found, type):
        found = custom.call(found, place, _SETTING, {})
    if hasattr(found, "sum") and hasattr(found, "count"):
        term: Term = found
        return term
    custom.check_arguments(found, place, _SETTING, ("logits", "target", "ignore"))
    return PerImage(found, name)
