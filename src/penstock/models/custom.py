"""A custom network, by its place: `FILE.py:NAME` or `package.module:NAME`.

The place names a function or a class that is called with those of `classes`, `channels` and `weights` that it has
parameters for, and gives an `nn.Module`. For masks it maps float (n, channels, h, w) to logits (n, classes, h, w), for
classes to logits (n, classes). What the network calls `encoder` is its backbone: without one, a smaller learning rate
of the backbone, freezing it and Muon are not available.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from penstock import custom
from penstock.errors import RecipeError

_SETTING = "model.name"


@runtime_checkable
class InitializedFromData(Protocol):
    """A network of which some weights follow from the data."""

    def initialize_from(self, images: torch.Tensor) -> None:
        """Set those weights.

        Args:
            images: some of training's, as the network is given them in evaluation: float32 (n, channels, h, w).
        """


def is_custom(name: str) -> bool:
    """Whether a model's name is a place."""
    return custom.import_path_of(name) is not None


def build_custom(name: str, **offered: Any) -> nn.Module:
    """The network at a place.

    Raises:
        RecipeError: there is none, it cannot be called so, or gives something else.
    """
    place = custom.import_path_of(name)
    assert place is not None  # noqa: S101 - the caller looked
    found = custom.load(place, _SETTING)
    is_network = isinstance(found, nn.Module)
    network = None if is_network else custom.call(found, place, _SETTING, offered)
    if not isinstance(network, nn.Module):
        raise RecipeError(
            f"{_SETTING} = {place}",
            expected="a function that returns a torch.nn.Module",
            found="a network" if is_network else f"one that returns {type(network).__name__}",
            remedy="Return it from a function" if is_network else "Return the network",
        )
    return network
