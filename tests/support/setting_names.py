"""Every setting of the recipe by its name."""

from __future__ import annotations

from penstock.config.members import keys


def names(before: str = "") -> list[str]:
    """Every setting of the recipe, as `section.name`, with something before it; those of all members of unions too."""
    return [f"{before}{key}" for key in dict.fromkeys(keys())]
