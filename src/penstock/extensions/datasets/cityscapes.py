"""Cityscapes (Cordts et al. 2016): the 34 label ids become the 19 train ids, as cityscapesscripts' labels.py says."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import published
from penstock.datasets.layouts.mask_problems import outside
from penstock.datasets.layouts.masks import labels_of
from penstock.kinds.items import Item, Labels, Problem

CLASSES: Final = (
    "road", "sidewalk", "building", "wall", "fence", "pole", "traffic light", "traffic sign", "vegetation", "terrain",
    "sky", "person", "rider", "car", "truck", "bus", "train", "motorcycle", "bicycle",
)  # fmt: skip
LABEL_IDS: Final = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
"""The label id of every train id."""

_IDS: Final = 34
_IMAGES: Final = 2975  # of train
_IMAGE = "_leftImg8bit.png"
_FINE, _COARSE, _EXTRA = "gtFine", "gtCoarse", "train_extra"


_ARCHIVES = {_FINE: "gtFine_trainvaltest.zip", _COARSE: "gtCoarse.zip"}


def recognise(folder: Path) -> Layout | None:
    """`leftImg8bit/` and `gtFine/`, each divided into splits and cities. Of `gtCoarse/` the 19,998 images of
    `train_extra` are a split by themselves; where it is there alone, all masks are its coarse ones.
    """
    images, fine = folder / "leftImg8bit", folder / _FINE
    if not images.is_dir() or not (fine.is_dir() or (folder / _COARSE).is_dir()):
        return None
    items: list[Item] = []
    problems: list[Problem] = []
    extra = {_EXTRA: images / _EXTRA} if (images / _EXTRA).is_dir() and (folder / _COARSE / _EXTRA).is_dir() else {}
    for split, root in {**listing.splits(images), **extra}.items():
        if split == "test":  # its masks are kept by the benchmark
            continue
        kind = _COARSE if split == _EXTRA or not fine.is_dir() else _FINE
        for path in listing.files(root):
            if not path.name.endswith(_IMAGE):
                continue
            stem = path.relative_to(images).as_posix().removesuffix(_IMAGE)
            mask = folder / kind / f"{stem}_{kind}_labelIds.png"
            items.append(Item(split, stem.partition("/")[2], path, label=mask if mask.is_file() else None))
            if not mask.is_file():
                problems.append(_no_mask(path.relative_to(folder).as_posix(), mask.relative_to(folder).as_posix()))
    problems += outside(folder, images, {**listing.splits(images), **extra})
    kinds = [kind for kind in (_FINE, _COARSE) if (folder / kind).is_dir()]
    reasons = (
        f"leftImg8bit/ and {'/, '.join(kinds)}/",
        "34 label ids become 19 train ids; the test split has no labels",
    )
    labels = Labels(CLASSES, 255, to_train_ids())
    legend = labels_of(folder)
    own = legend.classes
    if not own:
        problems += published.doubt(folder, "Cityscapes", items, _IMAGES)
    if own and not set(own) <= {*CLASSES}:  # another data set in folders of the same names
        labels = Labels(own)
        if not legend.colors and own[0].lower() != "background":
            problems.append(_no_background(str(folder), own[0]))
        reasons = (reasons[0], "the classes are those of a file beside them, and label ids are taken as they are")
    return Layout("segmentation", "Cityscapes", reasons, tuple(items), labels, tuple(problems))


def to_train_ids() -> dict[int, int]:
    """Label ids to train ids; what is not evaluated, and the id of license plates, become 255."""
    trained = {label: train for train, label in enumerate(LABEL_IDS)}
    return {**{label: trained.get(label, 255) for label in range(_IDS)}, 255: 255}


def _no_background(name: str, first: str) -> Problem:
    message = (
        f"{name}: expected background as the first of the classes, as the tools that write such folders give id 0 to "
        f"it, found {first}. Write it in front of them if it is missing, or name all classes with --classes and choose "
        "--layout masks with --images leftImg8bit --masks gtFine."
    )
    return Problem("no background", name, message, whole=True)


def _no_mask(name: str, mask: str) -> Problem:
    message = (
        f"{name}: expected a mask {mask}, found none. Extract {_ARCHIVES[mask.partition('/')[0]]} beside leftImg8bit."
    )
    return Problem("mask missing", name, message)
