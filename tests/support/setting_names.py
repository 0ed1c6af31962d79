"""Every setting of the recipe by its name."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, get_type_hints

from penstock.settings import Recipe

if TYPE_CHECKING:
    from collections.abc import Iterator


def names(kind: Any = Recipe, before: str = "") -> Iterator[str]:
    """Every setting of the recipe, as `section.name`, with something before it."""
    hints = get_type_hints(kind)
    for each in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hints[each.name]):
            yield from names(hints[each.name], f"{before}{each.name}.")
        else:
            yield f"{before}{each.name}"
