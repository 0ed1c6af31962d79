"""A CSV file of labels or boxes: a row per picture, or a row per object.

Columns are told by their names: `file` (or filename, image, path), `label` (or class, category), perhaps `split`, and
for boxes `xmin, ymin, xmax, ymax` (or x1, ...) for corners, or `x, y, width, height` for a corner and a size. Boxes in
a single column `bbox` can be either; which one is told from the numbers, and said, or stated by its name: `bbox_xyxy`,
`bbox_xywh`. Columns may be parted by commas, semicolons or tabs.
"""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, Final

from penstock.datasets import listing
from penstock.datasets.items import Box, Item, Labels, Layout, Problem
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


def recognise(folder: Path) -> Layout | None:
    """A CSV file in the folder with columns of files and labels.

    Raises:
        DatasetError: a row has no file or no label, or a box is no four numbers.
    """
    for path in sorted(folder.glob("*.csv")):
        rows, header = _rows(path)
        columns = [name.lower() for name in header]
        file, label = _first(_FILE, columns), _first(_LABEL, columns)
        if file and label:
            return _layout(folder, path, rows, columns)
    return None


def without_names(folder: Path) -> DatasetError | None:
    """The error for a CSV file whose first line names a picture and no columns."""
    for path in sorted(folder.glob("*.csv")):
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
    for number, row in enumerate(rows, 2):
        if not row.get(file) or not row.get(label):
            raise DatasetError(
                f"{path}, line {number}",
                expected=f"a {file} and a {label}",
                found=", ".join(row.values()),
                remedy="Fill in the row, or remove it",
            )
    classes = listing.read_classes(folder) or tuple(sorted({row[label] for row in rows}, key=_by_number))
    if strange := sorted({row[label] for row in rows} - set(classes)):
        raise DatasetError(
            str(path),
            expected=f"labels that classes.txt names: {', '.join(classes)}",
            found=", ".join(strange[:5]),
            remedy="Add them to classes.txt, or remove the file",
        )
    objects: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        objects.setdefault((listing.split_named(row.get(split) or "train", str(path)), row[file]), []).append(row)
    edges, how = _edges(path, rows, columns)
    items, problems = [], []
    for (part, name), own in objects.items():
        picture = _place(folder, name)
        if picture is None:
            problems.append(_missing(path.relative_to(folder).as_posix(), name))
        elif edges is None:
            items.append(Item(part, _stem(name), picture, label=classes.index(own[0][label])))
            problems += [_twice(name, path.name)] * (len(own) > 1)
        else:
            boxes = tuple(Box(classes.index(row[label]), *edges[id(row)]) for row in own)
            items.append(Item(part, _stem(name), picture, boxes=boxes))
    reasons = (f"{path.name} with columns {', '.join(columns)}", *([how] if how else []))
    task: Task = "classification" if edges is None else "detection"
    return Layout(task, "CSV", reasons, tuple(items), Labels(classes), tuple(problems))


def _first(names: tuple[str, ...], columns: list[str]) -> str:
    return next((name for name in names if name in columns), "")


def _by_number(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdecimal() else (-1, name)


def _edges(
    path: Path, rows: list[Row], columns: list[str]
) -> tuple[dict[int, tuple[float, float, float, float]] | None, str]:
    """The left, top, right and bottom edge of every row's box, and how they were read; None without boxes."""
    corners = next((names for names in _CORNERS if set(names) <= set(columns)), None)
    sizes = next((names for names in _SIZES if set(names) <= set(columns)), None)
    names = corners or sizes
    one = next((name for name in _ONE if name in columns), "")
    if not names and not one:
        return None, ""
    found = {}
    for number, row in enumerate(rows, 2):
        words = [row[name] for name in names] if names else re.findall(r"[-+.\deE]+", row[one])
        try:
            a, b, c, d = (float(word) for word in words)
        except ValueError:
            raise DatasetError(
                f"{path}, line {number}",
                expected=f"four numbers in {', '.join(names or [one])}",
                found=", ".join(words) or "nothing",
                remedy="Mend the row, or remove it",
            ) from None
        found[id(row)] = (a, b, c, d)
    plain = [box for box in found.values() if box[2] <= box[0] or box[3] <= box[1]]
    stated = "corners" if corners else "sizes" if sizes else _ONE[one]
    if stated == "corners" or (not stated and not plain):
        told = "their columns say so" if stated else "the third and fourth number are never below the first and second"
        return found, f"boxes are read as corners (left, top, right, bottom): {told}"
    told = (
        "their columns say so"
        if stated
        else f"the third or fourth number is below the first or second in {len(plain):,}"
    )
    return {key: (x, y, x + w, y + h) for key, (x, y, w, h) in found.items()}, (
        f"boxes are read as a corner and a size (left, top, width, height): {told}"
    )


def _place(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / "images" / name) if path.is_file()), None)


def _stem(name: str) -> str:
    return name.rpartition(".")[0] or name


def _missing(table: str, name: str) -> Problem:
    message = f"{table}: expected picture {name}, as it says, found nothing. Add it, or remove its rows."
    return Problem("picture missing", f"{table}#{name}", message)


def _twice(name: str, table: str) -> Problem:
    message = f"{name}: expected one row in {table}, found more. Leave one, so that its class is certain."
    return Problem("two labels", name, message)
