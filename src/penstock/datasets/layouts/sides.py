"""Class folders that are perhaps two sides of the same images: sharp and blurred ones, photographs and depth."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Final, NamedTuple

import cv2
import numpy as np

from penstock.datasets import listing
from penstock.datasets.duplicates import perceptual_hash
from penstock.datasets.layouts import matching
from penstock.datasets.layouts.evidence import look_at, look_like_masks
from penstock.errors import PenstockError
from penstock.images import decode_image, probe
from penstock.images.formats import stored
from penstock.kinds.items import Problem, named

_Folder = tuple[Path, dict[str, Path]]

KIND: Final = "two sides as classes"
_PAIR: Final = 2
_FOLDERS: Final = 8  # more are classes
_SAMPLED: Final = 12
_WITH_ALPHA: Final = 4
_LABELS: Final = re.compile(r"truth|annot|(?<![a-z])gt(?![a-z])", re.IGNORECASE)
_MAX: Final = 0.9  # of the images have a partner
_MIN: Final = 4  # pairs that show whether both are of one scene
_PLAIN: Final = (False, False)
_GRAY: Final = (True, False)
_CUT_OUT: Final = (False, True)
_UNLIKE: Final = 8  # bits in which images of one folder differ at least: else all show the same


_RELATED: Final = "belong to those of {}, by their names and by what they show"
_MASKS: Final = "look like masks beside those of {}"


class _Look(NamedTuple):
    hash: int
    is_gray: bool
    is_cut_out: bool


def problems(folder: Path, classes: Sequence[Path]) -> list[Problem]:
    """Problems of folders whose images match those of the first one by name, or look like its masks."""
    if not 1 < len(classes) <= _FOLDERS:
        return []
    with_images = [(path, images) for path in classes if (images := _images(path))]
    if len(with_images) < _PAIR:
        return []
    first, *rest = with_images
    found = [_problem(folder, *sides, _RELATED) for each in rest if (sides := _sides(first, each))]
    if not found and len(rest) == 1 and (sides := _masks(first, rest[0]) or _called(first[0], rest[0][0])):
        return [_problem(folder, *sides, _MASKS)]
    return found


def _problem(folder: Path, images: Path, others: Path, how: str) -> Problem:
    one, other = named(images, folder), named(others, folder)
    options = f"--images {shlex.quote(one)} --masks {shlex.quote(other)}"
    message = (
        f"{other}: expected the images of a class, found images that {how.format(one)}. If they are masks, use "
        f"{options}. If a model shall make one from the other, describe the layout and the task in files of your own "
        "(docs/extending.md). If both are classes, confirm it with --layout folders."
    )
    return Problem(KIND, other, message, whole=True)


def _sides(one: _Folder, other: _Folder) -> tuple[Path, Path] | None:
    """The folder of images and the one of what belongs to them; None for two classes."""
    (first, images), (second, others) = one, other
    partners = matching.match(images.keys(), others.keys())
    pairs = [(images[name], others[found[0]]) for name, found in sorted(partners.items()) if len(found) == 1]
    if not pairs or len(pairs) < _MAX * min(len(images), len(others)):
        return None
    step = max(1, len(pairs) // _SAMPLED)
    looks = [(a, b) for x, y in pairs[::step][:_SAMPLED] if (a := _look(x)) and (b := _look(y))]
    same_names = images.keys() == others.keys()
    kinds = [{(each.is_gray and same_names, each.is_cut_out) for each in side} for side in zip(*looks, strict=True)]
    if len(looks) > 1 and kinds in ([{_PLAIN}, {_GRAY}], [{_PLAIN}, {_CUT_OUT}]):
        return first, second
    if len(looks) > 1 and kinds in ([{_GRAY}, {_PLAIN}], [{_CUT_OUT}, {_PLAIN}]):
        return second, first
    return (first, second) if _show_the_same(looks) else None


def _masks(one: _Folder, other: _Folder) -> tuple[Path, Path] | None:
    """The folder of images and the one of what looks like masks, whatever their names are."""
    (first, images), (second, others) = one, other
    looks = [look_at([*each.values()]) for each in (images, others)]
    if look_like_masks(looks[1], looks[0]):
        return first, second
    return (second, first) if look_like_masks(looks[0], looks[1]) else None


def _called(one: Path, other: Path) -> tuple[Path, Path] | None:
    """The folder of images and the one whose name says that it holds their labels."""
    first, second = (_LABELS.search(path.name) for path in (one, other))
    return None if bool(first) == bool(second) else (other, one) if first else (one, other)


def _show_the_same(looks: Sequence[tuple[_Look, _Look]]) -> bool:
    """Whether the images of a pair are at least twice as near to each other as to those of the next pair."""
    if len(looks) < _MIN:
        return False
    near = mean(_distance(a, b) for a, b in looks)
    far = mean(_distance(a, b) for (a, _), (_, b) in pairwise([*looks, looks[0]]))
    return far >= _UNLIKE and near <= far / 2


def _distance(one: _Look, other: _Look) -> int:
    return (one.hash ^ other.hash).bit_count()


def _is_cut_out(data: bytes, channels: int) -> bool:
    """Whether an image has a background that is transparent."""
    if channels != _WITH_ALPHA:
        return False
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    return pixels is not None and bool(pixels[..., -1].min() == 0 < pixels[..., -1].max())


def _images(folder: Path) -> dict[str, Path]:
    paths = filter(listing.is_image, listing.files(folder))
    return {listing.composed(path.relative_to(folder).with_suffix("").as_posix()): path for path in paths}


def _look(path: Path) -> _Look | None:
    try:
        data = stored(path.read_bytes(), path.name)
        info = probe(data, path.name)
        return _Look(
            perceptual_hash(decode_image(data, path.name)), info.channels == 1, _is_cut_out(data, info.channels)
        )
    except (PenstockError, OSError):
        return None
