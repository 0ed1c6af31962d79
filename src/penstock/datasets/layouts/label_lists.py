"""Lists of images with a label each: lines `IMAGE LABEL`, as Caffe, MMPreTrain and ImageNet's lists have them."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from penstock.datasets import class_lists, listing
from penstock.datasets.layouts.csv_files import BEYOND
from penstock.datasets.layouts.lookup import Images, plain
from penstock.errors import DatasetError
from penstock.kinds.items import Problem, named

Row = Mapping[str, str]

NAME: Final = "lists of labels"
SUFFIXES: Final = (".txt", ".lst")
FILE: Final = "file"
LABEL: Final = "label"
_OF_CLASSES: Final = {*class_lists.CLASS_FILES} - {"labels.txt"}
_LOOKED_AT: Final = 20  # lines
_MOSTLY: Final = 0.5  # of them name an image
_PAIR: Final = 2
_OF_SPLITS: Final = re.compile(r"(?<![a-z])(splits?|folds?)(?![a-z])", re.IGNORECASE)


def find(folder: Path, places: Iterable[Path]) -> dict[Path, dict[int, Row]]:
    """The rows of the lists in some folders, by line, with the columns `FILE` and `LABEL`. Numbers are replaced by the
    names of classes: those of the folder's file of classes, counted from 0 or from 1, or else those of the folders
    that hold the images, where each holds the images of one number.
    """
    lists = (path for place in places for path in listing.plain(place, *(f"*{suffix}" for suffix in SUFFIXES)))
    paths = [path for path in lists if not is_of_splits(path) and path.name not in _OF_CLASSES]
    images = Images(folder)
    found = {path: rows for path in paths if (rows := _rows(path, images))}
    names = _names(folder, [row for rows in found.values() for row in rows.values()], images)
    return {
        path: {line: {**row, LABEL: names.get(row[LABEL], row[LABEL])} for line, row in rows.items()}
        for path, rows in found.items()
    }


def is_of_splits(path: Path) -> bool:
    """Whether a list is called as one of the split of each image; that of a split, such as train_split.txt, is none."""
    stem = path.stem
    return "partition" in stem or (_OF_SPLITS.search(stem) is not None and not listing.role_of(stem)[1])


def _rows(path: Path, images: Images) -> dict[int, Row]:
    """The lines of a list; none where the first ones do not name images, each with a label behind it. Spaces are in the
    names of images, or else in labels.
    """
    try:
        text = listing.text_of(path)
    except DatasetError:
        return {}
    ways = (_divided(text, divide, images) for divide in (str.rsplit, str.split))
    known, lines = max(ways, key=lambda way: way[0])  # of equally many the first one
    if known <= _MOSTLY * min(len(lines), _LOOKED_AT):
        return {}
    return {
        number: {BEYOND: "", FILE: parts[0], LABEL: listing.composed(" ".join(parts[1:]).strip())}
        for number, parts in lines.items()
    }


def _divided(
    text: str, divide: Callable[[str, None, int], list[str]], images: Images
) -> tuple[int, dict[int, list[str]]]:
    """How many of the first lines name an image and a label behind it, and all lines in these two parts."""
    lines = {number: divide(line, None, 1) for number, line in enumerate(text.splitlines(), 1) if line.strip()}
    first = [*lines.values()][:_LOOKED_AT]
    pairs = (parts for parts in first if len(parts) == _PAIR and not listing.is_image(PurePosixPath(parts[1])))
    worded = (parts for parts in pairs if " " not in parts[1] or any(map(str.isalpha, parts[1])))  # no box of YOLO
    return sum(bool(images.find(parts[0]) and not images.find(parts[1])) for parts in worded), lines


def unread(folder: Path, places: Iterable[Path], read: Container[Path]) -> Iterator[Problem]:
    """Notes of other lists that name images, as those of attributes beside a list of classes."""
    images = Images(folder)
    for path in (path for place in places for path in listing.plain(place, "*.txt", "*.lst") if path not in read):
        try:
            lines = [line.split() for line in listing.text_of(path).splitlines() if line.strip()][:_LOOKED_AT]
        except DatasetError:
            continue
        known = sum(len(words) > _PAIR and images.find(words[0]) is not None for words in lines)
        if known > _MOSTLY * len(lines):
            name = named(path, folder)
            message = f"{name}: its lines name images, but it is not read. Their classes are those of another list."
            yield Problem("list that is not read", name, message, fatal=False, whole=True)


def _names(folder: Path, rows: Sequence[Row], images: Images) -> dict[str, str]:
    labels = {row[LABEL] for row in rows} - {""}
    if not all(label.isdecimal() for label in labels):
        return {}
    if classes := class_lists.read_classes(folder):
        first = int("0" not in labels and str(len(classes)) in labels)
        return {str(number): name for number, name in enumerate(classes, first)}
    held: dict[str, set[str]] = {}
    for row in rows:
        place = PurePosixPath(plain(row[FILE]))
        if not place.parent.name and (image := images.find(row[FILE])):
            place = PurePosixPath(image.relative_to(folder))
        held.setdefault(place.parent.name, set()).add(row[LABEL])
    pairs = {(name, *there) for name, there in held.items() if len(there) == 1 and name}
    folders = {label: name for name, label in pairs}
    one_to_one = len(folders) == len(pairs) == len({*folders.values()})
    return folders if one_to_one and labels == {*folders} else {}
