"""Whether raw data is sound: each item by itself, then all of them together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock import files
from penstock.datasets import class_names, duplicates
from penstock.datasets.layout import Layout
from penstock.errors import PenstockError
from penstock.images import codecs, probe
from penstock.images.formats import stored
from penstock.images.header import MAX_BYTES
from penstock.images.pixels import PixelFormat, moments, with_bits
from penstock.kinds.base import Kind
from penstock.kinds.items import InspectedItem, Item, Labels, Problem, copies, hashed, named, sentence
from penstock.progress import counted

_MAX_IDS: Final = 1 << 17
_FEW: Final = 0.1  # of the images
_OUTSIDE: Final = "box outside the image"


def check_item(folder: Path, item: Item, labels: Labels, kind: Kind, channels: int = 3) -> InspectedItem:
    """Read and decode one item's files.

    Args:
        folder: what is inspected.
        item: the item.
        labels: what masks mean.
        kind: of its record.
        channels: of the images where a layout makes them; files with planes have their own.
    """
    name = named(item.image, folder)
    shown = name.encode(errors="backslashreplace").decode()
    if shown != name:  # bytes that are no UTF-8: no record could hold the name
        message = f"{shown}: expected a file name in UTF-8, found other bytes. Rename the file."
        return InspectedItem(item, problems=(Problem("unreadable name", name, message),))
    try:
        if isinstance(item.image, Path):
            files.check_regular(item.image, MAX_BYTES)
        image = stored(item.image.read_bytes(), name)
        info = probe(image, name)
        found = PixelFormat(info.channels if info.planes else channels, 16 if info.bits == 16 else 8)  # noqa: PLR2004
        inspected = InspectedItem(item, *info.size, format=info.format, size=len(image), content=hashed(image))
        pixels = codecs.decode_image(image, name, info=info, pixels=found)
        seen = duplicates.perceptual_hash(with_bits(pixels, 8))
        inspected = replace(inspected, perceptual_hash=seen, pixel_format=found, moments=moments(pixels))
    except (PenstockError, OSError) as error:
        return InspectedItem(item, problems=(Problem("unreadable image", name, sentence(name, error)),))
    return kind.check_item(folder, inspected, info, labels)


def infer_classes(items: Sequence[InspectedItem], labels: Labels, kind: Kind) -> tuple[str, ...]:
    """Names for the ids that occur, 0 to the highest: class0, class1, ..."""
    counts = kind.count(items, _MAX_IDS)
    found = {label for label, count in enumerate(counts) if count} - ({labels.ignore} if kind.reads_masks else set())
    return tuple(f"class{i}" for i in range(max(found, default=-1) + 1))


def check_together(
    layout: Layout, items: Sequence[InspectedItem], labels: Labels, folder: Path, *, stated: bool
) -> Iterator[Problem]:
    """Problems that are found only by comparing all items."""
    yield from _leaks(items, folder)
    yield from _contradictions(items, folder)
    yield from duplicates.near(items, folder)
    yield from _elsewhere(items, folder)
    yield from _otherwise(layout, items, folder)
    yield from class_names.doubts(items, labels, folder, layout.kind)
    is_empty = not labels.classes or not any(layout.kind.count(items, len(labels.classes)))
    found = (*layout.problems, *(problem for each in items for problem in each.problems))
    if is_empty and not any(problem.fatal for problem in found):
        name = named(items[0].item.image, folder)
        message = (
            f"{name}: expected {layout.kind.nothing}, found none. Check where the labels are, and how they were "
            "exported."
        )
        yield Problem("no classes", name, message, whole=True)
    yield from layout.kind.check_together(items, labels, folder, stated=stated)


def _otherwise(layout: Layout, items: Sequence[InspectedItem], folder: Path) -> Iterator[Problem]:
    """A note if boxes reach outside their images, which suggests the other box format (xyxy or xywh)."""
    outside = sum(any(problem.kind == _OUTSIDE for problem in each.problems) for each in items)
    if layout.boxes and outside:
        read, other = ("corners", "xywh") if layout.boxes == "xyxy" else ("a corner and a size", "xyxy")
        meant = "a corner and a size" if other == "xywh" else "corners"
        message = (
            f"{folder}: boxes are read as {read}, and some of {counted(outside, 'image')} reach outside. If they are "
            f"{meant}, use --boxes {other}."
        )
        yield Problem("boxes read otherwise", str(folder), message, fatal=False, whole=True)


def check_splits(items: Sequence[InspectedItem], folder: Path) -> Iterator[Problem]:
    """Whether there is something to train on."""
    splits = dict.fromkeys(each.item.split for each in items)
    if items and "train" not in splits:
        name = named(items[0].item.image, folder)
        message = (
            f"expected images to train on, found only the splits {', '.join(splits)}. Put the training images into a "
            "folder train/, write train into the table that names the splits, or add --evaluate-only if nothing is "
            "trained on this data."
        )
        yield Problem("no training images", name, f"{folder}: {message}", whole=True)


def _leaks(items: Sequence[InspectedItem], folder: Path) -> Iterator[Problem]:
    # Slices of air are alike in all volumes.
    single = [each for each in items if not each.item.is_slice]
    for first, each in copies(single):
        if first.item.split != each.item.split:
            name, other = (named(f.item.image, folder) for f in (each, first))
            found, remedy = f"the same bytes as {other}", "Remove one of them"
            if name == other:
                splits = f"{first.item.split} and {each.item.split}"
                found, remedy = f"it in {splits}", "Leave it in one of the lists or tables that name it"
            message = (
                f"{name}: expected an image that is in one split only, found {found}. {remedy}, because scores on "
                "training images mean nothing."
            )
            yield Problem("duplicate across splits", name, message)


def _contradictions(items: Sequence[InspectedItem], folder: Path) -> Iterator[Problem]:
    """The problem of every image that has two labels, by its file or by its bytes; of other files with the same bytes
    notes where they are few, as published datasets have them.
    """
    known = [each for each in items if each.label_key and not each.item.is_slice]
    pairs = [(first, each) for first, each in copies(known) if first.label_key != each.label_key]
    for first, each in pairs:
        name, same = named(each.item.image, folder), named(first.item.image, folder)
        found = "it again" if name == same else f"the same bytes as {same}"
        message = f"{name}: expected an image with one label, found {found} with another label. Remove the wrong one."
        fatal = name == same or len(pairs) > max(1, _FEW * len(known))
        yield Problem("one image, two labels", name, message, fatal=fatal)


def _elsewhere(items: Sequence[InspectedItem], folder: Path) -> Iterator[Problem]:
    """Images that a table or a list takes from outside the folder: right, perhaps, but nothing that people expect."""
    inside = os.path.join(os.path.abspath(folder), "")  # noqa: PTH100, PTH118 - links within it may lead anywhere
    images = (each.item.image for each in items)
    out = [each for each in images if isinstance(each, Path) and not os.path.abspath(each).startswith(inside)]  # noqa: PTH100 - the same
    if out:
        how_many = f"{counted(len(out), 'image')} of {len(items):,}"
        message = f"{out[0]}: {how_many} outside {folder}, where a table or list says so: packed all the same."
        yield Problem("image outside the folder", str(out[0]), message, fatal=False, whole=True)
