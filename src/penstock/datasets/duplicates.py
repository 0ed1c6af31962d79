"""Images in two splits that are nearly the same: scores on them say little."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from penstock.images import drawing
from penstock.images.upright import read_shown
from penstock.kinds.items import InspectedItem, Problem, named
from penstock.progress import counted
from penstock.values import Pixels

_SIDE: Final = 8
_ERROR: Final = 0.01  # gray levels that the means of equal pixels may differ by, in float32
_FINE: Final = 64  # pixels of the shorter side that fields are averaged from
_BANDS: Final = 4
_BITS: Final = _SIDE * _SIDE // _BANDS
_FAR: Final = 3  # bits that the hashes of two images may differ in: one in each band but one
_PLAIN: Final = 8  # a hash of fewer ones or zeros is that of a sky
_CROWD: Final = 200  # images with a band in common: as many say nothing
_SHOWN: Final = 3
_TILE: Final = 320  # pixels of a drawn image
_ROBOFLOW: Final = re.compile(r"\.rf\.[0-9a-f]{16,}$")  # what it puts behind the name of each augmented copy


def perceptual_hash(pixels: Pixels) -> int:
    """A hash of 64 bits of what an image shows: whether each of 8 x 8 fields is brighter than the next one (dHash).

    Copies that were resized, compressed or slightly toned differ in few bits.

    Args:
        pixels: uint8 (height, width, channels).
    """
    gray = pixels.mean(axis=2) if pixels.shape[2] != 3 else cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)  # noqa: PLR2004
    if (whole := min(gray.shape) // _FINE) > 1:  # OpenCV averages whole squares of pixels ten times as fast as fields
        height, width = (whole * (side // whole) for side in gray.shape)
        size = width // whole, height // whole
        gray = cv2.resize(gray[:height, :width], size, interpolation=cv2.INTER_AREA)
    small = cv2.resize(gray.astype(np.float32), (_SIDE + 1, _SIDE), interpolation=cv2.INTER_AREA)
    bits = (small[:, 1:] > small[:, :-1] + _ERROR).ravel()
    return int.from_bytes(np.packbits(bits).tobytes(), "big")


def near(items: Sequence[InspectedItem], folder: Path) -> Iterator[Problem]:
    """Notes of the images that another split has too, nearly, and of names that share a source."""
    single = _single(items)
    pairs = list(_alike(single))
    if pairs:
        yield _note("near-duplicates across splits", "looks nearly like", pairs, folder)
    sources = list(_of_one_source(single))
    if sources:
        yield _note("one source in two splits", "is made from the same image as", sources, folder)


def pairs_of(items: Sequence[InspectedItem]) -> list[tuple[InspectedItem, InspectedItem]]:
    """Every image outside train with the one of train that looks like it, or was made from the same image."""
    single = _single(items)
    found = {each.item.image: (each, twin) for each, twin in (*_of_one_source(single), *_alike(single))}
    return list(found.values())


def within(items: Sequence[InspectedItem]) -> list[tuple[InspectedItem, InspectedItem]]:
    """Pairs of images that look nearly the same or were made from the same image, each with an earlier one."""
    found: list[tuple[InspectedItem, InspectedItem]] = []
    bands: dict[tuple[int, int], list[InspectedItem]] = defaultdict(list)
    sources: dict[str, InspectedItem] = {}
    for each in _single(items):
        if source := _source(each):
            found += [(sources[source], each)] if source in sources else []
            sources.setdefault(source, each)
        if not _tells(each.perceptual_hash):
            continue
        near_ones = [one for key in _keys(each.perceptual_hash) for one in bands[key][:_CROWD] if _is_near(one, each)]
        found += [(one, each) for one in dict.fromkeys(near_ones)]
        for key in _keys(each.perceptual_hash):
            bands[key].append(each)
    return found


def _is_near(one: InspectedItem, other: InspectedItem) -> bool:
    return (one.perceptual_hash ^ other.perceptual_hash).bit_count() <= _FAR


def _single(items: Sequence[InspectedItem]) -> list[InspectedItem]:
    """Sound images that are no slices."""
    return [each for each in items if each.content and not each.item.is_slice]


def _alike(items: Sequence[InspectedItem]) -> Iterator[tuple[InspectedItem, InspectedItem]]:
    """Images outside train, and one of train that looks the same; equal bytes are another problem."""
    bands: dict[tuple[int, int], list[InspectedItem]] = defaultdict(list)
    for each in items:
        if each.item.split == "train" and _tells(each.perceptual_hash):
            for key in _keys(each.perceptual_hash):
                bands[key].append(each)
    for each in items:
        if each.item.split == "train" or not _tells(each.perceptual_hash):
            continue
        near_ones = (
            other
            for key in _keys(each.perceptual_hash)
            if len(bands.get(key, ())) <= _CROWD
            for other in bands.get(key, ())
        )
        found = (one for one in near_ones if _is_near(one, each))
        twin = next((one for one in found if one.content != each.content), None)
        if twin is not None:
            yield each, twin


def _tells(value: int) -> bool:
    return _PLAIN <= value.bit_count() <= _SIDE * _SIDE - _PLAIN


def _keys(value: int) -> Iterator[tuple[int, int]]:
    """The bands of a hash: two hashes that differ in at most three bits share one of four."""
    for band in range(_BANDS):
        yield band, value >> (band * _BITS) & ((1 << _BITS) - 1)


def _of_one_source(items: Sequence[InspectedItem]) -> Iterator[tuple[InspectedItem, InspectedItem]]:
    """Images whose names say that they were made from an image of which train has another copy."""
    trained: dict[str, InspectedItem] = {}
    for each in items:
        if each.item.split == "train" and (source := _source(each)):
            trained.setdefault(source, each)
    for each in items:
        source = _source(each)
        if each.item.split != "train" and source in trained:
            yield each, trained[source]


def _source(each: InspectedItem) -> str:
    """The name of the image that an augmented copy was made from; "" where the name does not say it."""
    name = each.item.name.rpartition("/")[2]
    return _ROBOFLOW.sub("", name) if _ROBOFLOW.search(name) else ""


def _note(kind: str, verb: str, pairs: list[tuple[InspectedItem, InspectedItem]], folder: Path) -> Problem:
    names = [(named(one.item.image, folder), named(other.item.image, folder)) for one, other in pairs[:_SHOWN]]
    shown = "; ".join(f"{one} {verb} {other}" for one, other in names)
    rest = f"; and {counted(len(pairs) - _SHOWN, 'more image')}" if len(pairs) > _SHOWN else ""
    message = f"{counted(len(pairs), 'image')} outside train: {shown}{rest}. Scores on such images are too good."
    return Problem(kind, names[0][0], message, fatal=False, whole=True)


def sheet_of(pairs: Sequence[tuple[InspectedItem, InspectedItem]], folder: Path, count: int) -> Pixels:
    """Pairs of raw images that look nearly alike, the one outside train on the left, with their names."""
    tiles = []
    for pair in pairs[:count]:
        names = [named(each.item.image, folder) for each in pair]
        images = [read_shown(each.item.image.read_bytes(), name) for each, name in zip(pair, names, strict=True)]
        fitted = [drawing.fit(image, _TILE) for image in images]
        captioned = [drawing.caption(image, name) for image, name in zip(fitted, names, strict=True)]
        tiles.append(drawing.sheet(captioned, columns=2))
    return drawing.sheet(tiles, columns=1)
