"""Class folders that are perhaps two sides of the same images: sharp and blurred ones, photographs and depth."""

from __future__ import annotations

import shlex
from itertools import pairwise
from statistics import mean
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.datasets import listing
from penstock.datasets.duplicates import perceptual_hash
from penstock.datasets.layouts import matching
from penstock.errors import PenstockError
from penstock.images import decode_image, probe
from penstock.images.formats import stored
from penstock.kinds.items import Problem, named

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    _Folder = tuple[Path, dict[str, Path]]

KIND: Final = "two sides as classes"
_FOLDERS: Final = 8  # more are classes
_SAMPLED: Final = 12
_MOST: Final = 0.9  # of the images have a partner
_FEWEST: Final = 4  # pairs that show whether both are of one scene
_UNLIKE: Final = 8  # bits in which images of one folder differ at least: else all show the same


class _Look(NamedTuple):
    hash: int
    is_gray: bool


def problems(folder: Path, classes: Sequence[Path]) -> list[Problem]:
    """A problem for each folder whose images have the names of those of the first one, and show the same, or have one
    channel where those have several.

    Args:
        folder: of the data, for names.
        classes: the folders taken for classes.
    """
    if not 1 < len(classes) <= _FOLDERS:
        return []
    first, *rest = ((path, _images(path)) for path in classes)
    return [_problem(folder, *sides) for each in rest if (sides := _sides(first, each))]


def _problem(folder: Path, images: Path, others: Path) -> Problem:
    one, other = named(images, folder), named(others, folder)
    options = f"--images {shlex.quote(one)} --masks {shlex.quote(other)}"
    message = (
        f"{other}: expected the images of a class, found images that belong to those of {one}, by their names and by "
        f"what they show. If they are masks, use {options}. If a model shall make one from the other, describe the "
        "layout and the task in files of your own (docs/extending.md). If both are classes, confirm it with --layout "
        "folders."
    )
    return Problem(KIND, other, message, whole=True)


def _sides(one: _Folder, other: _Folder) -> tuple[Path, Path] | None:
    """The folder of images and the one of what belongs to them; None for two classes."""
    (first, images), (second, others) = one, other
    partners = matching.match(images.keys(), others.keys())
    pairs = [(images[name], others[found[0]]) for name, found in sorted(partners.items()) if len(found) == 1]
    if not pairs or len(pairs) < _MOST * min(len(images), len(others)):
        return None
    step = max(1, len(pairs) // _SAMPLED)
    looks = [(a, b) for x, y in pairs[::step][:_SAMPLED] if (a := _look(x)) and (b := _look(y))]
    gray = [{each.is_gray for each in side} for side in zip(*looks, strict=True)]
    if images.keys() == others.keys() and gray == [{True}, {False}]:
        return second, first
    depth = images.keys() == others.keys() and gray == [{False}, {True}]
    return (first, second) if depth or _show_the_same(looks) else None


def _show_the_same(looks: Sequence[tuple[_Look, _Look]]) -> bool:
    """Whether the images of a pair are at least twice as near to each other as to those of the next pair."""
    if len(looks) < _FEWEST:
        return False
    near = mean(_distance(a, b) for a, b in looks)
    far = mean(_distance(a, b) for (a, _), (_, b) in pairwise([*looks, looks[0]]))
    return far >= _UNLIKE and near <= far / 2


def _distance(one: _Look, other: _Look) -> int:
    return (one.hash ^ other.hash).bit_count()


def _images(folder: Path) -> dict[str, Path]:
    paths = filter(listing.is_image, listing.files(folder))
    return {listing.composed(path.relative_to(folder).with_suffix("").as_posix()): path for path in paths}


def _look(path: Path) -> _Look | None:
    try:
        data = stored(path.read_bytes(), path.name)
        pixels = decode_image(data, path.name)
        return _Look(perceptual_hash(pixels), probe(data, path.name).channels == 1)
    except (PenstockError, OSError):
        return None
