"""Defaults of predictions, which no recipe has."""

from __future__ import annotations

from typing import Final

OVERLAP: Final = 0.25
"""Fraction by which neighbouring sliding windows overlap."""

SHOWN: Final = 0.3
"""Score above which objects are drawn."""
