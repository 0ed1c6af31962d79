"""Image and mask folders: `images/train/a.jpg` with `masks/train/a.png`, or `train/images/...`, or without splits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import legend
from penstock.kinds.items import FilePart, Item, Labels, Problem, named, unlabelled_split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

IMAGES: Final = ("images", "image", "imgs", "img", "JPEGImages")
ALPHAS: Final = ("alphas", "alpha", "mattes", "matte")
MASKS: Final = ("masks", "mask", "labels", "label", "annotations", "SegmentationClass", "gt")
ENDS: Final = (
    "_mask", "_masks", "_cp_masks", "_label", "_labels", "_gt", "_seg", "_segmentation", "_instances", "_L", "_P"
)  # fmt: skip
"""What the names of masks have behind those of their images; Cellpose writes `_cp_masks`."""
_DECATHLON_IMAGES: Final = ("imagesTr", "imagesTs")
_VOC: Final = ("SegmentationObject", "SegmentationClassAug")
_DECATHLON_LABELS: Final = ("labelsTr", "labelsTs")
_SUFFIXES: Final = ("", *ENDS)
_MOSTLY: Final = 0.5  # of the images have a mask of their name


def is_mask(path: Path, folder: Path) -> bool:
    """Whether a file lies, below `folder`, in a folder of masks that has one of images beside it."""
    inside = path.relative_to(folder).parts
    return any(_holds_masks(folder.joinpath(*inside[:depth])) for depth in range(1, len(inside)))


def _holds_masks(folder: Path) -> bool:
    if folder.name.endswith("annot") and folder.name != "annot":  # CamVid's
        return (folder.parent / folder.name.removesuffix("annot")).is_dir()
    if folder.name in {"gtFine", "gtCoarse"}:  # of Cityscapes
        return (folder.parent / "leftImg8bit").is_dir()
    named = folder.name.lower() in {name.lower() for name in (*MASKS, *ALPHAS, *_VOC, *_DECATHLON_LABELS)}
    return named and listing.subfolder(folder.parent, (*IMAGES, *_DECATHLON_IMAGES)) is not None


def recognise(folder: Path) -> Layout | None:
    """The layout, or None where there are no folders with such names."""
    images = _images(folder)
    if images is not None:
        return _by_kind(folder, images, listing.subfolder(folder, MASKS))
    every = {split: (_images(path), listing.subfolder(path, MASKS)) for split, path in listing.splits(folder).items()}
    pairs = {split: pair for split, pair in every.items() if pair[0]}
    if not pairs:
        return None
    return _by_split(folder, pairs)


def _by_split(folder: Path, pairs: Mapping[str, tuple[Path | None, Path | None]]) -> Layout:
    every = listing.splits(folder)
    splits = {split: path for split, path in every.items() if split in pairs}
    names = ", ".join(path.name for path in splits.values())
    layout = _layout(folder, pairs, f"split folders {names}, each with images and masks in folders of their own")
    notes = [unlabelled_split(folder, path, path) for split, path in every.items() if split not in splits]
    return replace(layout, problems=(*layout.problems, *notes, *outside(folder, folder, every)))


def _images(folder: Path) -> Path | None:
    """The folder of images: one that is called so, or else one beside masks that have the names of its images."""
    if called := listing.subfolder(folder, IMAGES):
        return called
    masks = listing.subfolder(folder, MASKS)
    if masks is None:
        return None
    masked = {_stem(masks, path) for path in listing.files(masks) if listing.is_mask(path)}
    others = [path for path in listing.folders(folder) if path != masks] if masked else []
    found = [path for path in others if _are_masked(path, masked)]
    return found[0] if len(found) == 1 else None


def _are_masked(folder: Path, masked: set[str]) -> bool:
    """Whether most images of a folder have a mask of their name."""
    stems = [_stem(folder, path) for path in listing.files(folder) if listing.is_image(path)]
    fitting = sum(any(stem + end in masked for end in _SUFFIXES) for stem in stems)
    return fitting > _MOSTLY * len(stems)


def _by_kind(folder: Path, images: Path, masks: Path | None) -> Layout:
    splits = listing.splits(images)
    if not splits:
        reason = f"{images.name}/ holds images and no split folders: all of them are training data"
        return _layout(folder, {"train": (images, masks)}, reason)
    mask_splits = listing.splits(masks) if masks else {}
    pairs = {split: (path, mask_splits.get(split)) for split, path in splits.items()}
    names = ", ".join(path.name for path in splits.values())
    layout = _layout(folder, pairs, f"{images.name}/ is divided into {names}")
    return replace(layout, problems=(*layout.problems, *outside(folder, images, splits)))


def outside(folder: Path, root: Path, splits: Mapping[str, Path]) -> list[Problem]:
    """Notes of the images below `root` that lie in none of its splits, and are left out."""
    loose = [path for path in listing.files(root) if not any(path.is_relative_to(split) for split in splits.values())]
    return [_outside(folder, path) for path in loose if listing.is_image(path)]


def _outside(folder: Path, path: Path) -> Problem:
    name = path.relative_to(folder).as_posix()
    message = f"{name}: expected an image in train, val or test, found it outside. Move it there, or leave it out."
    return Problem("outside the splits", name, message, fatal=False)


def _layout(folder: Path, pairs: Mapping[str, tuple[Path | None, Path | None]], reason: str) -> Layout:
    masks_named = next(
        (m.relative_to(folder).parts[0] if m.parent != folder else m.name for _, m in pairs.values() if m), None
    )
    about = f"masks are found by name in {masks_named}/" if masks_named else "no folder of masks was found"
    return paired(folder, pairs, "image and mask folders", (reason, about), labels_of(folder))


def labels_of(folder: Path) -> Labels:
    """The classes that a file beside the data names: a legend of colours, or a list of names."""
    return legend.find(folder) or Labels(listing.read_classes(folder))


def paired(
    folder: Path,
    pairs: Mapping[str, tuple[Path | None, Path | None]],
    name: str,
    reasons: tuple[str, ...],
    labels: Labels,
    notes: Sequence[Problem] = (),
) -> Layout:
    """A layout of images and masks that have the same names in two folders, for every split."""
    items: list[Item] = []
    problems: list[Problem] = []
    ignored: list[str] = []
    for split, (images, masks) in pairs.items():
        if images is None:
            continue
        found, wrong, left = _pair(folder, split, images, masks)
        items += found
        problems += wrong
        ignored += left
    return Layout("segmentation", name, reasons, tuple(items), labels, (*problems, *notes), tuple(ignored))


def labelled(
    folder: Path, splits: Mapping[str, tuple[Path, Path]]
) -> tuple[dict[str, tuple[Path, Path]], list[Problem]]:
    """The splits whose folder of labels is there, and notes of the others."""
    there = {split: (path, beside) for split, (path, beside) in splits.items() if beside.is_dir()}
    return there, [unlabelled_split(folder, *pair) for split, pair in splits.items() if split not in there]


def _pair(folder: Path, split: str, images: Path, masks: Path | None) -> tuple[list[Item], list[Problem], list[str]]:
    """Match the images of a split with their masks by name."""
    files = [path for path in listing.files(masks) if listing.is_mask(path)] if masks else []
    waiting: dict[str, Path] = {}
    items: dict[str, Item] = {}
    problems: list[Problem] = []
    ignored: list[str] = []
    missing: list[Path] = []
    for path in files:
        first = waiting.setdefault(_stem(masks or images, path), path)
        if first is not path:
            problems += twice(folder, path, first, "mask")
    for path in listing.files(images):
        name = _stem(images, path)
        if not listing.is_image(path):
            ignored.append(str(path.relative_to(folder)))
            continue
        if name in items:
            problems += twice(folder, path, items[name].image, "image")
            continue
        mask = next((waiting.pop(name + s) for s in _SUFFIXES if name + s in waiting), None)
        items[name] = Item(split, name, path, mask=mask)
        if mask is None:
            missing.append(path)
    end = _usual_end(items)
    problems += [_no_mask(folder, path, images, masks, end) for path in missing]
    for name, path in waiting.items():
        own = next((items[stem] for end in _SUFFIXES if (stem := name.removesuffix(end)) in items), None)
        problems += twice(folder, path, own.mask, "mask") if own and own.mask else [_orphan(folder, path)]
    return list(items.values()), problems, ignored


def _stem(root: Path, path: Path) -> str:
    return path.relative_to(root).with_suffix("").as_posix()


def _usual_end(items: Mapping[str, Item]) -> str:
    """What most masks have behind the names of their images, with the suffix of the file."""
    ends = Counter(
        item.mask.name.removeprefix(item.image.stem)
        for item in items.values()
        if isinstance(item.image, Path) and isinstance(item.mask, Path)
    )
    return ends.most_common(1)[0][0] if ends else ".png"


def _no_mask(folder: Path, path: Path, images: Path, masks: Path | None, end: str) -> Problem:
    """The problem of an image without a mask, which names the one that is missing as the others are named."""
    name = path.relative_to(folder).as_posix()
    wanted = named((masks / path.relative_to(images)).with_name(path.stem + end), folder) if masks else "in masks/"
    message = f"{name}: expected a mask {wanted}, found none. Add the mask, or leave the image out with --skip-bad."
    return Problem("mask missing", name, message)


def twice(folder: Path, path: Path, first: Path | FilePart, what: str) -> list[Problem]:
    """A problem for each of two files, as it is not known which of them is meant."""
    one, other = named(first, folder), named(path, folder)
    said = f"expected one {what} of this name, found {{}} too. Rename or remove one of them."
    kind = f"two {what}s of one name"
    return [Problem(kind, a, f"{a}: {said.format(b)}") for a, b in ((one, other), (other, one))]


def _orphan(folder: Path, path: Path) -> Problem:
    name = path.relative_to(folder).as_posix()
    message = f"{name}: expected an image of the same name, found none. Add the image, or remove the mask."
    return Problem("image missing", name, message)
