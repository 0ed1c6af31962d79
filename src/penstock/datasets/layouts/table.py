"""A CSV file of labels or boxes: a row per picture, or a row per object.

Columns are told by their names: `file` (or filename, image, path), `label` (or class, category), perhaps `split`, and
for boxes `xmin, ymin, xmax, ymax` (or x1, ...) for corners, or `x, y, width, height` for a corner and a size. Boxes in
a single column `bbox` can be either; which one is told from the numbers, and said, or stated by its name: `bbox_xyxy`,
`bbox_xywh`. Edges of which none is beyond 1 are shares of the picture's size. Columns may be parted by commas,
semicolons or tabs.
"""

from __future__ import annotations

import csv
import math
import re
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.datasets import listing
from penstock.datasets.items import Box, Item, Labels, Layout, Problem, named
from penstock.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.datasets.items import Task

    Row = Mapping[str, str]

_FILE: Final = ("file", "filename", "file_name", "image", "image_path", "path", "picture")
_LABEL: Final = ("label", "class", "category", "class_name")
_SPLIT: Final = ("split", "set", "subset")
_CORNERS: Final = (("xmin", "ymin", "xmax", "ymax"), ("x1", "y1", "x2", "y2"), ("left", "top", "right", "bottom"))
_SIZES: Final = (("x", "y", "width", "height"), ("x", "y", "w", "h"), ("left", "top", "width", "height"))
_ONE: Final = {"bbox": "", "bbox_xyxy": "corners", "bbox_xywh": "sizes"}
_SLIGHTLY: Final = 0.1  # beyond 1 by rounding, or by an object at the picture's edge
_NOWHERE: Final = (0.0, 0.0, 1.0, 1.0)  # of a row that is a problem


class _Edges(NamedTuple):
    """The boxes of a table by line, the columns that they are in, how they were read, and whether they are shares."""

    edges: Mapping[int, tuple[float, float, float, float]]
    names: tuple[str, ...]
    how: str
    shares: bool


def recognise(folder: Path) -> Layout | None:
    """A CSV file in the folder with columns of files and labels.

    Raises:
        DatasetError: it is no CSV in UTF-8.
    """
    for path in listing.plain(folder, "*.csv"):
        rows, header = _rows(path)
        columns = [name.lower() for name in header]
        file, label = _first(_FILE, columns), _first(_LABEL, columns)
        if file and label:
            return _layout(folder, path, rows, columns)
    return None


def without_names(folder: Path) -> DatasetError | None:
    """The error for a CSV file whose first line names a picture and no columns."""
    for path in listing.plain(folder, "*.csv"):
        _, header = _rows(path)
        if any(_place(folder, cell) for cell in header if cell):
            return DatasetError(
                f"{path}, line 1",
                expected="the names of the columns, such as file,label",
                found=", ".join(header)[:80],
                remedy="Add them as the first line",
            )
    return None


def _rows(path: Path) -> tuple[list[Row], list[str]]:
    with path.open(newline="", encoding="utf-8-sig") as handle:
        try:
            first = handle.readline()
            handle.seek(0)
            reader = csv.DictReader(handle, delimiter=max(",;\t", key=first.count))
            rows: list[Row] = [
                {str(key).strip().lower(): str(value or "").strip() for key, value in row.items() if key}
                for row in reader
            ]
        except (csv.Error, UnicodeDecodeError) as error:
            raise DatasetError(str(path), expected="CSV in UTF-8", found=str(error), remedy="Save it so") from None
        return rows, [name.strip() for name in reader.fieldnames or ()]


def _layout(folder: Path, path: Path, rows: list[Row], columns: list[str]) -> Layout:
    file, label, split = (_first(names, columns) for names in (_FILE, _LABEL, _SPLIT))
    lines = dict(enumerate(rows, 2))
    unfilled = {number for number, row in lines.items() if not row.get(file) or not row.get(label)}
    problems = [_unfilled(folder, path, number, lines.pop(number), (file, label)) for number in sorted(unfilled)]
    classes = listing.read_classes(folder) or tuple(sorted({row[label] for row in lines.values()}, key=_by_number))
    strange = [number for number, row in lines.items() if row[label] not in classes]
    problems += [_nameless(folder, path, number, lines.pop(number), (file, label)) for number in strange]
    read = _edges(lines, columns)
    places = {name: _place(folder, name) for name in dict.fromkeys(row[file] for row in lines.values())}
    known: dict[Path, Path] = {}  # a file by whatever path it was named first
    problems += [_missing(path.relative_to(folder).as_posix(), name) for name, place in places.items() if not place]
    objects: dict[tuple[str, Path], list[int]] = {}
    for number, row in lines.items():
        if picture := places[row[file]]:
            part = listing.split_named(row.get(split) or "train", str(path))
            objects.setdefault((part, known.setdefault(picture.resolve(), picture)), []).append(number)
    items = []
    for (part, picture), own in objects.items():
        labels, name = [classes.index(lines[number][label]) for number in own], _plain(lines[own[0]][file])
        if read is None:
            items.append(Item(part, _stem(name), picture, label=labels[0]))
            problems += [_twice(named(picture, folder), path.name)] * (len(own) > 1)
        else:
            wrong = [number for number in own if number not in read.edges]
            problems += [_boxless(folder, path, number, picture, _cells(lines[number], read.names)) for number in wrong]
            edges = [read.edges.get(number, _NOWHERE) for number in own]
            boxes = tuple(Box(label, *edge) for label, edge in zip(labels, edges, strict=True))
            items.append(Item(part, _stem(name), picture, boxes=boxes, relative=read.shares))
    reasons = (f"{path.name} with columns {', '.join(columns)}", *([read.how] if read else []))
    task: Task = "detection" if read else "classification"
    return Layout(task, "CSV", reasons, tuple(items), Labels(classes), tuple(problems))


def _first(names: tuple[str, ...], columns: list[str]) -> str:
    return next((name for name in names if name in columns), "")


def _by_number(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdecimal() else (-1, name)


def _edges(lines: Mapping[int, Row], columns: list[str]) -> _Edges | None:
    """The left, top, right and bottom edge of the box in every line, and how they were read; None without boxes."""
    corners = next((names for names in _CORNERS if set(names) <= set(columns)), None)
    sizes = next((names for names in _SIZES if set(names) <= set(columns)), None)
    one = next((name for name in _ONE if name in columns), "")
    names = corners or sizes or ((one,) if one else ())
    if not names:
        return None
    found = {number: edges for number, row in lines.items() if (edges := _numbers(row, names)) is not None}
    known = [edge for edges in found.values() for edge in edges if math.isfinite(edge)]
    shares = bool(known) and all(-_SLIGHTLY <= edge <= 1 + _SLIGHTLY for edge in known)
    unit = "; as none of them is beyond 1, they are shares of the picture's size" * shares
    below = sum(edges[2] <= edges[0] or edges[3] <= edges[1] for edges in found.values())
    stated = "corners" if corners else "sizes" if sizes else _ONE[one]
    if stated == "corners" or (not stated and not below):
        told = "their columns say so" if stated else "the third and fourth number are never below the first and second"
        return _Edges(found, names, f"boxes are read as corners (left, top, right, bottom): {told}{unit}", shares)
    told = "their columns say so" if stated else f"the third or fourth number is below the first or second in {below:,}"
    how = f"boxes are read as a corner and a size (left, top, width, height): {told}{unit}"
    return _Edges({key: (x, y, x + w, y + h) for key, (x, y, w, h) in found.items()}, names, how, shares)


def _numbers(row: Row, names: tuple[str, ...]) -> tuple[float, float, float, float] | None:
    words = [row[name] for name in names] if len(names) > 1 else re.findall(r"[-+.\deE]+", row[names[0]])
    try:
        a, b, c, d = (float(word) for word in words)
    except ValueError:
        return None
    return a, b, c, d


def _cells(row: Row, names: tuple[str, ...]) -> dict[str, str]:
    return {name: row[name] for name in names}


def _plain(text: str) -> str:
    """The name of a file, with slashes of either kind, with or without a dot in front."""
    return PureWindowsPath(text).as_posix()


def _place(folder: Path, text: str) -> Path | None:
    name = _plain(text)
    return next((path for path in (folder / name, folder / "images" / name) if path.is_file()), None)


def _stem(name: str) -> str:
    return name.rpartition(".")[0] or name


def _nameless(folder: Path, path: Path, number: int, row: Row, columns: tuple[str, str]) -> Problem:
    file, label = columns
    place = f"{path.relative_to(folder).as_posix()}, line {number}"
    picture = _place(folder, row[file])
    message = (
        f"{place}: expected a {label} that classes.txt names, found {row[label]}. Add it there, or remove the row."
    )
    return Problem("label without a name", named(picture, folder) if picture else place, message)


def _unfilled(folder: Path, path: Path, number: int, row: Row, columns: tuple[str, str]) -> Problem:
    file, label = columns
    place = f"{path.relative_to(folder).as_posix()}, line {number}"
    picture = _place(folder, row[file]) if row.get(file) else None
    found = ", ".join(row.values())
    message = f"{place}: expected a {file} and a {label}, found {found}. Fill in the row, or remove it."
    return Problem("row without a label", named(picture, folder) if picture else place, message)


def _boxless(folder: Path, path: Path, number: int, picture: Path, cells: Mapping[str, str]) -> Problem:
    place = f"{path.relative_to(folder).as_posix()}, line {number}"
    found = ", ".join(filter(None, cells.values())) or "nothing"
    message = f"{place}: expected four numbers in {', '.join(cells)}, found {found}. Mend the row, or remove it."
    return Problem("row without a box", named(picture, folder), message)


def _missing(table: str, name: str) -> Problem:
    message = f"{table}: expected picture {name}, as it says, found nothing. Add it, or remove its rows."
    return Problem("picture missing", f"{table}#{name}", message)


def _twice(name: str, table: str) -> Problem:
    message = f"{name}: expected one row in {table}, found more. Leave one, so that its class is certain."
    return Problem("two labels", name, message)
