"""Masks that only their names tell apart: `a_mask.png` beside `a.jpg`, or a folder `train_masks/` beside `train/`."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import masks
from penstock.kinds.items import Item, Problem, named, unlabelled_split

if TYPE_CHECKING:
    from pathlib import Path

_FOLDERS: Final = ("_masks", "_mask", "_labels", "_label", "_annotations")
_ARRAY: Final = ".npy"  # of Cellpose, beside the same mask as an image
_ISIC: Final = ("_Input", "_GroundTruth")


def recognise(folder: Path) -> Layout | None:
    """Folders of masks beside folders of images, else masks beside their images in one folder."""
    return _beside(folder) or _inputs(folder) or _among(folder)


def _beside(folder: Path) -> Layout | None:
    """`train/` and `train_masks/`, as Carvana's are called."""
    splits = {split: (path, _masks_of(path)) for split, path in listing.splits(folder).items()}
    pairs: dict[str, tuple[Path | None, Path | None]] = {
        s: (path, beside) for s, (path, beside) in splits.items() if beside
    }
    if not pairs:
        return None
    names = ", ".join(f"{images.name}/ with {beside.name}/" for images, beside in pairs.values() if images and beside)
    left = [unlabelled_split(folder, path, folder) for split, (path, _) in splits.items() if split not in pairs]
    return masks.paired(folder, pairs, "image folders and mask folders", (names,), masks.labels_of(folder), left)


def _inputs(folder: Path) -> Layout | None:
    """Folders such as `ISIC2018_Task1-2_Training_Input` and `ISIC2018_Task1_Training_GroundTruth`."""
    inputs, truths = (
        {_split(path): path for path in listing.folders(folder) if path.name.endswith(end)} for end in _ISIC
    )
    pairs: dict[str, tuple[Path | None, Path | None]] = {
        split: (path, truths[split])
        for split, path in inputs.items()
        if split in truths and any(map(listing.is_mask, listing.files(truths[split])))
    }
    if not pairs:
        return None
    names = ", ".join(f"{images.name}/ with {beside.name}/" for images, beside in pairs.values() if images and beside)
    left = [unlabelled_split(folder, path, folder) for split, path in inputs.items() if split not in pairs]
    return masks.paired(folder, pairs, "image folders and mask folders", (names,), masks.labels_of(folder), left)


def _split(path: Path) -> str:
    """The split that a word of a folder's name is."""
    return next(filter(None, map(listing.split_of, path.name.split("_"))), "train")


def _masks_of(images: Path) -> Path | None:
    beside = (images.with_name(f"{images.name}{end}") for end in _FOLDERS)
    return next((path for path in beside if path.is_dir()), None)


def _among(folder: Path) -> Layout | None:
    """Images and masks in one folder, or in one folder for each case."""
    divided = listing.splits(folder)
    items: list[Item] = []
    problems: list[Problem] = masks.outside(folder, folder, divided) if divided else []
    for split, root in (divided or {"train": folder}).items():
        found, wrong = _pairs(folder, split, root)
        items += found
        problems += wrong
    if not any(item.mask for item in items):
        return None
    ends = sorted({item.mask.stem.removeprefix(item.image.stem) for item in items if item.mask})  # type: ignore[union-attr]
    reason = f"masks beside the images, named by {', '.join(ends)}"
    return Layout(
        "segmentation",
        "images and masks in one folder",
        (reason, f"splits: {', '.join(divided)}" if divided else "no train/, val/ or test/: all images are in train"),
        tuple(_grouped(items, folder)),
        masks.labels_of(folder),
        tuple(problems),
    )


def _pairs(folder: Path, split: str, root: Path) -> tuple[list[Item], list[Problem]]:
    files = [path for path in listing.files(root) if listing.is_mask(path)]
    stems: dict[Path, list[Path]] = defaultdict(list)
    for path in files:
        stems[path.with_suffix("")].append(path)
    owner = {path: own for path in files if (own := _owner(path, stems))}
    mask_of: dict[Path, Path] = {}
    items, problems = [], []
    for path in sorted(owner, key=lambda path: path.suffix.lower() == _ARRAY):
        first = mask_of.setdefault(owner[path], path)
        if first is not path and path.suffix.lower() != _ARRAY:
            problems += masks.twice(folder, path, first, "mask")
    usual = Counter(mask.name.removeprefix(own.name) for own, mask in mask_of.items()).most_common(1)
    masked = {own.parent for own in mask_of}
    for path in files:
        if path in owner or not listing.is_image(path):
            continue
        name = path.relative_to(root).with_suffix("").as_posix()
        items.append(Item(split, name, path, mask=mask_of.get(path.with_suffix(""))))
        if path.with_suffix("") not in mask_of:
            problems.append(_no_mask(folder, path, usual[0][0] if usual else "", alone=path.parent not in masked))
    return items, problems


def _owner(path: Path, stems: dict[Path, list[Path]]) -> Path | None:
    """The image that a mask belongs to, without its suffix."""
    plain = (path.with_name(path.stem.removesuffix(end)) for end in masks.ENDS if path.stem.endswith(end))
    return next((own for own in plain if own in stems), None)


def _no_mask(folder: Path, image: Path, end: str, *, alone: bool) -> Problem:
    """The problem of an image whose mask is missing.

    Args:
        folder: of the data.
        image: its path.
        end: what masks of other images have behind the name of the image.
        alone: whether its folder has no masks at all.
    """
    name = named(image, folder)
    remedy = "Add the mask, or leave the image out with --skip-bad."
    if alone:
        remedy = f"No image in {image.parent.name}/ has one. {remedy} Images without masks can be predicted."
    return Problem("mask missing", name, f"{name}: expected a mask {image.stem}{end} beside it, found none. {remedy}")


def _grouped(items: list[Item], folder: Path) -> list[Item]:
    """Images of a folder of their own belong together, where there are many folders of several images: slices of a
    case are alike.
    """
    parents = defaultdict(list)
    for item in items:
        parents[item.image.parent].append(item)  # type: ignore[union-attr]
    if len(parents) <= len(listing.SPLITS) or min(len(each) for each in parents.values()) <= 1:
        return items
    return [replace(item, group=named(item.image.parent, folder)) for item in items]  # type: ignore[union-attr]
