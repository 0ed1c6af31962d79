"""Masks that number the objects of each image: 0 where there is none, then 1, 2, 3 and so on, one number an object, as
Cellpose, StarDist, ImageJ and Penn-Fudan have them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from penstock.datasets.layout import Layout
from penstock.datasets.layouts import masks, named_masks
from penstock.datasets.layouts.several import check_size
from penstock.errors import DatasetError, PenstockError
from penstock.images import codecs
from penstock.images.formats import mask_numbers
from penstock.kinds.items import Box, FilePart, Instance, Item, Labels, Problem, named

Numbers = NDArray[np.int64]
_Edges = tuple[float, float, float, float]

_SAMPLED: Final = 8  # masks that are looked at
_COUNTED: Final = 24  # objects of each of them
_MANY: Final = 5  # objects in one image, below which numbers could as well be classes
_DIFFERENT: Final = 3  # highest numbers that masks of objects have at least
_MOSTLY: Final = 0.9  # of the numbers are one region each
_DENSE: Final = 0.8  # of the numbers up to the highest are used
_BACKGROUND: Final = ("background", "_background_")
_OBJECT: Final = "object"
_SMALLEST: Final = 8  # pixels an object at least, on average: those of depth have a value of their own each
_ONE: Final = 2  # OpenCV counts the background too


@dataclass(frozen=True)
class _Objects:
    """The size of a mask, (height, width), and the left, top, right and bottom edge of every number in it."""

    size: tuple[int, int]
    edges: dict[int, _Edges]


def recognise(folder: Path) -> Layout | None:
    """Images with masks of numbered objects of one class; None without masks, or with several classes."""
    found = _masked(folder)
    name = _class_of(found.labels) if found else ""
    if found is None or not name:
        return None
    numbered = replace(found, name=f"{found.name} with numbered objects")
    return by_number(folder, numbered, name, first="instances", nameless=not found.labels.classes)


def is_evident(folder: Path) -> bool:
    """Whether masks number objects, of which one has many."""
    found = _masked(folder)
    return found is not None and _max_objects(found) >= _MANY


def doubts(folder: Path, found: Layout) -> list[Problem]:
    """A note where the few ids of masks may as well number objects."""
    if not found.kind.reads_masks or not _max_objects(found):
        return []
    message = (
        f"{folder}: in each mask the ids count from 1, and each is one region. They are read as classes. If they are "
        "numbers of objects, use --layout numbered-masks."
    )
    return [Problem("ids that may number objects", str(folder), message, fatal=False, whole=True)]


def _max_objects(found: Layout) -> int:
    """The most objects of a mask, where nearly all numbers are one region, few are skipped, and counts differ; or 0."""
    if not _class_of(found.labels):
        return 0
    places = [item.label for item in found.items if isinstance(item.label, Path)]
    sampled = places[:: max(1, len(places) // _SAMPLED)][:_SAMPLED]
    try:
        counted = [each for each in map(_counted, sampled) if each[0]]
    except (PenstockError, OSError):
        return 0
    if len({highest for _, highest, _, _ in counted}) < _DIFFERENT:
        return 0
    used, highest, single, looked_at = (sum(column) for column in zip(*counted, strict=True))
    pixels = sum(_numbers(place, str(place)).size for place in sampled)
    is_counted = used >= _DENSE * highest and single >= _MOSTLY * looked_at and used <= pixels / _SMALLEST
    return max(each for each, _, _, _ in counted) if is_counted else 0


def by_number(folder: Path, layout: Layout, name: str, *, first: str, nameless: bool = False) -> Layout:
    """A layout of images and masks in three ways: for segmentation into background and object, for detection and for
    instance segmentation.

    Args:
        folder: of the data.
        layout: whose masks hold numbers.
        name: of the class of all objects.
        first: the task that it is taken for if none is named.
        nameless: whether somebody may give the class another name.
    """
    with ThreadPoolExecutor() as pool:
        read = [*pool.map(partial(_read, folder), (item.label for item in layout.items))]
    wrong = [
        Problem("unreadable mask", named(item.image, folder), f"{named(item.image, folder)}: {error}")
        for item, (_, error) in zip(layout.items, read, strict=True)
        if error
    ]
    numbered = [(item, objects) for item, (objects, error) in zip(layout.items, read, strict=True) if not error]
    about = f"every number above 0 in a mask is one {name}"
    about += "; --classes NAME gives the class another name" if nameless else ""
    base = replace(
        layout, reasons=(*layout.reasons, about), problems=(*layout.problems, *wrong), nameless=nameless, complete=True
    )
    whole = tuple(_binary(item, name) for item, _ in numbered)
    ways = {
        "segmentation": replace(base, items=whole, labels=Labels(("background", name))),
        "detection": replace(
            base,
            task="detection",
            reasons=(*base.reasons, "boxes are those around the pixels of each number"),
            items=tuple(_around(item, objects) for item, objects in numbered),
            labels=Labels((name,)),
        ),
        "instances": replace(
            base,
            task="instances",
            items=tuple(_each(item, objects) for item, objects in numbered),
            labels=Labels((name,)),
        ),
    }
    return replace(ways.pop(first), others=tuple(ways.values()))


def _masked(folder: Path) -> Layout | None:
    """Images with masks of the same names."""
    try:
        found = masks.recognise(folder) or named_masks.recognise(folder)
    except DatasetError:  # of a legend, which is reported where the masks are read
        return None
    if found is None or not found.kind.reads_masks:
        return None
    return found if any(item.label for item in found.items) else None


def _class_of(labels: Labels) -> str:
    """The class of all objects; "" where several are named."""
    own = [name for name in labels.classes if name.lower() not in _BACKGROUND]
    return "" if labels.colors or len(own) > 1 else (own or [_OBJECT])[0]


def _read(folder: Path, mask: Path | FilePart | None) -> tuple[_Objects | None, PenstockError | None]:
    """The objects of a mask, or what is wrong with it; None for no mask."""
    if mask is None:
        return None, None
    try:
        numbers = _numbers(_file(mask), named(mask, folder))
    except PenstockError as error:
        return None, error
    height, width = numbers.shape
    return _Objects((height, width), _edges(numbers)), None


def _file(mask: Path | FilePart) -> Path:
    assert not isinstance(mask, FilePart)  # noqa: S101 - the layouts that are read here have files
    return mask


def _edges(numbers: Numbers) -> dict[int, _Edges]:
    """Left, top, right and bottom of every number above 0, in one pass: there may be hundreds."""
    rows, columns = np.nonzero(numbers)
    order = np.argsort(numbers[rows, columns], kind="stable")
    rows, columns = rows[order], columns[order]
    found, first = np.unique(numbers[rows, columns], return_index=True)
    if not len(found):
        return {}
    low = (np.minimum.reduceat(each, first) for each in (columns, rows))
    high = (np.maximum.reduceat(each, first) + 1 for each in (columns, rows))
    edges = np.stack([*low, *high], axis=1).astype(np.float64).tolist()
    return {number: tuple(each) for number, each in zip(found.tolist(), edges, strict=True)}


def _numbers(mask: Path, where: str) -> Numbers:
    stat = mask.stat()
    return _kept(mask, where, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=16)
def _kept(mask: Path, where: str, _: int, __: int) -> Numbers:
    return mask_numbers(mask.read_bytes(), where)


def _counted(mask: Path | FilePart) -> tuple[int, int, int, int]:
    """How many numbers a mask has, the highest, how many are one region each, and of how many that was looked at."""
    numbers = _numbers(_file(mask), str(mask))
    found = np.unique(numbers[numbers > 0])
    sample = found[:: max(1, len(found) // _COUNTED)][:_COUNTED]
    single = sum(cv2.connectedComponents((numbers == number).astype(np.uint8))[0] == _ONE for number in sample)
    return len(found), int(found.max(initial=0)), single, len(sample)


def _binary(item: Item, name: str) -> Item:
    """An item whose mask is 1 where there is any object."""
    if item.label is None:
        return item
    mask = _file(item.label)
    return replace(item, label=FilePart(mask, name, partial(_any_object, mask)))


def _any_object(mask: Path) -> bytes:
    return codecs.plain_mask((_numbers(mask, str(mask)) > 0).astype(np.uint8))


def _around(item: Item, objects: _Objects | None) -> Item:
    """An item with a box for every number."""
    if objects is None:
        return item
    return replace(item, size=objects.size, label=tuple(Box(0, *each) for each in objects.edges.values()))


def _each(item: Item, objects: _Objects | None) -> Item:
    if item.label is None or objects is None:
        return item
    instances = tuple(Instance(0, partial(_pixels, _file(item.label), number)) for number in objects.edges)
    return replace(item, label=instances)


def _pixels(mask: Path, number: int, size: tuple[int, int]) -> NDArray[np.bool_]:
    numbers = _numbers(mask, str(mask))
    check_size(mask, numbers.shape, size)
    own: NDArray[np.bool_] = numbers == number
    return own
