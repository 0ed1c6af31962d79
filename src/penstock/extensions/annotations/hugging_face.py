"""Hugging Face's imagefolder: `metadata.jsonl` beside the images, with `file_name` and classes, objects or masks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from penstock.datasets import class_lists, listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import annotated, shapes, typed
from penstock.datasets.layouts.annotated import AnnotatedImage, Annotations
from penstock.datasets.layouts.shapes import Shape
from penstock.kinds.items import Item, Labels, Problem, named

_NAME: Final = "metadata.jsonl"
_FILE: Final = "file_name"
_MASK: Final = ("mask_file_name", "label_file_name", "annotation_file_name", "segmentation_file_name")
_CATEGORIES: Final = ("categories", "category", "label", "labels")
_TAG: Final = ("label", "labels", "class", "category")


def recognise(folder: Path) -> Layout | None:
    """`metadata.jsonl` in the folder or in its splits; None where there is none that says something of images."""
    places = (folder, *listing.splits(folder).values())
    files = [path for place in places for path in listing.plain(place, _NAME)]
    lines = [(path, number, line) for path in files for number, line in _lines(path)]
    if not lines:
        return None
    names = ", ".join(named(path, folder) for path in files)
    found = Annotations("Hugging Face imagefolder", names, classes=class_lists.read_classes(folder))
    masks: list[Item] = []
    for path, number, line in lines:
        if isinstance(line, str):
            place = f"{named(path, folder)}, line {number}"
            found.problems.append(Problem("damaged annotation", place, f"{place}: {line}"))
            continue
        called = str(line.get(_FILE) or "")
        image = listing.file_of(path.parent, called) if called else None
        if image is None:
            place = f"{named(path, folder)}, line {number}"
            found.problems.append(annotated.image_missing(place, called.rpartition("/")[2]))
            continue
        if mask := next((str(line[key]) for key in _MASK if line.get(key)), None):
            split, group = annotated.split_and_group(line)
            split = split or annotated.split_of(path, folder)
            masks.append(Item(split, image.stem, image, label=listing.noted(path.parent, mask), group=group))
        else:
            _add(found, folder, path, number, line, image)
    if masks:
        return Layout("segmentation", found.name, (found.reason,), tuple(masks), Labels(), tuple(found.problems))
    layout = found.layout(folder)
    return replace(layout, boxes="xywh") if layout and any(each.shapes for each in found.images) else layout


def _lines(path: Path) -> list[tuple[int, dict[str, Any] | str]]:
    """The lines with their numbers, or what is wrong with them."""
    found: list[tuple[int, dict[str, Any] | str]] = []
    for number, line in enumerate(listing.text_of(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            found.append((number, f"expected JSON, found {error}. Fix or remove the line."))
            continue
        found += [(number, value)] if isinstance(value, dict) else []
    return found


def _add(found: Annotations, folder: Path, path: Path, number: int, line: dict[str, Any], image: Path) -> None:
    shapes: tuple[Shape, ...] = ()
    where = f"{named(path, folder)}, line {number}"
    kind = dict[str, Any] | list[Any] | None
    objects = annotated.entry_of(found, line, "objects", kind, file=named(image, folder), where=where)
    if objects is not None:
        entries = objects if isinstance(objects, list) else _entries(found, objects, named(image, folder), where)
        if entries is None:
            return
        shapes = annotated.read_shapes(
            found, entries, partial(_shape, found.classes), image=named(image, folder), where=where
        )
    tag: Any = next((line[key] for key in _TAG if line.get(key) is not None), [])
    each_tag = tag if isinstance(tag, list) else [tag]
    tags = tuple(filter(None, (annotated.class_name(each, found.classes) for each in each_tag)))
    sides = [line.get(side) for side in ("height", "width")]
    size = (int(sides[0] or 0), int(sides[1] or 0)) if all(isinstance(side, int) for side in sides) else (0, 0)
    split, group = annotated.split_and_group(line)
    split = split or annotated.split_of(path, folder)
    found.images.append(AnnotatedImage(split, image.stem, image, path, shapes, tags, size, group=group))


def _entries(found: Annotations, objects: dict[str, Any], image: str, where: str) -> list[dict[str, Any]] | None:
    """The objects one by one, of a list of boxes and a list of their categories; None where these are not as long."""
    read = partial(annotated.entry_of, found, objects, file=image, where=where)
    labels, boxes = read(_category(objects), typed.Entries) or [], read("bbox", typed.Entries) or []
    if len(labels) != len(boxes):
        message = f"{where}: expected a category for each of {len(boxes)} boxes, found {len(labels)}. Fix the line."
        found.problems.append(Problem("damaged annotation", image, message))
        return None
    return [{_CATEGORIES[0]: label, "bbox": box} for label, box in zip(labels, boxes, strict=True)]


def _category(entry: dict[str, Any]) -> str:
    return next((key for key in _CATEGORIES if key in entry), _CATEGORIES[0])


def _shape(classes: tuple[str, ...], entry: Any, where: str) -> Shape:  # noqa: ARG001 - of its seam
    """A box as x, y, width, height in pixels."""
    entry = typed.read(entry, dict[str, Any])
    label = annotated.class_name(typed.get(entry, _category(entry), typed.Name), classes)
    left, top, width, height = typed.get(entry, "bbox", typed.Edges)
    return shapes.rectangle(label, [(left, top), (left + width, top + height)])
