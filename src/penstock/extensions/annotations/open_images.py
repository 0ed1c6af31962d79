"""Open Images' CSV: boxes in fractions of the image, whose classes have names in another file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from penstock.datasets import class_lists, listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import annotated
from penstock.datasets.layouts.csv_files import columns_of, read_cells, read_rows
from penstock.datasets.layouts.lookup import Images, unnamed_images
from penstock.errors import DatasetError
from penstock.kinds.items import Box, Item, Labels, Problem, named
from penstock.progress import counted

_COLUMNS: Final = {"imageid", "labelname", "xmin", "xmax", "ymin", "ymax"}
_EDGES: Final = ("xmin", "ymin", "xmax", "ymax")
_NAMED: Final = 2  # columns of the file of names


def recognise(folder: Path) -> Layout | None:
    """CSV files with the columns of Open Images, one for each split; None where there are none."""
    places = [folder, *(path for path in sorted(folder.iterdir()) if path.is_dir())]
    tables = [path for place in places for path in listing.plain(place, "*.csv") if set(columns_of(path)) >= _COLUMNS]
    if not tables:
        return None
    names = _names(places)
    rows = {path: list(read_rows(path)[0].items()) for path in tables}
    used = {row["labelname"] for each in rows.values() for _, row in each}
    known = {mid: names.get(mid, mid) for mid in sorted(used)}
    classes = class_lists.check_names(sorted(set(known.values())), str(tables[0]))
    items: list[Item] = []
    problems: list[Problem] = []
    images, seen = Images(folder), []
    for path, lines in rows.items():
        split = _split(path, folder)
        by_image: dict[str, list[tuple[int, Mapping[str, str]]]] = {}
        for number, row in lines:
            by_image.setdefault(row["imageid"], []).append((number, row))
        for wanted, own in by_image.items():
            image = images.find(wanted)
            if image is None:
                problems.append(annotated.image_missing(named(path, folder), wanted, images.among(wanted)))
                continue
            seen.append(image)
            try:
                boxes = tuple(_box(path, number, row, classes.index(known[row["labelname"]])) for number, row in own)
            except DatasetError as error:
                problems.append(Problem("row without a box", named(image, folder), str(error)))
                continue
            items.append(Item(split, wanted, image, label=boxes, relative=True))
    problems += unnamed_images(folder, seen)
    reason = f"{', '.join(named(path, folder) for path in tables)}: boxes of {counted(len(classes), 'class')}"
    return Layout("detection", "Open Images", (reason,), tuple(items), Labels(classes), tuple(problems))


def _names(places: list[Path]) -> dict[str, str]:
    """The names of classes by their codes, such as /m/01g317, from class-descriptions-boxable.csv."""
    paths = [path for place in places for path in listing.plain(place, "*class-descriptions*.csv")]
    rows = [row for path in paths for row in read_cells(path)]
    return {row[0]: row[1] for row in rows if len(row) >= _NAMED}


def _split(path: Path, folder: Path) -> str:
    """The split in the name of a table: `oidv6-train-annotations-bbox.csv`, `validation-annotations-bbox.csv`."""
    words = re.split(r"[-_.]", path.stem)
    return next(filter(None, map(listing.split_of, words)), "") or annotated.split_of(path, folder)


def _box(path: Path, number: int, row: Mapping[str, str], label: int) -> Box:
    try:
        left, top, right, bottom = (float(row[edge]) for edge in _EDGES)
    except ValueError:
        raise DatasetError(
            f"{path}, line {number}",
            expected="numbers in XMin, YMin, XMax and YMax",
            found=", ".join(row[edge] or "nothing" for edge in _EDGES),
            remedy="Fix the row, or remove it",
        ) from None
    return Box(label, left, top, right, bottom, crowd=row.get("isgroupof") == "1")
