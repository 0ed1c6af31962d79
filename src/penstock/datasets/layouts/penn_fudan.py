"""Penn-Fudan (Wang et al. 2007): pedestrians, whose masks number the objects of each image."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.errors import DatasetError
from penstock.images import codecs, geometry
from penstock.kinds.items import Box, FilePart, Instance, Item, Labels, Problem, named

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]


def recognise(folder: Path) -> Layout | None:
    """`PNGImages/` and `PedMasks/`; None where there are no such folders. Boxes are those around numbered objects."""
    images, masks = folder / "PNGImages", folder / "PedMasks"
    if not images.is_dir() or not masks.is_dir():
        return None
    items: list[Item] = []
    problems: list[Problem] = []
    for image in filter(listing.is_image, listing.files(images)):
        mask = masks / f"{image.stem}_mask.png"
        if listing.is_there(mask):
            part = FilePart(mask, "person", partial(_person, mask))
            items.append(Item("train", image.stem, image, mask=part))
        else:
            problems.append(_missing(named(image, folder), named(mask, folder)))
    about = "PNGImages/ and PedMasks/: every number above 0 in a mask is a person"
    labels = Labels(("background", "person"))
    layout = Layout("segmentation", "Penn-Fudan", (about,), tuple(items), labels, tuple(problems))
    numbered = {item.name: _numbers(masks / f"{item.name}_mask.png") for item in items}
    return replace(layout, others=(_boxes(layout, numbered), _instances(layout, numbered, masks)))


def _numbers(mask: Path) -> Pixels:
    """The number of the object of every pixel, 0 for none."""
    return codecs.decode_mask(mask.read_bytes(), str(mask), palette=True)


def _person(mask: Path) -> bytes:
    return codecs.encode_mask((_numbers(mask) > 0).astype(np.uint8))


def _boxes(layout: Layout, numbered: dict[str, Pixels]) -> Layout:
    items = tuple(replace(item, mask=None, boxes=_around(numbered[item.name])) for item in layout.items)
    reasons = (*layout.reasons, "boxes are those around the pixels of each number")
    return replace(layout, task="detection", reasons=reasons, items=items, labels=Labels(("person",)))


def _instances(layout: Layout, numbered: dict[str, Pixels], masks: Path) -> Layout:
    items = tuple(
        replace(item, mask=None, instances=_each(numbered[item.name], masks / f"{item.name}_mask.png"))
        for item in layout.items
    )
    return replace(layout, task="instances", items=items, labels=Labels(("person",)))


def _each(numbers: Pixels, mask: Path) -> tuple[Instance, ...]:
    return tuple(Instance(0, partial(_pixels, mask, int(number))) for number in np.unique(numbers[numbers > 0]))


def _pixels(mask: Path, number: int, size: tuple[int, int]) -> NDArray[np.bool_]:
    numbers = _numbers(mask)
    if numbers.shape != size:
        raise DatasetError(
            str(mask),
            expected=f"a mask of {size[0]} x {size[1]} (height x width), like its image",
            found=f"one of {numbers.shape[0]} x {numbers.shape[1]}",
            remedy="Make both the same size",
        )
    own: NDArray[np.bool_] = numbers == number
    return own


def _around(numbers: Pixels) -> tuple[Box, ...]:
    return tuple(Box(0, *geometry.edges_of(numbers == number)) for number in np.unique(numbers[numbers > 0]))


def _missing(name: str, mask: str) -> Problem:
    message = f"{name}: expected a mask {mask}, found none. Add the mask, or leave the image out with --skip-bad."
    return Problem("mask missing", name, message)
