"""What COCO's annotations outline: their pixels, the box around them, and whether that is the box they state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

import msgspec
import numpy as np

from penstock.datasets.layouts import coco_runs
from penstock.datasets.layouts.coco_json import Annotation, Runs
from penstock.datasets.layouts.coco_runs import Counts
from penstock.datasets.layouts.fill import Part
from penstock.errors import DatasetError, not_installed
from penstock.kinds.boxes import spell
from penstock.kinds.items import Box, Problem

CONTRADICTION: Final = "box and outline differ"
_ALIKE: Final = 0.5  # overlap of a box and its outline
_SLIGHTLY: Final = 0.01  # of an area, by rounding
_MOSTLY: Final = 0.5  # of the boxes
_FAR: Final = 1e6  # pixels: what lies further out is no coordinate
_REMEMBERED: Final = 1 << 16  # run lengths
_POLYGON: Final = 6  # numbers of a triangle


def extent(each: Annotation) -> Box | None:
    """The edges of an outline; None for run lengths, which have the size of their image, and for no outline."""
    outlines = each.segmentation
    if not isinstance(outlines, list) or not outlines or not all(map(_is_outline, outlines)):
        return None
    x = [number for outline in outlines for number in outline[::2]]
    y = [number for outline in outlines for number in outline[1::2]]
    return Box(0, min(x), min(y), max(x), max(y))


def _extent_of_runs(each: Annotation) -> Box | None:
    """The edges of run lengths; None where they are none, or damaged, which is found where they are drawn."""
    runs = each.segmentation
    if not isinstance(runs, Runs):
        return None
    edges = _edges_of(runs.counts if isinstance(runs.counts, str) else tuple(runs.counts), tuple(runs.size))
    return Box(0, *edges) if edges else None


@lru_cache(_REMEMBERED)
def _edges_of(counts: str | tuple[int, ...], size: tuple[int, int]) -> tuple[int, int, int, int] | None:
    """The edges of run lengths, which each of COCO's layouts asks for."""
    with contextlib.suppress(ValueError, OverflowError):
        numbers = _counts(counts)
        return coco_runs.edges(numbers, size[0]) if _covers(numbers, size) else None
    return None


def _counts(counts: str | Sequence[int]) -> Counts:
    return coco_runs.counts_of(counts.encode()) if isinstance(counts, str) else np.array(counts, np.int64)


def _is_outline(numbers: Sequence[float]) -> bool:
    return len(numbers) >= _POLYGON and not len(numbers) % 2 and max(map(abs, numbers)) < _FAR


def edges(own: Sequence[Annotation]) -> tuple[Box, ...]:
    """The boxes around the outlines of an image, which are checked against its size."""
    return tuple(box for each in own if (box := extent(each)))


def contradictions(name: str, own: Sequence[Annotation]) -> Iterator[Problem]:
    """The problems of annotations whose box lies elsewhere than their outline."""
    for each in own:
        around = None if each.bbox is None or each.iscrowd else extent(each) or _extent_of_runs(each)
        if around is None or each.bbox is None:
            continue
        x, y, width, height = each.bbox
        box = Box(0, x, y, x + width, y + height)
        if min(width, height) > 0 and _overlap(box, around) < _ALIKE:
            found = f"{spell(box)} and {spell(around)} (x, y)"
            corners = _overlap(Box(0, *each.bbox), around) >= _ALIKE
            fix = "Read the box as corners with --boxes xyxy" if corners else "Fix it"
            message = (
                f"{name}: expected the box and the outline of annotation {each.id} in one place, found {found}. {fix}, "
                "or leave the image out with --skip-bad."
            )
            yield Problem(CONTRADICTION, name, message)


def corners(where: str, own: Sequence[Annotation]) -> Iterator[Problem]:
    """The problem of boxes without outlines whose areas are stated, and show that the boxes are corners."""
    known = [(each.bbox, each.area) for each in own if each.bbox and each.area and not each.segmentation]
    sizes = sum(abs(w * h - area) <= _SLIGHTLY * area for (_, _, w, h), area in known)
    edges = sum(abs((w - x) * (h - y) - area) <= _SLIGHTLY * area for (x, y, w, h), area in known)
    if edges > _MOSTLY * len(known) > sizes:
        message = (
            f"{where}: expected boxes as a corner and a size (left, top, width, height), found the areas of corners "
            f"(left, top, right, bottom) in {edges:,} of {len(known):,}. Read them as corners with --boxes xyxy."
        )
        yield Problem(CONTRADICTION, where, message, whole=True)


def _overlap(one: Box, other: Box) -> float:
    """The intersection of two boxes over their union, both a pixel larger, as lines have no area."""
    width = min(one.right, other.right) - max(one.left, other.left) + 1
    height = min(one.bottom, other.bottom) - max(one.top, other.top) + 1
    both = max(0.0, width) * max(0.0, height)
    areas = [(each.right - each.left + 1) * (each.bottom - each.top + 1) for each in (one, other)]
    return both / max(1.0, sum(areas) - both)


def part(each: Annotation, size: tuple[int, int], where: str) -> Part:
    """Which pixels of an image of a (height, width) lie in an outline.

    Raises:
        DatasetError: it is no outline, or of an image of another size.
        RecipeError: faster-coco-eval is not installed.
    """
    return coco_runs.part(_run_lengths(each, size, where), size)


def _run_lengths(each: Annotation, size: tuple[int, int], where: str) -> Counts:
    shape = each.segmentation
    try:
        if isinstance(shape, Runs):
            counts = _counts(shape.counts)
            sound = tuple(shape.size) == size and _covers(counts, size)
        else:
            sound = all(map(_is_outline, shape or []))
            counts = _drawn(shape or [], size, where) if sound else np.empty(0, np.int64)
    except (ValueError, OverflowError) as error:
        raise DatasetError(
            f"{where} (annotation {each.id})", expected="run lengths", found=str(error), remedy="Fix the file"
        ) from None
    if not sound:
        raise DatasetError(
            f"{where} (annotation {each.id})",
            expected=f"outlines of at least three points, or run lengths of an image of {size[0]} x {size[1]}",
            found=_described(shape, counts),
            remedy="Fix the file",
        )
    return counts


def _drawn(outlines: Sequence[Sequence[float]], size: tuple[int, int], where: str) -> Counts:
    """Polygons as COCO's own tools draw them."""
    try:
        from faster_coco_eval import mask as masks  # noqa: PLC0415 - an extra
    except ImportError:
        raise not_installed(f"{where}: an outline", "faster-coco-eval", "Install penstock[detect]") from None
    drawn = masks.frPyObjects(outlines, *size)
    return coco_runs.counts_of((drawn[0] if len(drawn) == 1 else masks.merge(drawn))["counts"])


def _described(shape: list[list[float]] | Runs | None, counts: Counts) -> str:
    """What is said of an object's pixels, in words."""
    if isinstance(shape, Runs):
        sides, numbers = " x ".join(map(str, shape.size)), counts.tolist()
        return f"run lengths of {sides} that sum to {sum(numbers):,}, the smallest {min(numbers, default=0):,}"
    return str(msgspec.to_builtins(shape))[:80]


def _covers(counts: Counts, size: tuple[int, int]) -> bool:
    """Whether run lengths are those of an image."""
    numbers = counts.tolist()  # whose sum has no end
    return min(numbers, default=0) >= 0 and sum(numbers) == size[0] * size[1]
