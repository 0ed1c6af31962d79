"""Bounds of settings, stated on their fields: `Annotated[float, Meta(ge=0, le=1)]`."""

from __future__ import annotations

import functools
import math
import typing
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final

from msgspec import Meta

Fraction = Annotated[float, Meta(ge=0, le=1)]
"""A number from 0 to 1."""

Weight = Annotated[float, Meta(ge=0, le=1000)]
"""What a loss weighs."""

Count = Annotated[int, Meta(gt=0)]
"""How many; at least 1."""

Switch = Annotated[int, Meta(ge=0, le=1 << 40)]
"""How many; 0 switches something off."""

Seconds = Annotated[float, Meta(ge=0, le=1_000_000)]
"""A time."""

Factor = Annotated[float, Meta(ge=0, le=10_000)]
"""What something is multiplied by."""

_ASCENDING: Final = "ascending"


def ascending(highest: float) -> Meta:
    """Bounds of a pair of numbers above 0 and up to `highest`, the smaller one first."""
    return Meta(extra={_ASCENDING: highest})


@functools.cache
def bounds_of(kind: Any) -> dict[str, tuple[Meta, ...]]:
    """The bounds of a dataclass's fields, by name."""
    return {name: tuple(_metas(hint)) for name, hint in typing.get_type_hints(kind, include_extras=True).items()}


def outside(value: Any, bounds: Iterable[Meta]) -> dict[str, str]:
    """The parts of an error if a number or a tuple of numbers is outside its bounds; else an empty dictionary."""
    numbers = value if isinstance(value, tuple) else (value,)
    for meta in bounds:
        highest = (meta.extra or {}).get(_ASCENDING)
        if highest is not None and _is_pair(value) and not 0 < value[0] <= value[1] <= highest:
            expected = f"two numbers above 0 and up to {highest}, the smaller one first"
            remedy = "Swap them" if value[0] > value[1] else "Give two numbers in this range"
            return {"expected": expected, "found": f"{value[0]}, {value[1]}", "remedy": remedy}
        for number in numbers:
            if isinstance(number, int | float) and highest is None and not _inside(number, meta):
                return {"expected": _words(meta), "found": str(number), "remedy": _remedy(meta, number)}
    return {}


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(each, int | float) for each in value)  # noqa: PLR2004


def _metas(hint: Any) -> Iterator[Meta]:
    """The bounds in a type: its own, and those of what a tuple or a union holds."""
    yield from (each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Meta))
    for inner in typing.get_args(hint):
        if typing.get_origin(inner) is Annotated:
            yield from _metas(inner)


def _inside(number: float, meta: Meta) -> bool:
    if isinstance(number, float) and not math.isfinite(number):  # an integer may be too large for a float
        return False
    above = meta.gt is None or number > meta.gt
    least = meta.ge is None or number >= meta.ge
    most = meta.le is None or number <= meta.le
    return above and least and most


def _words(meta: Meta) -> str:
    if meta.gt is not None:
        return f"a number above {meta.gt}" + ("" if meta.le is None else f" and up to {meta.le}")
    return f"a number from {meta.ge} to {meta.le}"


def _remedy(meta: Meta, number: float) -> str:
    if isinstance(number, float) and not math.isfinite(number):
        return "Choose a finite number"
    return "Choose a larger number" if meta.le is None else "Choose a number in this range"
