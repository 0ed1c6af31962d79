"""Cityscapes (Cordts et al. 2016): the 34 label ids become the 19 train ids, as cityscapesscripts' labels.py says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.datasets import listing
from penstock.datasets.items import Item, Labels, Layout, Problem

if TYPE_CHECKING:
    from pathlib import Path

CLASSES: Final = (
    "road", "sidewalk", "building", "wall", "fence", "pole", "traffic light", "traffic sign", "vegetation", "terrain",
    "sky", "person", "rider", "car", "truck", "bus", "train", "motorcycle", "bicycle",
)  # fmt: skip
LABEL_IDS: Final = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
"""The label id of every train id."""

_IDS: Final = 34
_PICTURE, _MASK = "_leftImg8bit.png", "_gtFine_labelIds.png"


def recognise(folder: Path) -> Layout | None:
    """`leftImg8bit/` and `gtFine/`, each divided into splits and cities."""
    images, fine = folder / "leftImg8bit", folder / "gtFine"
    if not images.is_dir() or not fine.is_dir():
        return None
    items: list[Item] = []
    problems: list[Problem] = []
    for split, root in listing.splits(images).items():
        if split == "test":  # its masks are kept by the benchmark
            continue
        for path in listing.files(root):
            if not path.name.endswith(_PICTURE):
                continue
            stem = path.relative_to(images).as_posix().removesuffix(_PICTURE)
            mask = fine / f"{stem}{_MASK}"
            items.append(Item(split, stem.partition("/")[2], path, mask=mask if mask.is_file() else None))
            if not mask.is_file():
                problems.append(_no_mask(path.relative_to(folder).as_posix(), mask.relative_to(folder).as_posix()))
    reasons = ("leftImg8bit/ and gtFine/", "34 label ids become 19 train ids; the test split has no labels")
    return Layout(
        "segmentation", "Cityscapes", reasons, tuple(items), Labels(CLASSES, 255, to_train_ids()), tuple(problems)
    )


def to_train_ids() -> dict[int, int]:
    """Label ids to train ids; what is not evaluated, and the id of license plates, become 255."""
    trained = {label: train for train, label in enumerate(LABEL_IDS)}
    return {**{label: trained.get(label, 255) for label in range(_IDS)}, 255: 255}


def _no_mask(name: str, mask: str) -> Problem:
    message = f"{name}: expected a mask {mask}, found none. Extract gtFine_trainvaltest.zip beside leftImg8bit."
    return Problem("mask missing", name, message)
