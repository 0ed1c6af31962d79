"""COCO JSON (Lin et al. 2014): boxes, and masks of classes from polygons and run lengths."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock.datasets import listing
from penstock.datasets.items import Box, Item, Labels, Layout, Made, Problem
from penstock.errors import DatasetError
from penstock.images import codecs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Annotation = dict[str, Any]

_KEYS: Final = {"images", "annotations", "categories"}
_IGNORED: Final = 255


def recognise_boxes(folder: Path) -> Layout | None:
    """JSON files with images, annotations and categories, in the folder or in `annotations/`; boxes are x, y, w, h."""
    found = _read(folder)
    if not found:
        return None
    classes, items, problems = _classes(folder, found), [], []
    for split, (path, tree) in found.items():
        order = _order(tree)
        for image, picture, own in _pictures(folder, path, tree):
            if picture is None:
                problems.append(_missing(folder, path, image))
                continue
            boxes = tuple(_box(path, each, order) for each in own)
            items.append(Item(split, Path(image["file_name"]).stem, picture, boxes=boxes))
    reason = f"{', '.join(path.name for path, _ in found.values())}: boxes as x, y, width, height"
    return Layout("detection", "COCO", (reason,), tuple(items), Labels(classes), tuple(problems))


def recognise_masks(folder: Path) -> Layout | None:
    """The same files, as masks: class 0 is background, smaller objects lie on larger ones, crowds do not count."""
    found = _read(folder)
    if not found or not any("segmentation" in each for _, tree in found.values() for each in tree["annotations"]):
        return None
    items, problems = [], []
    for split, (path, tree) in found.items():
        order = _order(tree)
        for image, picture, own in _pictures(folder, path, tree):
            if picture is None:
                problems.append(_missing(folder, path, image))
                continue
            draw = partial(_mask, own, order, (image["height"], image["width"]), f"{path}#{image['id']}")
            items.append(Item(split, Path(image["file_name"]).stem, picture, mask=Made(path, str(image["id"]), draw)))
    reason = f"{', '.join(path.name for path, _ in found.values())}: polygons and run lengths"
    labels = Labels(("background", *_classes(folder, found)))
    return Layout("segmentation", "COCO masks", (reason,), tuple(items), labels, tuple(problems))


def _read(folder: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """The files by split."""
    found: dict[str, tuple[Path, dict[str, Any]]] = {}
    for path in [*sorted((folder / "annotations").glob("*.json")), *sorted(folder.glob("*.json"))]:
        try:
            tree = json.loads(path.read_bytes())
        except ValueError as error:
            raise DatasetError(str(path), expected="JSON", found=str(error), remedy="Mend or remove it") from None
        if isinstance(tree, dict) and set(tree) >= _KEYS:
            found.setdefault(_split(path.stem), (path, tree))
    return found


def _split(stem: str) -> str:
    """`instances_val2017` is val, `trainval` is train."""
    return next((split for split in ("train", "val", "test") if split in stem.lower()), "train")


def _order(tree: dict[str, Any]) -> dict[int, int]:
    """Category ids, which have gaps, to class ids."""
    return {number: label for label, number in enumerate(sorted(each["id"] for each in tree["categories"]))}


def _classes(folder: Path, found: dict[str, tuple[Path, dict[str, Any]]]) -> tuple[str, ...]:
    """Names by class id, the same in every file."""
    named = {path: _names(tree) for path, tree in found.values()}
    first, names = next(iter(named.items()))
    for path, others in named.items():
        if others != names:
            raise DatasetError(
                str(path),
                expected=f"the categories of {first.name}: {', '.join(names)}",
                found=", ".join(others),
                remedy="Write the same categories into all files",
            )
    return listing.check_names(names, str(folder))


def _names(tree: dict[str, Any]) -> list[str]:
    return [each["name"] for each in sorted(tree["categories"], key=lambda each: each["id"])]


def _pictures(
    folder: Path, path: Path, tree: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], Path | None, list[Annotation]]]:
    """Every image, where it lies, and what is said of it."""
    own: dict[int, list[Annotation]] = {}
    for each in tree["annotations"]:
        own.setdefault(each["image_id"], []).append(each)
    places = [folder / path.stem.removeprefix("instances_"), folder / "images", folder, path.parent]
    places[1:1] = [folder / "images" / path.stem.removeprefix("instances_"), folder / _split(path.stem)]
    for image in tree["images"]:
        there = (place / image["file_name"] for place in places)
        yield image, next((each for each in there if each.is_file()), None), own.get(image["id"], [])


def _box(path: Path, each: Annotation, order: dict[int, int]) -> Box:
    try:
        x, y, width, height = (float(value) for value in each["bbox"])
        return Box(order[each["category_id"]], x, y, x + width, y + height, bool(each.get("iscrowd")))
    except (KeyError, TypeError, ValueError):
        raise DatasetError(
            f"{path} (annotation {each.get('id')})",
            expected="a bbox of four numbers and the id of a category",
            found=f"bbox {each.get('bbox')}, category_id {each.get('category_id')}",
            remedy="Mend the file",
        ) from None


def _mask(own: Sequence[Annotation], order: dict[int, int], size: tuple[int, int], where: str) -> bytes:
    """Class ids, 0 for what nobody outlined, as PNG."""
    from faster_coco_eval import mask as masks  # noqa: PLC0415 - an extra

    ids = np.zeros(size, np.uint8)
    for each in sorted(own, key=lambda each: -float(each.get("area", 0))):
        shape = each.get("segmentation")
        if not shape:
            continue
        try:
            runs = masks.frPyObjects(shape, *size)
            runs = masks.merge(runs) if isinstance(runs, list) else runs
            inside = masks.decode(runs).astype(bool)
        except Exception as error:
            # The extension raises unrelated types for malformed shapes.
            raise DatasetError(
                f"{where} (annotation {each.get('id')})",
                expected="polygons or run lengths",
                found=str(error),
                remedy="Mend the file",
            ) from error
        ids[inside] = _IGNORED if each.get("iscrowd") else 1 + order[each["category_id"]]
    return codecs.encode_mask(ids)


def _missing(folder: Path, path: Path, image: dict[str, Any]) -> Problem:
    name = path.relative_to(folder).as_posix()
    message = f"{name}: expected picture {image['file_name']}, as it says, found nothing. Add it, or remove its entry."
    return Problem("picture missing", f"{name}#{image['id']}", message)
