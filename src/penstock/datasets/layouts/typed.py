"""The door for what annotation tools write: values of the types that a reader expects, or a ValueError that says what
is there instead. No reader takes a list, a number or a text from JSON or XML in another way.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec

from penstock.images.header import MAX_PIXELS

Coordinate = Annotated[float, msgspec.Meta(gt=-1e6, lt=1e6)]
"""A number of pixels, a fraction or a percentage: what lies further out is none."""
Edges = tuple[Coordinate, Coordinate, Coordinate, Coordinate]
Point = tuple[Coordinate, Coordinate]
Points = list[Point]
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_PIXELS)]
"""Pixels along a side, or in a run."""
Name = str | int | float
"""A class, by its name or its id."""
Entries = list[Any] | None
"""What is read one by one, so that the others are read where one is damaged."""

_LARGEST: Final = 8 * MAX_PIXELS
_OTHER: Final = re.compile(r"Expected (.+), got (.+)")


def get(entry: Any, key: str, kind: Any) -> Any:
    """What an object has under a key, as a kind; numbers may be written as text. None where it has nothing there and
    the kind allows that.

    Raises:
        ValueError: it has nothing there, or something of another type.
    """
    value = read(entry, dict[str, Any]).get(key)
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        message = f"no {key}" if value is None else in_words(error, key)
        raise ValueError(message) from None


def numbers(entry: Any, keys: Iterable[str]) -> list[float]:
    """The coordinates that an object has under some keys.

    Raises:
        ValueError: it has no number under one of them.
    """
    return [get(entry, key, Coordinate) for key in keys]


def read(value: Any, kind: Any) -> Any:
    """A value as a kind; numbers may be written as text.

    Raises:
        ValueError: something in it has another type.
    """
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(in_words(error)) from None


def unpacked(text: str) -> bytes:
    """Bytes that were compressed with zlib, and written in base 64.

    Raises:
        ValueError: they are damaged, or more than an image has.
    """
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(base64.b64decode(text, validate=True), _LARGEST)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not unpacker.eof:
        message = f"more than {_LARGEST:,} bytes" if len(data) == _LARGEST else "compressed bytes that end early"
        raise ValueError(message)
    return data


def size(height: Any, width: Any) -> tuple[int, int]:
    """An image's (height, width) as a file states it, as numbers or text; 0 and 0 where it states none."""
    try:
        sides = read((height, width), tuple[Count, Count])
    except ValueError:
        return 0, 0
    return sides if min(sides) > 0 else (0, 0)


def in_words(error: msgspec.ValidationError, key: str = "") -> str:
    """The type that was found, and where, such as `str` instead of `float` in points[0][1]."""
    what, _, inside = str(error).partition(" - at `$")
    place = f"{key}{inside.rstrip('`')}".lstrip(".")
    if other := _OTHER.fullmatch(what):
        what = f"{other[2]} instead of {other[1]}"
    else:
        what = what.replace("Expected", "no", 1).replace("Number", "a number", 1)
    return f"{what} in {place}" if place else what
