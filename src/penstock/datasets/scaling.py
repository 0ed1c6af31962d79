"""Items whose images have values that 16 bits cannot hold, such as floats and Hounsfield units: a range is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from penstock.images import dicom
from penstock.images.formats import stored
from penstock.kinds.items import FilePart, Item


def scaled(item: Item, value_range: tuple[float, float]) -> Item:
    """An item whose TIFF or DICOM image of more than 8 bits holds a range as 0 to 65535; others as they are."""
    return replace(item, image=_part(item.image, value_range))


def dicom_range(items: Sequence[Item]) -> tuple[float, float] | None:
    """The one range of values that all gray DICOM images of a data set of DICOM images alone can have."""
    paths = [item.image for item in items if isinstance(item.image, Path)]
    paths = [path for path in paths if path.suffix.lower() == dicom.SUFFIX]
    if not paths or len(paths) < len(items):
        return None
    ranges = [found for found in map(dicom.possible_values, paths) if found]
    return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None


def _part(place: Path | FilePart, value_range: tuple[float, float]) -> FilePart:
    def make() -> bytes:
        return stored(place.read_bytes(), str(place), value_range)

    low, high = value_range
    return FilePart.of(place, f"values from {low:g} to {high:g}", make)
