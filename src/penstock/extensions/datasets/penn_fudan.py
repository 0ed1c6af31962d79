"""Penn-Fudan (Wang et al. 2007): pedestrians, whose masks number the objects of each image."""

from __future__ import annotations

from pathlib import Path

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts.numbered import by_number
from penstock.kinds.items import Item, Labels, Problem, named


def recognise(folder: Path) -> Layout | None:
    """`PNGImages/` and `PedMasks/`; None where there are no such folders."""
    images, masks = folder / "PNGImages", folder / "PedMasks"
    if not images.is_dir() or not masks.is_dir():
        return None
    items: list[Item] = []
    problems: list[Problem] = []
    for image in filter(listing.is_image, listing.files(images)):
        mask = masks / f"{image.stem}_mask.png"
        if listing.is_there(mask):
            items.append(Item("train", image.stem, image, label=mask))
        else:
            problems.append(_missing(named(image, folder), named(mask, folder)))
    layout = Layout(
        "segmentation", "Penn-Fudan", ("PNGImages/ and PedMasks/",), tuple(items), Labels(), tuple(problems)
    )
    return by_number(folder, layout, "person", first="segmentation")


def _missing(name: str, mask: str) -> Problem:
    message = f"{name}: expected a mask {mask}, found none. Add the mask, or leave the image out with --skip-bad."
    return Problem("mask missing", name, message)
