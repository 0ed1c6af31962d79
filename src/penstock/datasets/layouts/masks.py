"""Image and mask folders: `images/train/a.jpg` with `masks/train/a.png`, or `train/images/...`, or without splits."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock.datasets import class_lists, listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import legend, mask_problems, roles, several
from penstock.datasets.layouts.matching import are_shifted, ending, match
from penstock.datasets.layouts.roles import Pair, Roles
from penstock.datasets.layouts.several import Row
from penstock.errors import DatasetError
from penstock.kinds.items import Item, Labels, Problem, named, unlabelled_split

IMAGES: Final = ("images", "image", "imgs", "img", "JPEGImages")
ALPHAS: Final = ("alphas", "alpha", "mattes", "matte")
MASKS: Final = ("masks", "mask", "labels", "label", "annotations", "SegmentationClass", "gt", "semantic")
_DECATHLON_IMAGES: Final = ("imagesTr", "imagesTs")
_VOC: Final = ("SegmentationObject", "SegmentationClassAug")
_DECATHLON_LABELS: Final = ("labelsTr", "labelsTs")
_PAIR: Final = 2


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
    """The layout by the names of the folders, else by what lies in them; None where neither shows images with masks."""
    images, masks = listing.subfolder(folder, IMAGES), listing.subfolder(folder, MASKS)
    if images and masks and _hold_pairs(images, masks):
        return _with_rivals(_by_kind(folder, images, masks), [(images, masks)])
    every = {split: _named_pair(path) for split, path in listing.splits(folder).items()}
    pairs = {split: pair for split, pair in every.items() if pair[0]}
    if any(masks for _, masks in pairs.values()):
        return _with_rivals(_by_split(folder, pairs), pairs.values())
    if found := roles.find(folder, [name.lower() for name in MASKS]):
        return _by_evidence(folder, found)
    if images:
        return _by_kind(folder, images, masks)
    return _by_split(folder, pairs) if pairs else None


def _with_rivals(found: Layout, pairs: Iterable[tuple[Path | None, Path | None]]) -> Layout:
    """The layout with a problem where a folder whose name says labels fits too: a mask may be of a field of view."""
    for images, masks in pairs:
        if not (images and masks):
            continue
        named_so = (path for path in listing.folders(masks.parent) if roles.LABELS.search(path.name))
        if rival := next((path for path in named_so if path != masks and _hold_pairs(images, path)), None):
            problems = _several(images.name, (), rival.name, (masks.name,))
            return replace(found, problems=(*found.problems, *problems))
    return found


def _named_pair(path: Path) -> tuple[Path | None, Path | None]:
    return listing.subfolder(path, IMAGES), listing.subfolder(path, MASKS)


def _hold_pairs(images: Path, masks: Path) -> bool:
    one, other = (
        {_stem(root, path) for path in listing.files(root) if listing.is_mask(path)} for root in (images, masks)
    )
    return bool(match(one, other))


def _by_evidence(folder: Path, found: Roles) -> Layout:
    about = (
        f"{found.images}/ holds images and {found.masks}/ their masks: the names of their files fit, and those in "
        f"{found.masks}/ have few colours"
    )
    dropped = [pair for pair in found.pairs if pair.masks is None]
    kept = [pair for pair in found.pairs if pair.masks is not None]
    notes = [
        mask_problems.caseless(folder, pair, found.masks)
        if pair.case
        else unlabelled_split(folder, pair.images, folder)
        for pair in dropped
    ]
    home = Path(os.path.commonpath([pair.images.parent for pair in kept]))
    named_by = labels_of(folder) if home == folder or labels_of(folder).classes else labels_of(home)
    layout = paired(folder, kept, "image and mask folders", (about,), named_by, notes)
    several = _several(found.images, found.other_images, found.masks, found.other_masks)
    return replace(layout, problems=(*layout.problems, *several, *_elsewhere(folder, found)))


def _elsewhere(folder: Path, found: Roles) -> Iterator[Problem]:
    """Problems of images in no folder of images or masks: fatal only where they are in pairs of other names."""
    names = {found.images, found.masks, *found.other_images, *found.other_masks}
    roots = [path for pair in found.pairs for path in (pair.images, pair.masks) if path]
    files = [path for path in listing.files(folder) if listing.is_image(path)]
    outside = [path for path in files if names.isdisjoint(path.relative_to(folder).parts[:-1])]
    left = [path for path in outside if not any(path.is_relative_to(root) for root in roots)]
    paired_too = {parent for parent in {path.parent.parent for path in left} if all(_named_pair(parent))}
    for path in left:
        name, is_pair = named(path, folder), path.parent.parent in paired_too
        ways = (
            f"Call both kinds of folders {found.images}/ and {found.masks}/, or move it away"
            if is_pair
            else "It is left out"
        )
        message = f"{name}: it lies beside {found.images}/ and {found.masks}/, and in neither of them. {ways}."
        yield Problem("image in no pair", name, message, fatal=is_pair)


def _several(image: str, other_images: tuple[str, ...], mask: str, other_masks: tuple[str, ...]) -> Iterator[Problem]:
    """The problem of folders that fit as well as the ones that were taken."""
    images, masks = (image, *other_images), (mask, *other_masks)
    if len(images) + len(masks) > _PAIR:
        message = (
            f"{', '.join(f'{name}/' for name in images)}: expected one folder of images and one of their masks, found "
            f"that {', '.join(f'{name}/' for name in masks)} fit. Choose both, for example with --images "
            f"{shlex.quote(images[0])} --masks {shlex.quote(masks[0])}."
        )
        yield Problem("several folders of masks", mask, message, whole=True)


def given(folder: Path, images: str, masks: str) -> Layout:
    """The layout of two folders that the user names.

    Args:
        folder: of the data.
        images: the folder of images, below it or anywhere; or what such folders are called further below.
        masks: that of their masks, or what they are called.

    Raises:
        DatasetError: one is no folder.
    """
    pairs = [] if (folder / images).is_dir() else roles.called(folder, images, masks)
    inside = {split: (path / images, path / masks) for split, path in listing.splits(folder).items()}
    inside = {split: each for split, each in inside.items() if each[0].is_dir() and each[1].is_dir()}
    if not pairs and inside:
        return _by_split(folder, inside)
    if not pairs:
        one, other = _folder_given(folder, images, "--images"), _folder_given(folder, masks, "--masks")
        pairs = [*roles.divided(one, other)]
    about = f"--images and --masks name {images} and {masks}"
    return paired(folder, pairs, "image and mask folders", (about,), labels_of(folder))


def _folder_given(folder: Path, name: str, option: str) -> Path:
    path = folder / name
    if not path.is_dir():
        there = ", ".join(f"{each.name}/" for each in listing.folders(folder)) or "no folders"
        raise DatasetError(
            f"{option} {name}", expected=f"a folder in {folder}", found="none", remedy=f"There are {there}"
        )
    return path


def _by_split(folder: Path, pairs: Mapping[str, tuple[Path | None, Path | None]]) -> Layout:
    every = listing.splits(folder)
    splits = {split: path for split, path in every.items() if split in pairs}
    names = ", ".join(path.name for path in splits.values())
    layout = _layout(
        folder, _as_pairs(pairs), f"split folders {names}, each with images and masks in folders of their own"
    )
    notes = [unlabelled_split(folder, path, path) for split, path in every.items() if split not in splits]
    return replace(layout, problems=(*layout.problems, *notes, *mask_problems.outside(folder, folder, every)))


def _as_pairs(pairs: Mapping[str, tuple[Path | None, Path | None]]) -> list[Pair]:
    return [Pair(split, images, masks) for split, (images, masks) in pairs.items() if images]


def _by_kind(folder: Path, images: Path, masks: Path | None) -> Layout:
    splits = listing.splits(images)
    pairs = [*roles.divided(images, masks)]
    if not splits:
        reason = f"{images.name}/ holds images and no split folders: all of them are training data"
        return _layout(folder, pairs, reason)
    names = ", ".join(path.name for path in splits.values())
    layout = _layout(folder, pairs, f"{images.name}/ is divided into {names}")
    return replace(layout, problems=(*layout.problems, *mask_problems.outside(folder, images, splits)))


def _layout(folder: Path, pairs: Sequence[Pair], reason: str) -> Layout:
    names = (m.relative_to(folder).parts[0] if m.parent != folder else m.name for _, _, m, _ in pairs if m)
    called = next(names, None)
    about = f"masks are found by name in {called}/" if called else "no folder of masks was found"
    return paired(folder, pairs, "image and mask folders", (reason, about), labels_of(folder))


def labels_of(folder: Path) -> Labels:
    """The classes that a file beside the data names: a legend of colours, or a list of names."""
    return legend.find(folder) or legend.nnunet(folder) or Labels(class_lists.read_classes(folder))


def paired(
    folder: Path,
    pairs: Sequence[Pair],
    name: str,
    reasons: tuple[str, ...],
    labels: Labels,
    notes: Sequence[Problem] = (),
) -> Layout:
    """A layout of images and masks that have the same names in two folders, for every split."""
    rows: list[Row] = []
    problems: list[Problem] = []
    ignored: list[str] = []
    unused: dict[Path, None] = {}
    for pair in pairs:
        found, wrong, left, lonely = _pair(folder, pair)
        rows += found
        problems += wrong
        ignored += left
        unused |= dict.fromkeys(lonely)
    used = {mask for row in rows for mask in row.masks}  # by another split, where one folder of masks is for all
    problems += [mask_problems.orphan(folder, path) for path in unused if path not in used]
    rows, divided = _by_masks(folder, rows)
    problems += mask_problems.in_two_splits(folder, rows)
    layout = Layout("segmentation", name, (*reasons, *divided), (), labels, (*problems, *notes), tuple(ignored))
    return with_masks(folder, layout, rows)


def _by_masks(folder: Path, rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """Images of no split in the splits of their masks, such as masks/val/a.png, and a sentence that says so."""
    splits = [{mask_problems.split_of(folder, path) for path in row.masks} for row in rows]
    known = {split for of_row in splits for split in of_row}
    undivided = {row.item.split for row in rows} == {"train"} and not any(
        mask_problems.split_of(folder, row.item.image) for row in rows
    )
    if not undivided or "" in known or "train" not in known or any(len(of_row) != 1 for of_row in splits):
        return [*rows], []
    moved = [row._replace(item=replace(row.item, split=min(found))) for row, found in zip(rows, splits, strict=True)]
    return moved, [f"the splits are those of the masks: {', '.join(sorted(known))}"]


def with_masks(folder: Path, layout: Layout, rows: Sequence[Row]) -> Layout:
    """The layout with images and masks: of classes, raters or objects where most images have several, else one."""
    if several.are_usual(rows) and several.are_binary(rows):
        return several.read(layout, rows)
    again = _in_several_folders(folder, rows) or [
        problem
        for row in rows
        for other in row.masks[1:]
        for problem in mask_problems.twice(folder, other, row.masks[0], "mask")
    ]
    items = tuple(replace(row.item, label=row.masks[0]) if row.masks else row.item for row in rows)
    return replace(layout, items=items, problems=(*layout.problems, *again, *mask_problems.shared(folder, rows)))


def _in_several_folders(folder: Path, rows: Sequence[Row]) -> list[Problem]:
    """The problem of images that have a mask in each of several folders, by their names below those of the splits."""
    first = next((row for row in rows if len(row.masks) > 1), None)
    if first is None:
        return []
    likely_first = sorted(first.masks, key=lambda path: not roles.LABELS.search(path.parent.name))
    images, *masks = (_below_splits(named(path, folder)) for path in (first.item.image, *likely_first))
    return [*_several(images, (), masks[0], tuple(masks[1:]))] if len({*masks}) == len(masks) else []


def _below_splits(name: str) -> str:
    above = name.split("/")[:-1]
    return "/".join(above[1:] if above and listing.split_of(above[0]) else above)


def labelled(folder: Path, splits: Mapping[str, tuple[Path, Path]]) -> tuple[list[Pair], list[Problem]]:
    """The splits whose folder of labels is there, and notes of the others."""
    there = [Pair(split, path, beside) for split, (path, beside) in splits.items() if beside.is_dir()]
    known = {pair.split for pair in there}
    return there, [unlabelled_split(folder, *pair) for split, pair in splits.items() if split not in known]


def _pair(folder: Path, pair: Pair) -> tuple[list[Row], list[Problem], list[str], list[Path]]:
    """Match the images of two folders with their masks by name.

    Returns:
        The images, problems, files that are no images, and masks without an image.
    """
    images, problems, ignored = _images(folder, pair.images)
    masks: dict[str, Path] = {}
    for path in listing.files(pair.masks) if pair.masks else []:
        if listing.is_mask(path) and masks.setdefault(_stem(pair.masks or path, path), path) is not path:
            problems += mask_problems.twice(folder, path, masks[_stem(pair.masks or path, path)], "mask")
    alone = pair.case and len(images) == 1  # a folder for each image: whatever its masks are called, they are its own
    found = {next(iter(images)): [*masks]} if alone else match(images, masks)
    rows = []
    for stem, path in images.items():
        names = found.get(stem, [])
        name = f"{pair.case}/{stem}" if pair.case else stem
        item = Item(pair.split, name, path)
        rows.append(Row(item, [masks[name] for name in names], [ending(stem, name) for name in names]))
    end = _usual_end(rows)
    problems += [mask_problems.no_mask(folder, row.item.image, pair, end) for row in rows if not row.masks]
    problems += [mask_problems.shifted(folder, pair)] if are_shifted(images, masks, found) else []
    known = {name for names in found.values() for name in names}
    return rows, problems, ignored, [path for name, path in masks.items() if name not in known]


def _images(folder: Path, images: Path) -> tuple[dict[str, Path], list[Problem], list[str]]:
    """The images of a folder by name, those of one name twice, and the files that are none."""
    found: dict[str, Path] = {}
    problems: list[Problem] = []
    ignored: list[str] = []
    for path in listing.files(images):
        if not listing.is_image(path):
            ignored.append(str(path.relative_to(folder)))
        elif found.setdefault(_stem(images, path), path) is not path:
            problems += mask_problems.twice(folder, path, found[_stem(images, path)], "image")
    return found, problems, ignored


def _stem(root: Path, path: Path) -> str:
    return listing.composed(path.relative_to(root).with_suffix("").as_posix())


def _usual_end(rows: Sequence[Row]) -> str:
    """What most masks have behind the names of their images, with the suffix; "" for other names."""
    pairs = [(row.masks[0].name, row.item.image.stem) for row in rows if row.masks and isinstance(row.item.image, Path)]
    ends = Counter(name.removeprefix(stem) if name.startswith(stem) else "" for name, stem in pairs)
    return ends.most_common(1)[0][0] if ends else ".png"
