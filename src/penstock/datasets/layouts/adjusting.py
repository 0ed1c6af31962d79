"""What is done to the images of a layout before they are read: fewer, other values, other sizes, written anew."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from penstock.datasets.layout import Layout
from penstock.datasets.layouts.layout_options import LayoutOptions
from penstock.datasets.reencoding import Reencoding
from penstock.datasets.scaling import dicom_range, scaled
from penstock.datasets.shrinking import shrunk
from penstock.errors import DatasetError
from penstock.kinds.items import Item

_BEST: Final = 100
"""The highest quality of JPEG."""


def adjusted(found: Layout, how: LayoutOptions) -> Layout:
    """A layout with all that is asked for.

    Raises:
        DatasetError: something is asked for that cannot be done to its images.
    """
    found = _limited(found, how.limit) if how.limit else found
    value_range = how.value_range or (None if found.modalities else dicom_range(found.items))
    found = _scaled(found, value_range) if value_range else found
    found = _shrunk(found, how.max_side) if how.max_side else found
    reencoding = Reencoding(how.quality, how.seekable)
    return _reencoded(found, reencoding) if reencoding else found


def _refuse_volumes(found: Layout, option: str) -> None:
    if found.modalities:
        raise DatasetError(
            option,
            expected="images",
            found=found.name,
            remedy=f"Remove {option}",
            message=f"{option} is for images, and not for volumes.",
        )


def _scaled(found: Layout, value_range: tuple[float, float]) -> Layout:
    _refuse_volumes(found, "--value-range")
    low, high = value_range
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise DatasetError(
            "--value-range",
            expected="two numbers, the lower one first",
            found=f"{low:g} {high:g}",
            remedy="Give the values that become 0 and 65535, for example --value-range -160 240",
        )
    items = tuple(scaled(item, value_range) for item in found.items)
    reason = f"values from {low:g} to {high:g} of TIFF and DICOM images become 0 to 65535"
    return replace(found, items=items, reasons=(*found.reasons, reason), value_range=value_range)


def _shrunk(found: Layout, most: int) -> Layout:
    """The layout with images of at most so many pixels a side."""
    _refuse_volumes(found, "--max-side")
    items = tuple(shrunk(item, most, found.kind) for item in found.items)
    return replace(
        found, items=items, reasons=(*found.reasons, f"images are resized to at most {most:,} pixels a side")
    )


def _reencoded(found: Layout, reencoding: Reencoding) -> Layout:
    _refuse_volumes(found, "--quality" if reencoding.quality else "--seekable")
    if not 0 <= reencoding.quality <= _BEST:
        raise DatasetError(
            "--quality",
            expected=f"a number from 1 to {_BEST}",
            found=str(reencoding.quality),
            remedy="Give for example --quality 90",
        )
    items = tuple(reencoding.of(item) for item in found.items)
    return replace(found, items=items, reasons=(*found.reasons, f"images are written anew: {reencoding}"))


def _limited(found: Layout, limit: int) -> Layout:
    """The layout with at most so many images of each split, spread evenly over them."""
    splits: dict[str, list[Item]] = {}
    for item in found.items:
        splits.setdefault(item.split, []).append(item)
    kept = [item for items in splits.values() for item in _spread(items, limit)]
    return replace(found, items=tuple(kept), reasons=(*found.reasons, f"at most {limit:,} images of each split"))


def _spread(items: list[Item], limit: int) -> list[Item]:
    if len(items) <= limit:
        return items
    return [items[number * len(items) // limit] for number in range(limit)]
