"""Image-per-class folders: `train/cat/a.jpg`, or `cat/a.jpg` without splits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts.masks import IMAGES, MASKS, outside
from penstock.errors import ImageError
from penstock.images import probe
from penstock.kinds.items import Item, Labels, Problem, named

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_PAIR: Final = 2
_LOOKED_AT: Final = 8


def recognise(folder: Path) -> Layout | None:
    """The layout, or None where no subfolder holds images."""
    divided = listing.splits(folder)
    splits = divided or {"train": folder}
    classes = sorted({name for path in splits.values() for name in _classes(path)})
    if not any(listing.is_image(path) for root in splits.values() for path in listing.files(root)) or not classes:
        return None
    items: list[Item] = []
    problems = outside(folder, folder, divided) if divided else []
    problems += [note for root in splits.values() for note in _doubts(folder, root)]
    ignored: list[str] = []
    for split, root in splits.items():
        names: set[str] = set()
        for path in listing.files(root):
            inside = path.relative_to(root)
            if not listing.is_image(path):
                ignored.append(str(path.relative_to(folder)))
                continue
            if len(inside.parts) == 1:
                problems.append(_classless(named(path, folder)))
                continue
            name = inside.with_suffix("").as_posix()
            if name in names:  # a.jpg and a.png
                name = inside.as_posix()
            names.add(name)
            items.append(Item(split, name, path, label=classes.index(inside.parts[0])))
        problems += _empty_classes(folder, split, root, classes, items)
    how = f"splits: {', '.join(splits)}" if divided else "no train/, val/ or test/: all images are in train"
    reasons = f"each folder with images is a class; found {len(classes)}", how
    return Layout(
        "classification",
        "one folder per class",
        reasons,
        tuple(items),
        Labels(tuple(classes)),
        tuple(problems),
        tuple(ignored),
    )


def _classless(name: str) -> Problem:
    message = f"{name}: expected an image in the folder of a class, found it beside them: it is left out."
    return Problem("image in no class", name, message, fatal=False)


def _classes(root: Path) -> list[str]:
    return [path.name for path in listing.folders(root)]


def _doubts(folder: Path, root: Path) -> Iterator[Problem]:
    """Notes of folders that look as if they were no classes: data sets, or images and their masks."""
    folders = [root / name for name in sorted(_classes(root))]
    if folders and all(_holds_pair(path) for path in folders):
        yield _data_sets(folder, folders)
        return
    for path in folders:
        if inside := _parts(path):
            name = named(path, folder)
            message = (
                f"{name}: it is taken for a class, but holds {' and '.join(inside)}. If it is a data set by itself, "
                "inspect and pack that folder."
            )
            yield Problem("data set as a class", name, message, fatal=False, whole=True)
    if len(folders) == _PAIR and _are_masks(*folders):
        one, other = (named(path, folder) for path in folders)
        message = (
            f"{one}: it and {other} are taken for classes, but hold images of the same names, in one of them of one "
            "channel. If those are masks, call the folders images/ and masks/."
        )
        yield Problem("masks as a class", one, message, fatal=False, whole=True)


def _parts(path: Path) -> list[str]:
    """The folders that make a data set of a folder: images and masks, or splits."""
    pair = [listing.subfolder(path, names) for names in (IMAGES, MASKS)]
    return [f"{each.name}/" for each in (pair if all(pair) else listing.splits(path).values()) if each]


def _holds_pair(path: Path) -> bool:
    """Whether a folder holds images and masks, by itself or in splits."""
    places = [path, *listing.splits(path).values()]
    return any(all(listing.subfolder(place, names) for names in (IMAGES, MASKS)) for place in places)


def _data_sets(folder: Path, folders: Sequence[Path]) -> Problem:
    """The folder holds data sets, and no classes."""
    names = ", ".join(named(path, folder) for path in folders[:_LOOKED_AT]) + ", ..." * (len(folders) > _LOOKED_AT)
    message = (
        f"{names}: expected a folder for each class, found images and masks in every folder. Inspect and pack each of "
        "them by itself."
    )
    return Problem("data sets as classes", named(folders[0], folder), message, whole=True)


def _are_masks(one: Path, other: Path) -> bool:
    """Whether two folders hold images of the same names, with one channel in one of them and more in the other."""
    first, second = (
        {path.relative_to(root).with_suffix(""): path for path in filter(listing.is_image, listing.files(root))}
        for root in (one, other)
    )
    if not first or first.keys() != second.keys():
        return False
    try:
        gray = [
            {probe(path.read_bytes(), "").channels == 1 for path in [*each.values()][:_LOOKED_AT]}
            for each in (first, second)
        ]
    except (ImageError, OSError):
        return False
    return gray in ([{True}, {False}], [{False}, {True}])


def _empty_classes(folder: Path, split: str, root: Path, classes: list[str], items: list[Item]) -> list[Problem]:
    """Classes without an image: fatal in training, where the class could never be learnt."""
    present = {item.label for item in items if item.split == split}
    missing = [name for label, name in enumerate(classes) if label not in present]
    return [
        Problem(
            "class without images",
            (root / name).relative_to(folder).as_posix(),
            f"{(root / name).relative_to(folder).as_posix()}: expected images of class {name} in split {split}, "
            "found none. Add some, or remove the class from all splits.",
            fatal=split == "train",
            whole=True,
        )
        for name in missing
    ]
