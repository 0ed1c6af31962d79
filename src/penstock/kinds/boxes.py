"""Whether the boxes of an image make sense."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from penstock.kinds.items import Box, InspectedItem, Problem, named
from penstock.progress import counted

_SLIGHTLY: Final = 2  # pixels, by which tools count sides differently
_LARGER: Final = 1.1  # times, of an original that the image was made from
_ALIKE: Final = 0.02  # of the ratios of both sides
_MANY: Final = 10  # images
_CORNER: Final = 0.6  # of the height and width
_MIDDLE: Final = 0.7  # of the corner, below which the middles of boxes lie on average
_NEAR: Final = 1.0  # pixels by which an edge may lie outside: what counting from 0 or from 1 makes


def check(name: str, inspected: InspectedItem, *, clip: bool = False, trust_size: bool = False) -> InspectedItem:
    """What was found of an image with boxes: edges in pixels and inside the image, or named problems.

    Args:
        name: the image's, for problems.
        inspected: the item, whose image has a size.
        clip: whether boxes that are partly outside the image are cut at its edges, which a note says.
        trust_size: whether the size that the annotations state is passed over.
    """
    item, size = inspected.item, (inspected.height, inspected.width)
    boxes = tuple(_in_pixels(box, size) if item.relative else box for box in item.label)
    problems: list[Problem] = []
    if 0 not in item.size and item.size != size and not trust_size:
        problems = other_size(name, item.size, size, fits=not any(_reaches_outside(box, size) for box in boxes))
    for number, box in enumerate(boxes, 1):
        problems += _problems(name, number, box, size, clip=clip)
    problems += [] if item.relative else [_speck(name, n, box) for n, box in enumerate(boxes, 1) if _is_speck(box)]
    first: dict[Box, int] = {}
    problems += [_again(name, n, first[box]) for n, box in enumerate(boxes, 1) if first.setdefault(box, n) != n]
    problems += _of_two_classes(name, boxes)
    inside = tuple(_clipped(box, size) for box in dict.fromkeys(boxes))
    kept = replace(item, label=inside, relative=False)
    return replace(inspected.labelled(str(inside)), item=kept, problems=(*inspected.problems, *problems))


def check_outlines(name: str, inspected: InspectedItem, *, clip: bool = False) -> InspectedItem:
    """What was found of an image whose label is drawn from outlines: those must lie inside it, as boxes must.

    Args:
        name: the image's, for problems.
        inspected: the item, whose image has a size.
        clip: whether outlines that are partly outside the image are cut at its edges, which a note says.
    """
    size = (inspected.height, inspected.width)
    for number, each in enumerate(inspected.item.outlines, 1):
        edges = _in_pixels(each, size) if inspected.item.relative else each
        if _reaches_outside(edges, size):
            inspected = inspected.with_problem(_outside(name, f"outline {number}", edges, size, clip=clip))
    return inspected


def other_size(name: str, stated: tuple[int, int], size: tuple[int, int], *, fits: bool = False) -> list[Problem]:
    """The problem of an image that is not of the size that its annotations were made for."""
    said = f"{stated[0]} x {stated[1]} (height x width), which its annotations were made for"
    height, width = (there / own for there, own in zip(stated, size, strict=True))
    apart = max(abs(there - own) for there, own in zip(stated, size, strict=True))
    if stated == size[::-1]:
        fix = (
            "If they were drawn on the image as it is stored, remove the orientation from the file, for example with "
            "exiftool -Orientation= FILE. If only height and width were exchanged, use --trust-image-size"
        )
    elif abs(height - width) < _ALIKE * width and height > _LARGER:
        fix = f"The annotations are of an image {height:.3g} times as large. Use that image"
    elif fits and apart <= _SLIGHTLY:
        fix = "All objects lie inside it. If it is the image that was annotated, use --trust-image-size"
    else:
        fix = "Use the image that was annotated"
    message = (
        f"{name}: expected an image of {said}, found {size[0]} x {size[1]}, as viewers show it (EXIF orientation "
        f"counts). {fix}."
    )
    return [Problem("size mismatch", name, message)]


def all_in_a_corner(boxes: Sequence[tuple[Box, InspectedItem]], folder: Path) -> Iterator[Problem]:
    """A note where all boxes of many images lie in the upper left part of these, as boxes in percent do, and those that
    were drawn on smaller images.
    """
    if len({id(each) for _, each in boxes}) < _MANY:
        return
    edges = np.array([_fractions(box, each) for box, each in boxes])
    reach = edges[:, 2:].max()
    middles = (edges[:, :2] + edges[:, 2:]).mean(axis=0) / 2
    if reach <= _CORNER and middles.max() < _MIDDLE * reach:
        name = named(boxes[0][1].item.image, folder)
        message = (
            f"{name}: all {counted(len(edges), 'box')} lie in the upper left {reach:.0%} of the height and width of "
            "their images. If they are in percent, or were drawn on smaller images, correct their numbers."
        )
        yield Problem("boxes in a corner", name, message, fatal=False, whole=True)


def _fractions(box: Box, inspected: InspectedItem) -> tuple[float, float, float, float]:
    height, width = inspected.height, inspected.width
    return box.left / width, box.top / height, box.right / width, box.bottom / height


def _in_pixels(box: Box, size: tuple[int, int]) -> Box:
    height, width = size
    return replace(
        box, left=box.left * width, top=box.top * height, right=box.right * width, bottom=box.bottom * height
    )


def _clipped(box: Box, size: tuple[int, int]) -> Box:
    height, width = size
    return replace(
        box,
        left=min(max(box.left, 0.0), width),
        top=min(max(box.top, 0.0), height),
        right=min(max(box.right, 0.0), width),
        bottom=min(max(box.bottom, 0.0), height),
    )


def edges_of(box: Box) -> tuple[float, float, float, float]:
    """The edges of a box: left, top, right, bottom."""
    return box.left, box.top, box.right, box.bottom


def spell(box: Box) -> str:
    """The corners of a box, for messages."""
    return f"{box.left:g}, {box.top:g} to {box.right:g}, {box.bottom:g}"


def _is_speck(box: Box) -> bool:
    """Whether a box in pixels is no larger than one: a point, or fractions of the size among others in pixels."""
    return 0 < box.right - box.left <= 1 and 0 < box.bottom - box.top <= 1


def _again(name: str, number: int, first: int) -> Problem:
    message = f"{name}: box {number} is box {first} again, of the same class: it is taken once."
    return Problem("box said twice", name, message, fatal=False)


def _of_two_classes(name: str, boxes: Sequence[Box]) -> Iterator[Problem]:
    """Notes of boxes that are those of an earlier one with another class, as a class and what it belongs to may be."""
    first: dict[tuple[float, ...], tuple[int, Box]] = {}
    for number, box in enumerate(boxes, 1):
        other, there = first.setdefault(edges_of(box), (number, box))
        if there.label != box.label:
            message = (
                f"{name}: box {number} is box {other} again, of another class. If an object has one class, remove one."
            )
            yield Problem("one box, two classes", name, message, fatal=False)


def _speck(name: str, number: int, box: Box) -> Problem:
    if (box.right - box.left, box.bottom - box.top) == (1, 1):
        found = "a point. Draw a box, or leave the image out with --skip-bad."
    else:
        found = "smaller than one. Write all boxes in pixels, or all in fractions of their image's size."
    message = f"{name}: expected box {number} in pixels, found {spell(box)} (x, y), which is {found}"
    return Problem("box smaller than a pixel", name, message)


def _reaches_outside(box: Box, size: tuple[int, int]) -> bool:
    height, width = size
    return min(box.left, box.top) < -_NEAR or box.right > width + _NEAR or box.bottom > height + _NEAR


def _is_nowhere(box: Box, size: tuple[int, int]) -> bool:
    """Whether nothing of a box is inside the image."""
    inside = _clipped(box, size)
    return inside.right <= inside.left or inside.bottom <= inside.top


def _outside(name: str, what: str, box: Box, size: tuple[int, int], *, clip: bool) -> Problem:
    height, width = size
    kind = what.partition(" ")[0]
    image = f"the image of {height} x {width} (height x width)"
    if _is_nowhere(box, size):
        fix = "Fix it, or leave the image out with --skip-bad."
    elif clip:
        message = f"{name}: {what} reaches outside {image}: {spell(box)} (x, y). It is cut at the edge."
        return Problem(f"{kind} cut at the edge", name, message, fatal=False)
    else:
        every = "boxes" if kind == "box" else "outlines"
        fix = f"Fix it, cut {every} at the edges with --clip-boxes, or leave the image out with --skip-bad."
    message = f"{name}: expected {what} inside {image}, found {spell(box)} (x, y). {fix}"
    return Problem(f"{kind} outside the image", name, message)


def _problems(name: str, number: int, box: Box, size: tuple[int, int], *, clip: bool) -> Iterator[Problem]:
    if not all(math.isfinite(edge) for edge in (box.left, box.top, box.right, box.bottom)):
        message = f"{name}: expected four numbers for box {number}, found one that is none (NaN or infinite). Fix it."
        yield Problem("box without numbers", name, message)
        return
    edges = spell(box)
    if box.right <= box.left or box.bottom <= box.top:
        message = (
            f"{name}: expected box {number} from its left top to its right bottom corner, found {edges} (x, y). "
            "Fix it; in a CSV, columns of a corner and a size must be named x, y, width, height, or bbox_xywh."
        )
        yield Problem("box inside out", name, message)
    elif _reaches_outside(box, size) or _is_nowhere(box, size):
        yield _outside(name, f"box {number}", box, size, clip=clip)
    elif box.crowd:
        message = f"{name}: box {number} is a crowd: it is not learnt, and predictions in it do not count as wrong."
        yield Problem("crowd box", name, message, fatal=False)
