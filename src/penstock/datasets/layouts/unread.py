"""Tables that lie beside the data and name its images, but are not read."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.datasets import listing
from penstock.datasets.layouts.columns import CLASSES, image_column
from penstock.datasets.layouts.csv_files import readable
from penstock.datasets.layouts.lookup import Images
from penstock.datasets.layouts.split_columns import with_splits
from penstock.errors import DatasetError
from penstock.kinds.items import Problem, named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from penstock.datasets.layout import Layout

_COLUMNS: Final = 8  # in a sentence
_LISTS: Final = re.compile(
    r"[\[(]?\s*-?\d[\d.]*([\s,;]+-?\d[\d.]*)+\s*[\])]?|no_box|"
)  # numbers in a cell, such as a box


class _Table(NamedTuple):
    path: Path
    rows: Mapping[int, Mapping[str, str]]
    images: Images
    column: str
    header: list[str]
    likely: str
    nameless: bool


def problems(folder: Path, found: Layout, *, confirmed: bool) -> Iterator[Problem]:
    """A problem for each table that a layout of classes does not read, a note for each that another one does not."""
    doubtful = found.name == "one folder per class" and not confirmed
    said = " ".join(found.reasons)
    for table in _tables(folder):
        name = named(table.path, folder)
        if re.search(rf"(^|[\s/]){re.escape(table.path.name)}($|[\s,:])", said):
            continue
        if doubtful:
            message = (
                f"{name}: expected a layout that reads it, as its column {table.column} names images, found one folder "
                f"per class. {_ways(table)}, or confirm the folders with --layout folders."
            )
        else:
            message = f"{name}: its column {table.column} names images, but it is not read. {_columns(table)}."
        yield Problem("table that is not read", name, message, fatal=doubtful, whole=True)


def refusal(folder: Path) -> DatasetError | None:
    """The error for a folder without other labels than those of a table whose columns are not known."""
    table = next(_tables(folder), None)
    if table is None:
        return None
    where = str(table.path)
    return DatasetError(
        where,
        expected="columns of images and labels with known names",
        found=", ".join(table.header),
        remedy=_ways(table),
        message=f"{where}: its column {table.column} names images, but no column has a known name for labels.",
    )


def _tables(folder: Path) -> Iterator[_Table]:
    images = Images(folder)
    every = [table for place in (folder, *listing.folders(folder)) for table in readable(place, "*.csv", "*.tsv")]
    for path, rows, header in every:
        if len(header) > 1 and (column := image_column(rows, header, images)):
            splits = with_splits(rows, header, "")[1]
            likely = _likely_class(rows, [name for name in header if name not in {column, splits}] or header)
            yield _Table(path, rows, images, column, header, likely, any(images.find(cell) for cell in header if cell))


def _likely_class(rows: Mapping[int, Mapping[str, str]], columns: Sequence[str]) -> str:
    """The column with the fewest values, of those that have several and are seldom empty; rather one of words,
    or one that is called as one of classes.
    """
    cells = {name: [cell for row in rows.values() if (cell := row.get(name.lower(), ""))] for name in columns}
    several = [
        name
        for name in columns
        if len(cells[name]) > len(rows) / 2 and len({*cells[name]}) > 1 and not all(map(_LISTS.fullmatch, cells[name]))
    ]

    def doubt(name: str) -> tuple[bool, bool, int]:
        return _are_numbers(cells[name]), not CLASSES.fullmatch(name.lower()), len({*cells[name]})

    return min(several, key=doubt, default=columns[0])


def _are_numbers(cells: Sequence[str]) -> bool:
    return all(cell.replace(".", "", 1).lstrip("-").isdecimal() for cell in cells)


def _columns(table: _Table) -> str:
    more = ", ..." if len(table.header) > _COLUMNS else ""
    return f"It has the columns {', '.join(table.header[:_COLUMNS])}{more}"


def _ways(table: _Table) -> str:
    if table.nameless:
        return (
            f"Its first line, {', '.join(table.header[:_COLUMNS])}, has no names of columns. Write them above it, such "
            "as file,label"
        )
    image, label = (shlex.quote(name) for name in (table.column, table.likely))
    return (
        f"{_columns(table)}. If one of them is the class, name it, for example with --field image={image} --field "
        f"label={label}. If not, describe the layout in a file of your own with --layout FILE.py:NAME (docs/layouts.md)"
    )
