"""Tables, lists, folders and archives beside the data that are not read."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts.columns import CLASSES, group_column, image_column
from penstock.datasets.layouts.csv_files import read_rows, readable
from penstock.datasets.layouts.lookup import Images
from penstock.datasets.layouts.split_columns import with_splits
from penstock.datasets.layouts.split_lists import LISTS, find, is_among_lists, lines_of, names_of, split_of_list
from penstock.errors import DatasetError
from penstock.kinds.items import Problem, named
from penstock.progress import counted

_COLUMNS: Final = 8  # in a sentence
_LARGEST: Final = 64 << 20  # bytes of a list
_ARCHIVES: Final = ("*.zip", "*.tar", "*.tar.gz", "*.tgz", "*.7z", "*.rar")
_BINARY: Final = frozenset({".npy", ".npz", ".pkl", ".pickle", ".mat", ".pt", ".pth", ".h5"})
_OF_SPLITS: Final = re.compile(
    r"((train|val|valid|test|split|fold|setid)s?[-_ ]?)+(idx|ids?|ind|indices|index|list|files|names)?[-_ ]?\d*",
    re.IGNORECASE,
)
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
    """A problem for each table that a layout of classes does not read, a note for each that another one does not; a
    problem for each list of some of the images, and a note for each archive.
    """
    doubtful = found.name == "one folder per class" and not confirmed
    yield from _lists(folder, found)
    yield from _left_out(folder, found)
    yield from _undecodable(folder, found)
    yield from map(partial(_archive, folder), listing.plain(folder, *_ARCHIVES))
    for table in _tables(folder):
        name = named(table.path, folder)
        of_groups = group_column(table.header)
        is_whole = not (doubtful and of_groups) or {*table.header} == {table.column, of_groups}
        if _is_read(table.path, found) and is_whole:
            continue
        if doubtful:
            message = (
                f"{name}: expected a layout that reads it, as its column {table.column} names images, found one folder "
                f"per class. {_ways(table)}, or confirm the folders with --layout folders."
            )
        else:
            message = f"{name}: its column {table.column} names images, but it is not read. {_columns(table)}."
        yield Problem("table that is not read", name, message, fatal=doubtful, whole=True)


def _is_read(path: Path, found: Layout) -> bool:
    return re.search(rf"(^|[\s/]){re.escape(path.name)}($|[\s,:])", " ".join(found.reasons)) is not None


def _lists(folder: Path, found: Layout) -> Iterator[Problem]:
    """Lists of some of the images, which perhaps are to be left out, and lists of splits in forms of programs."""
    paths = [path for path in listing.files(folder) if is_among_lists(path.relative_to(folder))]
    undivided = {item.split for item in found.items} == {"train"}
    names = names_of(folder, found.items)
    known = {problem.file for problem in found.problems}
    for path in paths:
        if _is_read(path, found) or named(path, folder) in known:
            continue
        if undivided and path.suffix.lower() in _BINARY and _OF_SPLITS.fullmatch(path.stem):
            yield _binary(named(path, folder))
        elif path.suffix.lower() in LISTS and not split_of_list(path) and _is_bare(path):
            words = [word for _, word in lines_of(path, names)]
            lines = [number for word in words if (number := find(word, names)) is not None]
            if 1 < len({*lines}) < len(found.items) and len({*lines}) == len(lines):
                yield _of_some(named(path, folder), len(lines), len(found.items))


def _is_bare(path: Path) -> bool:
    """Whether most lines of a list are one word each; others say more of an image than that it is in the list."""
    if path.stat().st_size > _LARGEST:
        return False
    with suppress(DatasetError):
        lines = [line.strip() for line in listing.text_of(path).splitlines()]
        return 2 * sum(re.search(r"[\s,;]", line) is None for line in lines) > len(lines)
    return False


def _left_out(folder: Path, found: Layout) -> Iterator[Problem]:
    """A note for each folder whose images are no part of the layout, and are named by no other problem."""
    places = [place for item in found.items for place in (item.image, *found.kind.label_files(item))]
    used = {named(place, folder).partition("/")[0] for place in places}
    used |= {problem.file.partition("/")[0] for problem in found.problems}
    for inside in listing.folders(folder):
        if inside.name in used or re.search(rf"(?<!\w){re.escape(inside.name)}/", " ".join(found.reasons)):
            continue
        if images := [path for path in listing.files(inside) if listing.is_image(path)]:
            message = (
                f"{inside.name}/: {counted(len(images), 'image')}, such as {named(images[0], folder)}, are no part of "
                "the layout. They are left out."
            )
            yield Problem("folder left out", inside.name, message, fatal=False, whole=True)


def _undecodable(folder: Path, found: Layout) -> Iterator[Problem]:
    """A note for each table that is not in UTF-8."""
    for path in listing.plain(folder, "*.csv", "*.tsv"):
        try:
            _ = path if _is_read(path, found) else read_rows(path)
        except DatasetError as error:
            yield Problem("table that is not read", named(path, folder), f"{error}", fatal=False, whole=True)


def _of_some(name: str, listed: int, images: int) -> Problem:
    message = (
        f"{name}: expected lists that are read, found one that names {listed:,} of {images:,} images and is not called "
        "as a split. If these images are to be left out, move them out of the folder; if they are a split, call the "
        "list train.txt, val.txt or test.txt; if neither, move the list away."
    )
    return Problem("list that is not read", name, message, whole=True)


def _binary(name: str) -> Problem:
    message = (
        f"{name}: expected a list of names in text, found a file that is called as one of splits and is not read. "
        "Write the names of the images to train.txt, val.txt and test.txt, a line each, or move the file away."
    )
    return Problem("list that is not read", name, message, whole=True)


def _archive(folder: Path, path: Path) -> Problem:
    name = named(path, folder)
    message = f"{name}: it is an archive, whose files are not read. Unpack it if they belong to the data."
    return Problem("archive beside the data", name, message, fatal=False, whole=True)


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
