"""Items whose images have values that 16 bits cannot hold, such as floats and Hounsfield units: a range is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.images.formats import stored
from penstock.kinds.items import FilePart

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.kinds.items import Item


def scaled(item: Item, value_range: tuple[float, float]) -> Item:
    """An item whose image holds the values of a range as 0 to 65535, if it is a TIFF or DICOM image of more than
    8 bits; others stay as they are.
    """
    return replace(item, image=_part(item.image, value_range))


def _part(place: Path | FilePart, value_range: tuple[float, float]) -> FilePart:
    def make() -> bytes:
        return stored(place.read_bytes(), str(place), value_range)

    low, high = value_range
    part = f"values from {low:g} to {high:g}"
    if isinstance(place, FilePart):
        return FilePart(place.file, f"{place.part}, {part}", make)
    return FilePart(place, part, make)
