"""What can be wrong with lists that divide the images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from penstock.kinds.items import FilePart, Problem, named

_SHOWN: Final = 4  # lists in a sentence


def rivals(folder: Path, paths: Sequence[Path]) -> Problem:
    """Several lists of one split, as of folds: which of them divide the images is not known."""
    shown = ", ".join(named(path, folder) for path in paths[:_SHOWN]) + (", ..." if len(paths) > _SHOWN else "")
    message = (
        f"{shown}: expected one list of images for each split, found several. Move those away that are not to divide "
        "the images."
    )
    return Problem("several lists", named(paths[0], folder), message, whole=True)


def folds(folder: Path, path: Path, ways: int) -> Problem:
    """A file of several ways to divide the images, as of folds."""
    place = named(path, folder)
    message = f"{place}: it divides the images in {ways} ways, of which none is read. Leave one there to use it."
    return Problem("list that is not read", place, message, fatal=False, whole=True)


def of_numbers(folder: Path, path: Path) -> Problem:
    """A list with numbers, or other words, in place of the names of splits."""
    place = named(path, folder)
    message = (
        f"{place}: expected the name of an image and train, val or test in each line, found other words. Write the "
        "names of the splits, or move the file away."
    )
    return Problem("list that is not read", place, message, whole=True)


def unread(folder: Path, path: Path, split: str) -> Problem:
    """A list whose lines are no images."""
    place = named(path, folder)
    message = f"{place}: it is called as a list of {split}, but hardly a line names an image: it is not read."
    return Problem("list that is not read", place, message, fatal=False, whole=True)


def unlisted(name: str) -> Problem:
    """An image in none of the lists."""
    message = f"{name}: no list of train, val or test names it. It is left out."
    return Problem("image in no list", name, message, fatal=False)


def contradiction(folder: Path, path: Path, line: int, said: str, image: Path | FilePart, split: str) -> Problem:
    """A list that gives an image another split than its folder does."""
    place = f"{named(path, folder)}, line {line}"
    message = (
        f"{place}: expected the splits that the folders of the images have, found {said} for {named(image, folder)}, "
        f"which is in {split}. Move the images, or move the list away."
    )
    return Problem("list of other splits", place, message, whole=True)
