"""Masks as run lengths in a table, as Kaggle's competitions have them: `ImageId, ClassId, EncodedPixels`.

Runs are pairs of a start, counted from 1, and a length. A row is an object, or all of a class in an image; no runs are
no objects. Kaggle's usual order is column by column from the top left. Some competitions count row by row, which is
taken where it gives far more compact shapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from penstock.datasets import class_lists, listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts.annotated import BACKGROUND
from penstock.datasets.layouts.columns import image_column
from penstock.datasets.layouts.csv_files import readable
from penstock.datasets.layouts.lookup import Images
from penstock.datasets.layouts.table_boxes import size_in
from penstock.errors import DatasetError, ImageError
from penstock.images import codecs, probe
from penstock.images.formats import stored
from penstock.kinds.boxes import other_size
from penstock.kinds.items import FilePart, Instance, Item, Labels, Problem, named
from penstock.progress import counted
from penstock.values import Bits

Row = Mapping[str, str]

_RUNS: Final = re.compile(r"\d{1,18} \d{1,18}( \d{1,18} \d{1,18})*")
_CALLED: Final = re.compile(r"encod|rle|pixels|segmentation|annotation", re.IGNORECASE)
_NOTHING: Final = frozenset({"", "-1", "1 0", "none"})
_CLASS: Final = ("classid", "class_id", "class", "label", "category", "cell_type", "target")
_JOINED: Final = re.compile(r"(?P<image>.+)_(?P<label>[^_]+)")  # ImageId_ClassId
_OBJECT: Final = "object"
_LOOKED_AT: Final = 200  # rows
_SAMPLED: Final = 16  # of them show in which order pixels are counted
_HIGHEST: Final = 254  # ids of classes in masks


class _Runs(NamedTuple):
    """The runs of a row: its class, what they are called in messages, and their text."""

    label: str
    where: str
    text: str


class _Table(NamedTuple):
    """A table of run lengths.

    Attributes:
        path: of the file.
        images: the runs of every image that is there.
        missing: names of images that are not there.
        classes: in order.
        by_column: whether pixels are counted column by column.
        about: how the order of pixels is known, in words.
        wrong: problems of images of another size than their rows state.
    """

    path: Path
    images: dict[Path, list[_Runs]]
    missing: list[str]
    classes: tuple[str, ...]
    by_column: bool
    about: str
    wrong: list[Problem]


def recognise(folder: Path) -> Layout | None:
    """A table of run lengths beside images, as masks: class 0 is background, smaller objects lie on larger ones."""
    table = _find(folder)
    if table is None:
        return None
    classes = (BACKGROUND, *table.classes)
    if len(classes) > _HIGHEST:
        raise DatasetError(
            str(table.path),
            expected=f"up to {_HIGHEST} classes, as masks hold bytes",
            found=counted(len(table.classes), "class"),
            remedy="Merge some, or pack it with --task instances",
        )
    items = []
    for image, runs in table.images.items():
        mask = partial(_mask, image, runs, table.classes, by_column=table.by_column)
        items.append(Item("train", _name(image, folder), image, label=FilePart(table.path, image.name, mask)))
    found = _layout(folder, table, "segmentation", "run lengths", items, classes)
    return replace(found, problems=(*found.problems, *_overlaps(folder, table)))


def recognise_instances(folder: Path) -> Layout | None:
    """The same, with each row as an object."""
    table = _find(folder)
    if table is None:
        return None
    items = []
    for image, runs in table.images.items():
        objects = tuple(
            Instance(table.classes.index(each.label), partial(_pixels, each, by_column=table.by_column))
            for each in runs
        )
        items.append(Item("train", _name(image, folder), image, label=objects))
    return _layout(folder, table, "instances", "run lengths of objects", items, table.classes)


def _layout(
    folder: Path, table: _Table, task: str, name: str, items: Sequence[Item], classes: tuple[str, ...]
) -> Layout:
    where = named(table.path, folder)
    problems = [*table.wrong, *(_missing(where, image) for image in table.missing)]
    beside = {image.parent for image in table.images}
    left = (path for path in _images(folder) if path not in table.images)
    problems += [_unnamed(path, folder, where, fatal=path.parent in beside) for path in left]
    return Layout(task, name, (f"{where}: {table.about}",), tuple(items), Labels(classes), tuple(problems))


def _images(folder: Path) -> Iterator[Path]:
    return filter(listing.is_image, listing.files(folder))


def _name(image: Path, folder: Path) -> str:
    return image.relative_to(folder).with_suffix("").as_posix()


def _find(folder: Path) -> _Table | None:
    images = Images(folder)
    for path, rows, header in readable(folder, "*.csv"):
        column = _run_column(rows, header)
        if column and (found := _rows(path, images, rows, [name for name in header if name != column], column)):
            return found
    return None


def _run_column(rows: Mapping[int, Row], header: Sequence[str]) -> str:
    """The column called so whose cells are pairs of numbers; "" for none."""
    for name in header:
        cells = [cell for row in islice(rows.values(), _LOOKED_AT) if (cell := row.get(name.lower(), ""))]
        known = sum(bool(_RUNS.fullmatch(cell)) or cell.lower() in _NOTHING for cell in cells)
        if _CALLED.search(name) and known > len(cells) / 2:
            return name
    return ""


def _rows(path: Path, images: Images, rows: Mapping[int, Row], others: Sequence[str], column: str) -> _Table | None:
    called = image_column(rows, others, images)
    label = next((name for name in others if name.lower() in _CLASS and name != called), "")
    pairs = {line: _image_and_label(row, called, label, others) for line, row in rows.items()}
    places = {name: images.find(name) for name in dict.fromkeys(name for name, _ in pairs.values())}
    if not any(places.values()):
        return None
    found: dict[Path, list[_Runs]] = {place: [] for place in places.values() if place}
    for line, (name, kind) in pairs.items():
        text = rows[line].get(column.lower(), "")
        place = places[name]
        if place and text.lower() not in _NOTHING:
            found[place].append(_Runs(kind, f"{path.name}, line {line}", text))
    classes = sorted({each.label for runs in found.values() for each in runs}, key=_by_number)
    by_column, about = _order(found)
    missing = [name for name, place in places.items() if place is None]
    stated = {
        place: size for line, (name, _) in pairs.items() if (place := places[name]) and any(size := size_in(rows[line]))
    }
    wrong = [problem for place, size in stated.items() for problem in _of_other_size(place, size, images.folder)]
    return _Table(path, found, missing, tuple(classes), by_column, about, wrong)


def _of_other_size(image: Path, stated: tuple[int, int], folder: Path) -> list[Problem]:
    try:
        size = _size(image)
    except (ImageError, OSError):  # which is named where it is decoded
        return []
    return other_size(named(image, folder), stated, size) if size != stated else []


def _image_and_label(row: Row, called: str, label: str, others: Sequence[str]) -> tuple[str, str]:
    """What a row says its image and its class are called; Severstal's first table has both in one cell."""
    if called:
        return row.get(called.lower(), ""), (row.get(label.lower(), "") if label else "") or _OBJECT
    match = _JOINED.fullmatch(row.get(others[0].lower(), "")) if others else None
    return (match["image"], match["label"]) if match else ("", _OBJECT)


def _by_number(name: str) -> tuple[int, str]:
    return class_lists.id_in(name), name


def _order(found: Mapping[Path, Sequence[_Runs]]) -> tuple[bool, str]:
    """Whether pixels are counted column by column, and the sentence that says why."""
    edges = {True: 0, False: 0}
    sample = [(image, each) for image, runs in found.items() for each in runs]
    for image, each in sample[:: max(1, len(sample) // _SAMPLED)][:_SAMPLED]:
        try:
            size = _size(image)
            for by_column in edges:
                edges[by_column] += _outline(_pixels(each, size, by_column=by_column))
        except (DatasetError, ImageError, OSError):
            continue
    for by_column, how in ((True, "column by column"), (False, "row by row")):
        if edges[by_column] < edges[not by_column] / 2:
            return by_column, f"runs are read {how}, which makes the shapes compact"
    return True, "runs are read column by column, as is usual: their shapes do not show it"


def _outline(mask: Bits) -> int:
    """How many neighbours differ."""
    return int((mask[1:] != mask[:-1]).sum() + (mask[:, 1:] != mask[:, :-1]).sum())


def _size(image: Path) -> tuple[int, int]:
    return probe(stored(image.read_bytes(), image.name), image.name).size


def _pixels(runs: _Runs, size: tuple[int, int], *, by_column: bool) -> Bits:
    """The pixels of runs: bool of shape `size`."""
    numbers = np.array(runs.text.split(), np.int64).reshape(-1, 2) if _RUNS.fullmatch(runs.text) else None
    height, width = size
    if numbers is None or numbers[:, 0].min() < 1 or (numbers.sum(axis=1) - 1).max() > height * width:
        raise DatasetError(
            runs.where,
            expected=f"pairs of a start, from 1, and a length, in an image of {height} x {width}",
            found=runs.text[:80],
            remedy="Fix the row, or remove it",
        )
    if (numbers[1:, 0] < numbers[:-1].sum(axis=1)).any():
        raise DatasetError(
            runs.where,
            expected="starts that grow, each counted from the first pixel, and runs that do not overlap",
            found=runs.text[:80],
            remedy="If starts are counted from the end of the run before, add them up first",
        )
    flat = np.zeros(height * width, np.bool_)
    for start, length in numbers.tolist():
        flat[start - 1 : start - 1 + length] = True
    return flat.reshape(width, height).T if by_column else flat.reshape(height, width)


def _mask(image: Path, runs: Sequence[_Runs], classes: Sequence[str], *, by_column: bool) -> bytes:
    size = _size(image)
    ids = np.zeros(size, np.uint8)
    drawn = [(classes.index(each.label) + 1, _pixels(each, size, by_column=by_column)) for each in runs]
    for label, pixels in sorted(drawn, key=lambda pair: -int(pair[1].sum())):
        ids[pixels] = label
    return codecs.plain_mask(ids)


def _overlaps(folder: Path, table: _Table) -> list[Problem]:
    """A note of classes that overlap in some of the first images with several."""
    several = [image for image, runs in table.images.items() if len({each.label for each in runs}) > 1][:_SAMPLED]
    overlapping = [image for image in several if _is_overlapping(image, table)]
    if not overlapping:
        return []
    message = (
        f"{named(table.path, folder)}: runs of classes overlap in {len(overlapping)} of the first "
        f"{counted(len(several), 'image')} with several, such as {named(overlapping[0], folder)}. There the smaller "
        "object counts."
    )
    return [Problem("classes overlap", named(table.path, folder), message, fatal=False, whole=True)]


def _is_overlapping(image: Path, table: _Table) -> bool:
    by_class: dict[str, Bits] = {}
    try:
        size = _size(image)
        for each in table.images[image]:
            pixels = _pixels(each, size, by_column=table.by_column)
            by_class[each.label] = by_class[each.label] | pixels if each.label in by_class else pixels
    except (DatasetError, ImageError, OSError):
        return False  # which is named where the mask is drawn
    return bool((np.sum([*by_class.values()], axis=0) > 1).any())


def _missing(table: str, name: str) -> Problem:
    message = f"{table}: expected the image {name} that it names, found nothing. Add it, or remove its rows."
    return Problem("image missing", f"{table}#{name}", message)


def _unnamed(path: Path, folder: Path, table: str, *, fatal: bool) -> Problem:
    """An image beside others that have rows may be one without objects, whose row somebody has left out."""
    name = named(path, folder)
    message = f"{name}: no row of {table} names it: it is left out."
    if fatal:
        message = (
            f"{name}: expected a row of {table}, found none. If the image has no objects, add a row of its name "
            "without runs. If it has no labels, leave it out with --skip-bad."
        )
    return Problem("image in no row", name, message, fatal=fatal)
