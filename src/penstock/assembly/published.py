"""Defaults that follow from published weights: a network on the hub brings the options of its decoder."""

from __future__ import annotations

import contextlib
from typing import Any

from penstock.assembly.epochs import with_values
from penstock.assembly.presets import Resolved
from penstock.errors import WeightsError
from penstock.models import decoder_options, published
from penstock.models.pretrained import is_repository


def with_published_decoder(resolved: Resolved) -> Resolved:
    """The recipe with the decoder of the network whose weights it names, except for options that were given."""
    model = resolved.recipe.model
    known = decoder_options(model.name)
    if not known or not is_repository(model.weights):
        return resolved
    with contextlib.suppress(WeightsError):
        found = published.options_of(model.weights)
        options = {f"model.decoder.{name}": found[name] for name in known if _differs(found.get(name), known[name])}
        return with_values(resolved, options, f"weights {model.weights}")
    return resolved


def _differs(value: Any, default: Any) -> bool:
    """Whether an option is set to another value than its default; lists stand for tuples."""
    plain = tuple(value) if isinstance(value, list) else value
    usual = tuple(default) if isinstance(default, list) else default
    return value is not None and plain != usual
