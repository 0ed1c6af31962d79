"""What can be wrong with tables, their rows, and tables beside each other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from penstock.datasets import listing
from penstock.datasets.layouts.csv_files import read_rows
from penstock.datasets.layouts.lookup import Images
from penstock.errors import DatasetError
from penstock.kinds.items import Item, Problem, named
from penstock.progress import counted

_HALF: Final = 2
_EDGES: Final = ("xmin", "ymin", "xmax", "ymax")
_NUMBER: Final = re.compile(r"[-+]?\d*\.?\d+([eE][-+]?\d+)?")
_SHOWN: Final = 5  # numbers of lines in a sentence
_RATER: Final = re.compile(r"(rad|reader|rater|annotator|labell?er|grader|doctor|expert|worker)([-_ ]?(id|name))?")


def measured(table: Path, folder: Path, names: Sequence[str]) -> Problem:
    """Labels that look like measurements."""
    place = table.relative_to(folder).as_posix()
    message = (
        f"{place}: {counted(len(names), 'class')} with names such as {names[0]}. Each different number is a class of "
        "its own; regression needs a custom task."
    )
    return Problem("numbers as classes", place, message, fatal=False)


def several(table: str, line: int, classes: Sequence[str]) -> Problem:
    """A row of a one-hot table that has no class, or more than one."""
    place = f"{table}, line {line}"
    none = "If rows without a 1 are a class of their own, add a column for it. "
    message = (
        f"{place}: expected 1 in the column of one class, found it in {', '.join(classes) or 'none'}. "
        f"{'' if classes else none}Fix the row, or leave it out with --skip-bad. Images of several classes are not "
        "supported."
    )
    return Problem("row without one class", place, message)


def without_split(place: str, column: str) -> Problem:
    """A row whose cell for the split is empty."""
    message = (
        f"{place}: expected a split in the column {column}, found nothing. Write train, val or test, or leave the row "
        "out with --skip-bad."
    )
    return Problem("row without a split", place, message)


def second(folder: Path, path: Path, first: Path) -> Problem:
    """A table beside the one that is read."""
    name = path.relative_to(folder).as_posix()
    message = f"{name}: expected one table, found {first.name} too, which is read. Join them, with a column split."
    return Problem("two tables", name, message, whole=True)


def missing(table: str, name: str, found: str) -> Problem:
    """An image that a table names, and that is not there."""
    message = f"{table}: expected the image {name} that it names, found {found}. Add it, or remove its rows."
    return Problem("image missing", f"{table}#{name}", message)


def twice(name: str, table: str, lines: list[int]) -> Problem:
    """An image of several rows, which have one label each."""
    where = ", ".join(map(str, lines[:_SHOWN])) + ", ..." * (len(lines) > _SHOWN)
    message = f"{name}: expected one row in {table}, found lines {where}. Leave one, so that its class is certain."
    return Problem("two labels", name, message)


def other_folders(folder: Path, table: Path, items: Sequence[Item], classes: Sequence[str]) -> list[Problem]:
    """The problem of images in folders that are called as other classes than those of their rows."""
    above = [(item, listing.composed(named(item.image, folder)).split("/")[-2:-1]) for item in items]
    within = [(item, names[0]) for item, names in above if names and names[0] in classes]
    differ = [item for item, name in within if classes[item.label] != name]
    if not differ or _HALF * len(within) < len(items):
        return []
    message = (
        f"{named(table, folder)}: expected the classes that the folders of the images are called as, found another for "
        f"{counted(len(differ), 'image')}, such as {classes[differ[0].label]} for {named(differ[0].image, folder)}. "
        "Correct the table or move the images; or move the table away, so that the folders count."
    )
    return [Problem("other classes than those of folders", named(table, folder), message, whole=True)]


def raters(place: str, rows: Mapping[int, Mapping[str, str]], columns: Sequence[str], file: str) -> list[Problem]:
    """Boxes that several people have drawn in one image, each perhaps of the same objects."""
    for column in filter(_RATER.fullmatch, columns):
        drawn: dict[str, set[str]] = {}
        for row in rows.values():
            drawn.setdefault(row[file], set()).add(row.get(column, ""))
        several = [name for name, people in drawn.items() if len(people - {""}) > 1]
        if several:
            message = (
                f"{place}: expected the boxes of one person for each image, found several in the column {column} for "
                f"{counted(len(several), 'image')}, such as {several[0]}: an object may have a box of each. Leave the "
                "rows of one there, or merge them."
            )
            return [Problem("boxes of several raters", place, message, whole=True)]
    return []


def without_names(folder: Path) -> DatasetError | None:
    """The error for a CSV file whose first line names an image and no columns."""
    for path in listing.plain(folder, "*.csv"):
        _, header = read_rows(path)
        images = Images(folder)
        if any(images.find(cell) for cell in header if cell):
            return DatasetError(
                f"{path}, line 1",
                expected="the names of the columns, such as file,label,split",
                found=", ".join(header)[:80],
                remedy=f"Write them above it, for example {_likely_names(header, images)}",
            )
    return None


def _likely_names(cells: Sequence[str], images: Images) -> str:
    """Names for columns whose first cells are these: a split, an image, a class, edges of a box."""
    edges, words = iter(_EDGES), iter(("label", *(f"column{number}" for number in range(len(cells)))))
    names = []
    for cell in cells:
        is_number = _NUMBER.fullmatch(cell)
        named_by = {"split": listing.split_of(cell) or cell == "UNASSIGNED", "file": images.find(cell)}
        known = next((name for name, value in named_by.items() if value and name not in names), "")
        names.append(known or (next(edges, "") if is_number else next(words) if cell else ""))
    return ",".join(names)
