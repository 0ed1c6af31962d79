"""Means over classes of which some do not occur."""

from __future__ import annotations

from collections.abc import Sequence


def mean_of_present(values: Sequence[float | None]) -> float:
    """The mean of the values that are there; 0 where none is."""
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else 0.0
