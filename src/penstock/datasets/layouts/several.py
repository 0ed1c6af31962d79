"""Several masks for each image: of classes, of raters, or of objects."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.datasets.layout import Layout
from penstock.errors import DatasetError, PenstockError
from penstock.images import codecs
from penstock.images.formats import mask_numbers
from penstock.kinds.items import FilePart, Instance, Item, Labels, Problem
from penstock.progress import counted

Numbers = NDArray[np.int64]

_MAX: Final = 32  # classes or raters
_NO_NAME: Final = re.compile(r".?|.?\d+|\d+.?")
_MOSTLY: Final = 0.9  # of the images have a mask of the class or rater
_BINARY: Final = 2  # values
_SAMPLED: Final = 32  # images whose masks are compared
_RATER: Final = re.compile(
    r"rater|reader|expert|observer|annotator|doctor|radiologist|grader|\d(st|nd|rd|th)", re.IGNORECASE
)
_SIGNS: Final = " _-./"
_ALIKE: Final = 0.5  # overlap of masks that several people drew of one thing
_NUMBERED: Final = re.compile(r"(.*?\D)\d+")
RATERS: Final = "several raters"
MAJORITY: Final = "majority"


class Row(NamedTuple):
    """An image, its masks, and what each of these has beyond the name of the image."""

    item: Item
    masks: list[Path]
    ends: list[str]


def are_usual(rows: Sequence[Row]) -> bool:
    """Whether most images that have a mask have several, all of which have a name of their own beside the image's."""
    several = 2 * sum(len(row.masks) > 1 for row in rows) > sum(bool(row.masks) for row in rows)
    return several and all(end.strip(_SIGNS) for row in rows for end in row.ends)


def are_binary(rows: Sequence[Row]) -> bool:
    """Whether most masks of the first images have two values, as those of classes, raters and objects have."""
    paths = [path for row in rows[:_SAMPLED] for path in row.masks]
    return 2 * sum(map(_is_binary, paths)) > len(paths)


def _is_binary(path: Path) -> bool:
    try:
        return _binary(path).size > 0
    except (PenstockError, ValueError, OSError):
        return False  # which is named where the masks are read


def read(layout: Layout, rows: Sequence[Row]) -> Layout:
    """Segmentation with several masks an image: by class or rater where endings repeat, else as objects."""
    masked = [row for row in rows if row.masks]
    counts = Counter(end for row in masked for end in row.ends)
    if classes := _classes_of_objects(counts):
        return _objects(layout, rows, classes)
    usual = sorted(end for end, count in counts.items() if count >= _MOSTLY * len(masked))
    agree = len(usual) == len(counts) and _agree(masked, usual)
    if 1 < len(usual) <= _MAX and (agree or any(map(_RATER.search, usual))):
        return _by_rater(layout, rows, usual)
    numbered = all(_NO_NAME.fullmatch(end.strip(_SIGNS)) for end in usual)
    absent = len(usual) < len(counts)
    if absent and _are_names(counts):
        usual, numbered, absent = sorted(counts), False, False
    if numbered or absent or not 1 < len(usual) <= _MAX:
        return _objects(layout, rows)
    return _by_class(layout, rows, usual)


def _classes_of_objects(ends: Iterable[str]) -> dict[str, str]:
    """The two or more classes of endings such as cat_1, dog_1, dog_2, one of them with several numbers; or none."""
    found = {end: match[1].strip(_SIGNS) for end in ends if (match := _NUMBERED.fullmatch(end.strip(_SIGNS)))}
    counts = Counter(found.values())
    named = len(counts) > 1 and max(counts.values()) > 1 and not any(map(_NO_NAME.fullmatch, counts))
    return found if named and len(found) == len({*ends}) else {}


def _are_names(counts: Counter[str]) -> bool:
    """Whether endings are classes that some images lack, not numbers: words, each of several images."""
    words = [end.strip(_SIGNS) for end in counts]
    return not any(_NO_NAME.fullmatch(word) or word[-1].isdigit() for word in words) and min(counts.values()) > 1


def _by_class(layout: Layout, rows: Sequence[Row], ends: Sequence[str]) -> Layout:
    names = tuple(end.strip(_SIGNS) for end in ends)
    order = {end: number for number, end in enumerate(ends, 1)}
    items = []
    for row in rows:
        parts = [(order[end], path) for end, path in zip(row.ends, row.masks, strict=True)]
        mask = FilePart(row.masks[0].parent, row.item.name, partial(_ids_of, parts)) if parts else None
        items.append(replace(row.item, label=mask))
    about = f"a mask for each class is put together with the others: {', '.join(names)}; class 0 is what none shows"
    without = sum(0 < len(row.masks) < len(ends) for row in rows)
    about += f"; in {counted(without, 'image')} a class has no mask, and is taken as absent" if without else ""
    problems = (*layout.problems, *_overlaps(rows))
    return replace(
        layout, items=tuple(items), labels=Labels(("background", *names)), problems=problems, names_masks=True,
        reasons=(*layout.reasons, about), others=(_objects(layout, rows),),
    )  # fmt: skip


def _ids_of(parts: Sequence[tuple[int, Path]]) -> bytes:
    """The masks of several classes as one, in which smaller ones lie on larger ones."""
    masks = [(_binary(path), number, path) for number, path in parts]
    ids = np.zeros(masks[0][0].shape, np.uint8)
    for mask, number, path in sorted(masks, key=lambda each: -int(each[0].sum())):
        check_size(path, mask.shape, ids.shape)
        ids[mask] = number
    return codecs.plain_mask(ids)


def _binary(path: Path) -> NDArray[np.bool_]:
    numbers = mask_numbers(path.read_bytes(), str(path))
    values = np.unique(numbers)
    if len(values) > _BINARY:
        raise DatasetError(
            str(path),
            expected="a mask of one class or object, of two values",
            found=counted(len(values), "value"),
            remedy="Save one mask with an id for every class",
        )
    there: NDArray[np.bool_] = numbers > 0
    return there


def check_size(path: Path, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Refuse a mask that is not of the size of its image, both (height, width).

    Raises:
        DatasetError: it is not.
    """
    if found != expected:
        raise DatasetError(
            str(path),
            expected=f"a mask of {expected[0]} x {expected[1]} (height x width), like its image",
            found=f"one of {found[0]} x {found[1]}",
            remedy="Make both the same size",
        )


def _overlaps(rows: Sequence[Row]) -> list[Problem]:
    """A note of classes that overlap in some of the first images."""
    sampled = [row for row in rows if len(row.masks) > 1][:_SAMPLED]
    overlapping = [row for row in sampled if _is_overlapping(row)]
    if not overlapping:
        return []
    name = overlapping[0].item.name
    message = (
        f"{name}: masks of classes overlap in {len(overlapping)} of the first {counted(len(sampled), 'image')}. There "
        "the smaller mask counts."
    )
    return [Problem("classes overlap", name, message, fatal=False, whole=True)]


def _is_overlapping(row: Row) -> bool:
    try:
        masks = [_binary(path) for path in row.masks]
        return bool((np.sum(masks, axis=0) > 1).any())
    except (PenstockError, ValueError, OSError):
        return False  # which is named where the masks are read


def _agree(rows: Sequence[Row], usual: Sequence[str]) -> bool:
    """Whether the masks of two endings cover nearly the same pixels in most of the first images."""
    sampled = [dict(zip(row.ends, row.masks, strict=True)) for row in rows[:_SAMPLED]]
    return any(
        2 * sum(_overlap(masks.get(one), masks.get(other)) > _ALIKE for masks in sampled) > len(sampled)
        for one, other in combinations(usual, 2)
    )


def _overlap(one: Path | None, other: Path | None) -> float:
    """The intersection of two masks over their union; 0 where they cannot be compared."""
    try:
        masks = [_binary(path) for path in (one, other) if path]
        union = np.logical_or(*masks).sum() if len(masks) == _BINARY else 0
        return float(np.logical_and(*masks).sum() / union) if union else 0.0
    except (PenstockError, ValueError, OSError):
        return 0.0  # which is named where the masks are read


def _by_rater(layout: Layout, rows: Sequence[Row], ends: Sequence[str]) -> Layout:
    """The masks of the first rater, with those of all others to choose from."""
    names = [end.strip(_SIGNS) for end in ends]
    choices = {
        name: tuple(replace(row.item, label=dict(zip(row.ends, row.masks, strict=True)).get(end)) for row in rows)
        for name, end in zip(names, ends, strict=True)
    }
    choices[MAJORITY] = tuple(
        replace(row.item, label=FilePart(row.masks[0].parent, row.item.name, partial(_majority, row.masks)))
        if row.masks
        else row.item
        for row in rows
    )
    message = (
        f"{rows[0].item.name}: expected one mask, found those of {len(names)} raters: {', '.join(names)}. Choose one "
        f"with --rater {names[0]}, or the most frequent value of each pixel with --rater {MAJORITY}."
    )
    problem = Problem(RATERS, rows[0].item.name, message, whole=True)
    return replace(layout, items=choices[names[0]], problems=(*layout.problems, problem), raters=choices)


def _majority(masks: Sequence[Path]) -> bytes:
    """The most frequent value of every pixel; of several, the lowest."""
    numbers = [mask_numbers(path.read_bytes(), str(path)) for path in masks]
    for path, each in zip(masks, numbers, strict=True):
        check_size(path, each.shape, numbers[0].shape)
    together = np.stack(numbers)
    values = np.unique(together)
    votes = np.stack([(together == value).sum(axis=0) for value in values])
    return codecs.plain_mask(values[votes.argmax(axis=0)].astype(np.uint8))


def _objects(layout: Layout, rows: Sequence[Row], classes: Mapping[str, str] | None = None) -> Layout:
    """Each mask is an object, for instance segmentation, and all of them the foreground, for segmentation."""
    classes = classes or {}
    names = tuple(sorted(set(classes.values()))) or ("object",)
    order = {end: names.index(name) for end, name in classes.items()}
    whole, single = [], []
    for row in rows:
        own = [(order.get(end, 0), path) for end, path in zip(row.ends, row.masks, strict=True)]
        ids = partial(_ids_of, [(label + 1, path) for label, path in own])
        mask = FilePart(row.masks[0].parent, row.item.name, ids) if own else None
        whole.append(replace(row.item, label=mask))
        instances = tuple(Instance(label, partial(_pixels, path)) for label, path in own)
        single.append(replace(row.item, label=instances))
    about = f" of the class before its number: {', '.join(names)}" if classes else ""
    reasons = (*layout.reasons, f"each mask of an image is one object{about}")
    segmentation = replace(
        layout, items=tuple(whole), labels=Labels(("background", *names)), reasons=reasons, names_masks=True
    )
    return replace(
        layout, task="instances", items=tuple(single), labels=Labels(names), reasons=reasons, nameless=not classes,
        complete=True, others=(segmentation,),
    )  # fmt: skip


def _pixels(path: Path, size: tuple[int, int]) -> NDArray[np.bool_]:
    mask = _binary(path)
    check_size(path, mask.shape, size)
    return mask
