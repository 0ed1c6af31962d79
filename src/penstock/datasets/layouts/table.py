"""A CSV file of labels or boxes: a row per image, or a row per object.

Columns are told by their names: `file` (or filename, image, path), `label` (or class, category), perhaps `split`, and
for boxes `xmin, ymin, xmax, ymax` (or x1, ...) for corners, or `x, y, width, height` for a corner and a size. Boxes in
a single column `bbox` can have either format: it is inferred from the numbers and reported, or given as `bbox_xyxy`,
`bbox_xywh` or with --boxes. Edges of which none is beyond 1 are fractions of the image's size. A row of a file
without a label and a box is an image without objects. Columns may be parted by commas, semicolons or tabs. Where no
table has these columns, lists of lines `IMAGE LABEL` are read in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from penstock.datasets import class_lists, class_names, listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import label_lists, table_boxes, table_problems
from penstock.datasets.layouts.columns import (
    GROUPS,
    check_fields,
    class_column,
    group_column,
    image_column,
    is_of_classes,
    other_images,
    renamed,
)
from penstock.datasets.layouts.csv_files import BEYOND, SUBMISSION, check_columns, columns_of, json_tables, read_rows
from penstock.datasets.layouts.lookup import Images, folder_of, plain
from penstock.datasets.layouts.one_hot import LABEL, one_hot
from penstock.datasets.layouts.split_columns import SPLIT, with_splits
from penstock.kinds.items import Box, Item, Labels, Problem, named

Row = Mapping[str, str]

_FILE: Final = (
    "file", "filename", "file_name", "image", "image_path", "path", "filepath", "file_path", "image_name", "img",
    "image_id", "imageid", "id_code", "id",
)  # fmt: skip
_LABEL: Final = (
    "label", "class", "category", "class_name", "classname", "target", "diagnosis", "breed", "species", "labelname",
)  # fmt: skip
_SPLIT: Final = ("split", "set", "subset")
_OBJECT: Final = "object"
_FRACTION: Final = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?")
_NOTHING: Final = frozenset({"0", "none", "no finding", "normal", "background", "negative", "nothing", "empty"})


class _Table(NamedTuple):
    """A CSV file: rows by line, columns in lower case, their names in the file, and the column of splits."""

    path: Path
    rows: dict[int, Row]
    columns: list[str]
    called: list[str]
    splits: str = ""
    classes: tuple[str, ...] = ()


def recognise(folder: Path, fields: Mapping[str, str] = MappingProxyType({})) -> Layout | None:
    """A CSV file in the folder with columns of files and labels.

    Args:
        folder: of the data.
        fields: the names of columns by what they hold, where those of the table do not say it (`columns.check_fields`).

    Raises:
        DatasetError: it is no CSV in UTF-8, or no table has these columns.
    """
    tables: list[_Table] = []
    wrong: list[Problem] = []
    places = dict.fromkeys((folder, *listing.splits(folder).values(), *listing.folders(folder)))
    every = (path for place in places for path in (*listing.plain(place, "*.csv", "*.tsv"), *json_tables(place)))
    paths = [path for path in every if SUBMISSION not in path.stem.lower()]
    if fields and paths:
        check_fields(folder, paths, fields)
    for path in paths:
        if not (fields or {*_FILE, *_LABEL} & {*columns_of(path)}):
            continue
        table, problems = _read(folder, path, fields)
        tables += [table] if table else []
        wrong += problems
    if not tables and not fields:
        columns = [label_lists.FILE, label_lists.LABEL]
        tables = [_Table(path, rows, columns, columns) for path, rows in label_lists.find(folder, places).items()]
        wrong += label_lists.unread(folder, places, {table.path for table in tables}) if tables else ()
    if not tables:
        return None
    with_boxes = [table for table in tables if table_boxes.columns_of_boxes(table.columns)]
    tables = _of_splits(folder, with_boxes or tables)
    splits = [_split(table.path, folder) for table in tables]
    apart = len(tables) == 1 or (all(splits) and len(set(splits)) == len(splits))
    others = [] if apart else tables[1:]
    kept = tables if apart else tables[:1]
    classes = class_lists.read_classes(folder) or _classes(kept)
    if classes[:1] == (class_lists.NAMELESS,) and class_lists.NAMELESS not in _classes(kept):
        classes = classes[1:]
    layouts = [_layout(folder, table, split or "train", classes) for table, split in zip(kept, splits, strict=False)]
    layout = layouts[0] if len(layouts) == 1 else _joined(layouts)
    more = [table_problems.second(folder, other.path, tables[0].path) for other in others] or _unnamed(
        folder, kept, layout
    )
    named_by = classes if not class_lists.read_classes(folder) else ()
    fractions = [name for name in named_by if _FRACTION.fullmatch(name) and float(name) % 1]
    wrong += [table_problems.measured(kept[0].path, folder, fractions)] if fractions else []
    return replace(layout, problems=(*layout.problems, *wrong, *more))


def _read(folder: Path, path: Path, fields: Mapping[str, str]) -> tuple[_Table | None, list[Problem]]:
    """A table with columns of files and labels, and the problems of its rows; None for another table."""
    rows, header = read_rows(path)
    called = [name.lower() for name in header]
    stated = fields.get("split", "") or _first(_SPLIT, called)
    rows, column = with_splits(rows, header, stated)
    rows, header = renamed(rows, header, {held: name for held, name in fields.items() if held != "split" or not column})
    header = [*header, SPLIT] if column and SPLIT not in map(str.lower, header) else header
    place, wrong = path.relative_to(folder).as_posix(), []
    if not _first(_FILE, [name.lower() for name in header]):
        images = image_column(rows, header, Images(folder))
        wrong += other_images(place, rows, header, images, Images(folder))
        rows, header = renamed(rows, header, {"image": images} if images else {})
    columns = [name.lower() for name in header]
    if not _first(_FILE, columns):
        return None, []
    edges = table_boxes.columns_of_boxes(columns)
    if "label" not in fields:
        likely = [name for name in columns if name in _LABEL or (edges and is_of_classes(name, rows))]
        taken, doubts = class_column(place, rows, likely)
        taken = taken or ("" if {*likely} & {*_LABEL} else "".join(likely[:1]))
        rows, header = renamed(rows, header, {"label": taken} if taken else {})
        columns, wrong = [name.lower() for name in header], [*wrong, *doubts]
    possible = [name for name in columns if name not in {_first(_FILE, columns), *_SPLIT, *GROUPS}]
    hot = None
    if not _first(_LABEL, columns) and (hot := one_hot(rows, dict(zip(columns, header, strict=True)), possible)):
        wrong += [table_problems.several(place, line, names) for line, names in hot.wrong.items()]
        rows, columns = hot.rows, [*columns, LABEL]
    if not _first(_LABEL, columns) and edges:
        rows = {line: _with_class(row, edges) for line, row in rows.items()}
        columns = [*columns, LABEL]
    if not _first(_LABEL, columns):
        return None, wrong
    check_columns(path, columns)
    wrong += [] if edges else table_boxes.unread_boxes(place, rows, columns)
    if edges:
        rows = {line: _without_objects(row, _first(_LABEL, columns), edges) for line, row in rows.items()}
    rows, doubts = _with_names(place, rows, _first(_LABEL, columns), class_lists.read_classes(folder))
    wrong += doubts
    splits = column if column.lower() not in _SPLIT else ""
    return _Table(path, rows, columns, called, splits, hot.classes if hot else ()), wrong


def _with_names(
    place: str, rows: dict[int, Row], label: str, names: Sequence[str]
) -> tuple[dict[int, Row], list[Problem]]:
    found = {row.get(label, "") for row in rows.values()} - {""}
    ids = {class_lists.id_in(each) for each in found}
    first = int(0 not in ids and len(names) in ids)
    if not found or found & set(names) or not all(first <= number < len(names) + first for number in ids):
        return rows, []
    doubts = (
        [] if first or 0 in ids or names[0] == class_lists.NAMELESS else [class_names.from_one(place, "row", names)]
    )
    given = {n: {**row, label: names[int(row[label]) - first]} if row.get(label) else row for n, row in rows.items()}
    return given, doubts


def _without_objects(row: Row, label: str, edges: Sequence[str]) -> Row:
    """A row without a class where it says that the image shows nothing, as `No finding` without a box does."""
    is_nothing = row.get(label, "").lower() in _NOTHING and not any(row.get(name) for name in edges)
    return {**row, label: ""} if is_nothing else row


def _with_class(row: Row, edges: Sequence[str]) -> Row:
    """A row of a table without classes: its box is an object."""
    return {**row, LABEL: _OBJECT if any(row.get(name) for name in edges) else ""}


def _of_splits(folder: Path, tables: list[_Table]) -> list[_Table]:
    """The tables that are named for splits, if there are two or more; others beside them are of something else."""
    named_for = [table for table in tables if _split(table.path, folder)]
    several = len({_split(table.path, folder) for table in named_for}) > 1
    return named_for if several else tables


def _split(path: Path, folder: Path) -> str:
    """The split of a table that is named for it (`train.csv`, `val_labels.csv`), or lies in its folder; else ""."""
    words = re.split(r"[-_. ]+", path.stem)
    inside = listing.split_of(path.parent.name) if path.parent != folder else ""
    return inside or next(filter(None, map(listing.split_of, words)), "")


def _classes(tables: Sequence[_Table]) -> tuple[str, ...]:
    """The classes in the labels of some tables, and those with columns of their own; numbers in their order."""
    labels = {row[_first(_LABEL, table.columns)] for table in tables for row in table.rows.values()}
    labels |= {name for table in tables for name in table.classes}
    return tuple(sorted(labels - {""}, key=class_lists.by_number))


def _joined(layouts: Sequence[Layout]) -> Layout:
    """The tables of several splits as one layout."""
    first = layouts[0]
    return replace(
        first,
        reasons=tuple(reason for layout in layouts for reason in layout.reasons),
        items=tuple(item for layout in layouts for item in layout.items),
        problems=tuple(problem for layout in layouts for problem in layout.problems),
    )


def _layout(folder: Path, table: _Table, usual: str, classes: tuple[str, ...]) -> Layout:
    """What one table says of its images, which are of the `usual` split where it has no column of splits."""
    path, rows, columns, called, splits, _ = table
    file, label = _first(_FILE, columns), _first(_LABEL, columns)
    edges = table_boxes.columns_of_boxes(columns)
    inside = path.parent != folder and any(map(listing.is_image, listing.files(path.parent)))
    images = Images(path.parent if inside else folder, folder, near=folder_of(folder, usual))
    lines, problems = _sorted_out(images, path, rows, (file, label, *edges), class_lists.read_classes(folder))
    lines = {number: _in_split(folder, row, file, _first(_SPLIT, columns)) for number, row in lines.items()}
    read = table_boxes.read_edges(lines, edges)
    places = {name: images.find(name) for name in dict.fromkeys(row[file] for row in lines.values())}
    if read and read.read == "xyxy" and not read.mixed:
        shown = {number: place for number in read.edges if (place := places[lines[number][file]])}
        problems += table_boxes.undecided(folder, path, edges[0], read, shown)
    objects, wrong = _by_image(folder, table, lines, places, usual)
    problems += [
        table_problems.missing(path.relative_to(folder).as_posix(), name, images.among(name))
        for name, place in places.items()
        if not place
    ]
    problems += wrong
    items = []
    for (part, image), own in objects.items():
        name, said = plain(lines[own[0]][file]), [number for number in own if lines[number][label]]
        labels = [classes.index(lines[number][label]) for number in said]
        if read is None:
            items.append(Item(part, _stem(name), image, label=labels[0]))
            problems += [table_problems.twice(named(image, folder), path.name, own)] * (len(own) > 1)
        else:
            none = [number for number in said if number not in read.edges]
            problems += [
                table_boxes.boxless(folder, path, n, image, {key: lines[n][key] for key in edges}) for n in none
            ]
            boxes = [Box(label, *read.edges[n]) for n, label in zip(said, labels, strict=True) if n in read.edges]
            size = (0, 0) if read.relative else table_boxes.size_in(lines[own[0]], edges, boxes[:1])
            items.append(Item(part, _stem(name), image, tuple(boxes), (), read.relative, size=size))
    problems += table_boxes.mixed(folder, path, edges[0], read) if read and read.mixed else []
    problems += [] if read else table_problems.other_folders(folder, path, items, classes)
    problems += table_problems.raters(path.relative_to(folder).as_posix(), lines, columns, file) if read else []
    reasons = (
        f"{path.name} with columns {', '.join(called)}"
        + _unread(columns, called, {file, label, *_SPLIT, *edges, group_column(columns), splits.lower()}),
        *_read_as(file, label, columns, called),
        *([f"the splits are those of column {splits}"] if splits else []),
        *([read.how] if read else []),
        *(["no column has classes: every box is an object"] if classes == (_OBJECT,) and LABEL not in called else []),
    )
    task = "detection" if read else "classification"
    name = label_lists.NAME if path.suffix in label_lists.SUFFIXES else "CSV"
    return Layout(task, name, reasons, tuple(items), Labels(classes), tuple(problems), boxes=read.read if read else "")


def _in_split(folder: Path, row: Row, file: str, split: str) -> Row:
    """A row whose image is named with the folder of its split, where it lies there: splits may have equal names."""
    place = folder_of(folder, row[split]) if row.get(split) else None
    is_bare = "/" not in plain(row.get(file, ""))
    return {**row, file: f"{place.name}/{row[file]}"} if place and is_bare and (place / row[file]).is_file() else row


def _by_image(
    folder: Path, table: _Table, lines: Mapping[int, Row], places: Mapping[str, Path | None], usual: str
) -> tuple[dict[tuple[str, Path], list[int]], list[Problem]]:
    file, split = _first(_FILE, table.columns), _first(_SPLIT, table.columns)
    known: dict[Path, Path] = {}  # a file by whatever path it was named first
    objects: dict[tuple[str, Path], list[int]] = {}
    problems: list[Problem] = []
    for number, row in lines.items():
        image = places[row[file]]
        if image and split and not row.get(split):
            place = f"{table.path.relative_to(folder).as_posix()}, line {number}"
            problems.append(table_problems.without_split(place, table.splits or split))
        elif image:
            part = listing.split_named(row.get(split) or usual, str(table.path))
            objects.setdefault((part, known.setdefault(image.resolve(), image)), []).append(number)
    return objects, problems


def _read_as(file: str, label: str, columns: Sequence[str], called: Sequence[str]) -> list[str]:
    """Which columns are those of images and labels, where others call them something else."""
    names = dict(zip(columns, called, strict=False))
    if (names.get(file), names.get(label)) in ((file, label), (file, None)):
        return []
    return [f"images are named by the column {names[file]}, classes by {names[label]}"]


def _unread(columns: Sequence[str], called: Sequence[str], used: set[str]) -> str:
    """The end of a sentence about the columns of a table: which ones are not read; "" where classes have columns."""
    if LABEL in columns[len(called) :]:
        return ""
    left = [name for own, name in zip(columns, called, strict=False) if used.isdisjoint({own, name})]
    verb = "is" if len(left) == 1 else "are"
    return f", of which {', '.join(left)} {verb} not read" if left else ""


def _first(names: tuple[str, ...], columns: list[str]) -> str:
    return next((name for name in names if name in columns), "")


def _stem(name: str) -> str:
    return name.rpartition(".")[0] or name


def _sorted_out(
    images: Images, path: Path, rows: dict[int, Row], columns: tuple[str, ...], stated: tuple[str, ...]
) -> tuple[dict[int, Row], list[Problem]]:
    lines, problems = {}, []
    for number, row in rows.items():
        if wrong := _wrong(row, columns, stated):
            place = f"{path.relative_to(images.folder).as_posix()}, line {number}"
            image = images.find(row[columns[0]]) if row.get(columns[0]) else None
            problems.append(Problem(wrong[0], named(image, images.folder) if image else place, f"{place}: {wrong[1]}"))
        else:
            lines[number] = row
    return lines, problems


def _wrong(row: Row, columns: tuple[str, ...], stated: tuple[str, ...]) -> tuple[str, str] | None:
    """A kind of problem and its sentence."""
    file, label, *edges = columns
    if row[BEYOND]:
        said = f"expected no more cells than columns, found {row[BEYOND]} behind them. Quote cells that hold commas."
        return "row with more cells", said
    if edges and row.get(file) and not any(row.get(name) for name in (label, *edges)):
        return None  # an image without objects
    if not row.get(file) or not row.get(label):
        empty = file if not row.get(file) else label
        found = ",".join(cell for name, cell in row.items() if name != BEYOND)
        return (
            "row without a label",
            f"the column '{empty}' is empty in the row '{found}'. Fill it in, or remove the row.",
        )
    if stated and row[label] not in stated:
        said = f"expected a {label} that classes.txt names, found {row[label]}. Add it there, or remove the row."
        return "label without a name", said
    return None


def _unnamed(folder: Path, tables: Sequence[_Table], layout: Layout) -> list[Problem]:
    """Notes of the images beside tables that no cell names."""
    # Rows of a one-hot table that have no class, or several, name images too.
    dropped = [row for table in tables if table.classes for row in read_rows(table.path)[0].values()]
    rows = [*dropped, *(row for table in tables for row in table.rows.values())]
    cells = {plain(cell) for row in rows for cell in row.values()}
    left = [path for path in listing.files(folder) if listing.is_image(path) and cells.isdisjoint(_ends(path))]
    known = {item.image.resolve() for item in layout.items if left and isinstance(item.image, Path)}
    names = [named(path, folder) for path in left if path.resolve() not in known]
    said = f"no row of {' or '.join(table.path.name for table in tables)} names it: it is left out."
    return [Problem("image in no row", name, f"{name}: {said}", fatal=False) for name in names]


def _ends(path: Path) -> list[str]:
    """What a path may be called in a table: its name, with the folder before it, and so on, with and without suffix."""
    ends = ("/".join(path.parts[start:]) for start in range(1, len(path.parts)))
    return [listing.composed(name) for end in ends for name in (end, end.removesuffix(path.suffix))]
