"""Scores as text, for terminals and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

_NARROWEST: Final = 12  # characters of the column of names


def width_of(names: Sequence[str]) -> int:
    """Characters of a column of names."""
    return max(_NARROWEST, *map(len, names))


def percent(value: float | None, width: int = 7) -> str:
    """A fraction in percent; a dash where there is none."""
    return f"{'-':>{width}}" if value is None else f"{value:>{width}.2%}"


def number_table(numbers: Mapping[str, float]) -> str:
    """Numbers by their names, one a line."""
    width = width_of([*numbers])
    return "\n".join(f"{name:<{width}}  {value:>12.6g}" for name, value in numbers.items())
