"""Bounds of settings, stated on their fields: `Annotated[float, Meta(ge=0, le=1)]`."""

from __future__ import annotations

import dataclasses
import functools
import math
import typing
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta

from penstock.custom import place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
CHOICES: Final = "choices"


def ascending(highest: float) -> Meta:
    """Bounds of a pair of numbers above 0 and up to `highest`, the smaller one first."""
    return Meta(extra={_ASCENDING: highest})


def choice(*words: str) -> Meta:
    """Bounds of a text: one of some words, or a place (`penstock.custom`)."""
    return Meta(extra={CHOICES: words})


@dataclasses.dataclass(frozen=True)
class Violation:
    """A value outside its bounds.

    Attributes:
        key: of the setting, as `section.key`.
        expected: the bounds, in words.
        found: the value.
        remedy: what to do.
    """

    key: str
    expected: str
    found: str
    remedy: str


def violations(values: Any, prefix: str = "") -> Iterator[Violation]:
    """The values of a frozen dataclass and of those inside it that lie outside their bounds."""
    bounds = bounds_of(values.__class__)
    for each in dataclasses.fields(values):
        value = getattr(values, each.name)
        key = f"{prefix}{each.name}"
        if dataclasses.is_dataclass(value):
            yield from violations(value, f"{key}.")
        else:
            yield from outside(key, value, bounds[each.name])


@functools.cache
def bounds_of(kind: Any) -> dict[str, tuple[Meta, ...]]:
    """The bounds of a dataclass's fields, by name."""
    return {name: tuple(_metas(hint)) for name, hint in typing.get_type_hints(kind, include_extras=True).items()}


def outside(key: str, value: Any, bounds: Iterable[Meta]) -> Iterator[Violation]:
    """What of a value, a number or a tuple of numbers, lies outside its bounds."""
    if value is None:
        return
    for meta in bounds:
        highest = (meta.extra or {}).get(_ASCENDING)
        if highest is not None:
            if not _is_pair(value):
                continue  # its type is wrong, which is said elsewhere
            low, high = value
            if not 0 < low <= high <= highest:
                expected = f"two numbers above 0 and up to {highest}, the smaller one first"
                remedy = "Swap them" if low > high else "Give two numbers in this range"
                yield Violation(key, expected, f"{low}, {high}", remedy)
            continue
        words = (meta.extra or {}).get(CHOICES)
        if words and value not in words and place_of(str(value)) is None:
            remedy = "See the settings with penstock recipe"
            yield Violation(key, f"one of {', '.join(words)}, or FILE.py:NAME", str(value), remedy)
        numbers = value if isinstance(value, tuple) else (value,)
        for number in numbers:
            if isinstance(number, int | float) and not _inside(number, meta):
                yield Violation(key, _words(meta), str(number), _remedy(meta, number))
                break


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(each, int | float) for each in value)  # noqa: PLR2004


def _metas(hint: Any) -> Iterator[Meta]:
    """The bounds in a type: its own, and those of what a tuple or a union holds."""
    yield from (each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Meta))
    for inner in typing.get_args(hint):
        if typing.get_origin(inner) is Annotated:
            yield from _metas(inner)


def _inside(number: float, meta: Meta) -> bool:
    if not math.isfinite(number):
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
    if not math.isfinite(number):
        return "Choose a finite number"
    return "Choose a larger number" if meta.le is None else "Choose a number in this range"
