"""Which columns of a CSV file hold what, where their names do not say it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from penstock.datasets.layouts.csv_files import read_rows
from penstock.datasets.layouts.lookup import Images
from penstock.errors import DatasetError
from penstock.kinds.items import Problem

Row = Mapping[str, str]

_KNOWN_AS: Final = {
    "image": "file", "label": "label", "split": "split", "box": "bbox",
    "xmin": "xmin", "ymin": "ymin", "xmax": "xmax", "ymax": "ymax",
}  # fmt: skip
"""What a column may hold, and the name under which the table is read."""
_LOOKED_AT: Final = 20  # rows
CLASSES: Final = re.compile(
    r"((region|object|image|obj|gt|true)[ _-]?)?(label|class|category|cls|tag|defect|species|breed|target|annotation)"
    r"[ _-]?(name|label|type|id|text)?|object([ _-]?(name|type|id))?|name|type"
)
_UNUSED: Final = " (unused)"
GROUPS: Final = (
    "group", "patient", "patient_id", "patientid", "subject", "subject_id", "case", "case_id", "study_id", "video",
    "video_id", "clip", "sequence", "seq_id", "lesion", "lesion_id",
)  # fmt: skip
"""What a column of groups is called."""


def check_fields(folder: Path, tables: Sequence[Path], fields: Mapping[str, str]) -> None:
    """Refuse names of columns that no table has.

    Args:
        folder: of the data.
        tables: CSV files.
        fields: the columns by what they hold: "image", "label", "split", "box", "xmin", "ymin", "xmax" or "ymax".

    Raises:
        DatasetError: no table has all of these columns, or a column is to hold something else.
    """
    columns = {table: {name.lower() for name in read_rows(table)[1]} for table in tables}
    known = set(fields) <= set(_KNOWN_AS)
    if known and any({name.lower() for name in fields.values()} <= there for there in columns.values()):
        return
    there = "; ".join(f"{table.name} has the columns {', '.join(read_rows(table)[1])}" for table in tables)
    raise DatasetError(
        f"{folder}: --field",
        expected=f"columns of a CSV file for {', '.join(_KNOWN_AS)}",
        found=", ".join(f"{name}={column}" for name, column in fields.items()),
        remedy=there.partition("; ")[0],
    )


def renamed(
    rows: Mapping[int, Row], header: Sequence[str], fields: Mapping[str, str]
) -> tuple[dict[int, Row], list[str]]:
    """Rows and their columns with the names that tables are read by; another column of such a name is not used."""
    new = {column.lower(): _KNOWN_AS[held] for held, column in fields.items()}
    taken = set(new.values())

    def named(column: str) -> str:
        own = column.lower()
        return new.get(own) or (column + _UNUSED if own in taken else column)

    return {line: {named(name): cell for name, cell in row.items()} for line, row in rows.items()}, [
        named(column) for column in header
    ]


def image_column(rows: Mapping[int, Row], header: Sequence[str], images: Images) -> str:
    """The column that names an image in most of the first rows, by file name rather than number; "" for none."""
    first = list(islice(rows.values(), _LOOKED_AT))
    found = {column: _named_images([row.get(column.lower(), "") for row in first], images) for column in header}
    best = max(header, key=found.__getitem__, default="")
    return best if best and found[best][0] > len(first) / 2 else ""


def group_column(header: Sequence[str]) -> str:
    """The column of groups that images belong to, such as `Patient ID`; "" for none."""
    return next((name for name in header if re.sub(r"[ -]+", "_", name.lower()) in GROUPS), "")


def other_images(
    table: str, rows: Mapping[int, Row], header: Sequence[str], taken: str, images: Images
) -> list[Problem]:
    """The problem of a table of pairs of images: another column names other images than the taken one."""
    if not taken:
        return []
    first = list(islice(rows.values(), _LOOKED_AT))
    own = [images.find(row.get(taken.lower(), "")) for row in first]
    for column in header:
        cells = [row.get(column.lower(), "") for row in first]
        others = sum(images.find(cell) != place for cell, place in zip(cells, own, strict=True))
        if column != taken and 2 * min(others, _named_images(cells, images)[1]) > len(first):
            message = (
                f"{table}: expected one column of images, found {taken} and {column}. Choose one, for example with "
                f"--field image={shlex.quote(taken)}. Pairs of images have no task."
            )
            return [Problem("two columns of images", table, message, whole=True)]
    return []


def class_column(table: str, rows: Mapping[int, Row], columns: Sequence[str]) -> tuple[str, list[Problem]]:
    """Which of several columns of classes is read: that of words, where all say the same; "" for the first one.

    Returns:
        The column, and the problem of columns that say different things.
    """
    if len(columns) <= 1:
        return "", []
    first = columns[0]
    for other in columns[1:]:
        pairs = {(row.get(first, ""), row.get(other, "")) for row in rows.values()}
        if not len(pairs) == len({one for one, _ in pairs}) == len({two for _, two in pairs}):
            message = (
                f"{table}: expected one column of classes, found {first} and {other}, which divide the images "
                f"otherwise. Choose one, for example with --field label={shlex.quote(other)}."
            )
            return "", [Problem("two columns of classes", table, message, whole=True)]
    worded = (name for name in columns if not all(row.get(name, "").isdecimal() for row in rows.values()))
    return next(worded, ""), []


def is_of_classes(column: str, rows: Mapping[int, Row]) -> bool:
    """Whether a column of a table of boxes, in lower case, is called as one of classes, which several boxes share."""
    if not CLASSES.fullmatch(column):
        return False
    cells = [cell for row in rows.values() if (cell := row.get(column, ""))]
    return len({*cells}) < max(2, len(cells))


def _named_images(cells: Sequence[str], images: Images) -> tuple[int, int]:
    places = {cell: place for cell in cells if cell and (place := images.find(cell)) and place.is_file()}
    return sum(cell in places for cell in cells), sum(
        cell in places and cell.lower().endswith(places[cell].suffix.lower()) for cell in cells
    )
