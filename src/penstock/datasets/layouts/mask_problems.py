"""What can be wrong with images and their masks, as folders hold them."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from penstock.datasets import listing
from penstock.datasets.layouts.roles import Pair
from penstock.datasets.layouts.several import Row
from penstock.kinds.items import FilePart, Problem, named


def split_of(folder: Path, path: Path | FilePart) -> str:
    """The split of the first folder that names one; "" for none."""
    return next(filter(None, map(listing.split_of, named(path, folder).split("/")[:-1])), "")


def outside(folder: Path, root: Path, splits: Mapping[str, Path]) -> list[Problem]:
    """Notes of the images below `root` that lie in none of its splits, and are left out."""
    loose = [path for path in listing.files(root) if not any(path.is_relative_to(split) for split in splits.values())]
    return [_outside(folder, path) for path in loose if listing.is_image(path)]


def _outside(folder: Path, path: Path) -> Problem:
    name = path.relative_to(folder).as_posix()
    message = f"{name}: expected an image in train, val or test, found it outside. Move it there, or leave it out."
    return Problem("outside the splits", name, message, fatal=False)


def caseless(folder: Path, pair: Pair, masks: str) -> Problem:
    """A note of a folder of images without one of masks beside it."""
    name = named(pair.images, folder)
    message = f"{name}: there is no {masks}/ beside it: it is left out."
    return Problem("no masks beside it", name, message, fatal=False)


def no_mask(folder: Path, image: Path | FilePart, pair: Pair, end: str) -> Problem:
    """The problem of an image without a mask, which names the one that is missing as the others are named."""
    name, wanted, found = named(image, folder), "in masks/", "none"
    if pair.masks and isinstance(image, Path):
        place = pair.masks / image.relative_to(pair.images)
        wanted = named(place.with_name(place.stem + end), folder) if end else f"in {named(place.parent, folder)}/"
        found = next((path.name for path in listing.plain(place.parent, f"{glob.escape(place.stem)}.*")), "none")
    message = f"{name}: expected a mask {wanted}, found {found}. Add the mask, or leave the image out with --skip-bad."
    return Problem("mask missing", name, message)


def orphan(folder: Path, path: Path) -> Problem:
    """A mask without an image of its name."""
    name = path.relative_to(folder).as_posix()
    message = f"{name}: expected an image of the same name, found none. Add the image, or remove the mask."
    return Problem("image missing", name, message)


def shifted(folder: Path, pair: Pair) -> Problem:
    """Images and masks whose numbers begin otherwise."""
    name, masks = named(pair.images, folder), named(pair.masks or folder, folder)
    message = (
        f"{name} and {masks}: expected images and masks of equal numbers, found that they count from different ones. "
        "Rename either, so that an image and its mask have one number. If an image and a mask are missing instead, "
        "remove those that are alone."
    )
    return Problem("numbers that begin otherwise", name, message, whole=True)


def twice(folder: Path, path: Path, first: Path | FilePart, what: str) -> list[Problem]:
    """A problem for each of two files, as it is not known which of them is meant."""
    one, other = named(first, folder), named(path, folder)
    remedy = "Put both into one mask, or remove one" if what == "mask" else "Rename or remove one of them"
    said = f"expected one {what} of this name, found {{}} too. {remedy}."
    kind = f"two {what}s of one name"
    return [Problem(kind, a, f"{a}: {said.format(b)}") for a, b in ((one, other), (other, one))]


def shared(folder: Path, rows: Sequence[Row]) -> Iterator[Problem]:
    """Images that are given one mask, as their splits are in folders and the masks in none."""
    of_mask: dict[Path, list[Row]] = {}
    for row in rows:
        for mask in row.masks:
            of_mask.setdefault(mask, []).append(row)
    for mask, sharing in of_mask.items():
        names = [named(row.item.image, folder) for row in sharing]
        for name in names if len(names) > 1 else ():
            other = next(each for each in names if each != name)
            message = (
                f"{name}: expected a mask of its own, found {named(mask, folder)}, which is that of {other} too. "
                "Divide the masks into folders as the images are."
            )
            yield Problem("one mask for two images", name, message)


def in_two_splits(folder: Path, rows: Sequence[Row]) -> list[Problem]:
    """The problem of an image that has masks in the folders of several splits."""
    for row in rows:
        splits = {split for path in row.masks if (split := split_of(folder, path))}
        if len(splits) > 1:
            name = named(row.item.image, folder)
            message = (
                f"{name}: expected its mask in the folder of one split, found {named(row.masks[0], folder)} and "
                f"{named(row.masks[-1], folder)}. Divide the images into folders as the masks are."
            )
            return [Problem("masks in two splits", name, message, whole=True)]
    return []
