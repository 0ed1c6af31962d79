"""VGG Image Annotator's JSON: polygons, rectangles, circles and ellipses, as a project or as exported annotations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import annotated, jsons, shapes, typed
from penstock.datasets.layouts.annotated import AnnotatedImage, Annotations
from penstock.datasets.layouts.lookup import Images
from penstock.datasets.layouts.shapes import Shape
from penstock.kinds.items import Problem, named
from penstock.progress import counted

_KEYS: Final = (b'"regions"', b'"filename"')
_PROJECT: Final = "_via_img_metadata"
_USUAL: Final = ("class", "label", "type", "name", "category", "object")
"""What an attribute is called that is the class, in the order of how likely it is."""
UNNAMED: Final = "object"
"""The class of regions that nobody gave one."""


def recognise(folder: Path) -> Layout | None:
    """JSON files of images with `regions`, in the folder or beside the images of a split; None where there are none."""
    places = [folder, *listing.splits(folder).values(), folder / "annotations"]
    paths = [path for place in places if place.is_dir() for path in listing.plain(place, "*.json")]
    files = {path: images for path in paths if (images := _images(jsons.read_with(path, _KEYS)))}
    if not files:
        return None
    names = ", ".join(named(path, folder) for path in files)
    found = Annotations(
        "VGG Image Annotator", f"regions of {counted(sum(map(len, files.values())), 'image')} in {names}"
    )
    where = Images(folder)
    attributes: dict[str, set[str]] = {}
    for path, images in files.items():
        for number, each in enumerate(images, 1):
            _add(found, folder, path, number, each, where, attributes)
    found.problems.extend(_several(named(next(iter(files)), folder), attributes))
    return found.layout(folder)


def _images(tree: Any) -> list[Any]:
    """The entries of a project or of exported annotations; empty for other JSON."""
    entries = tree.get(_PROJECT, tree) if isinstance(tree, dict) else tree
    values = list(entries.values()) if isinstance(entries, dict) else entries if isinstance(entries, list) else []
    is_via = any(isinstance(each, dict) and "regions" in each and "filename" in each for each in values)
    return values if is_via else []


def _add(
    found: Annotations, folder: Path, path: Path, number: int, each: Any, where: Images, attributes: dict[str, set[str]]
) -> None:
    name = named(path, folder)
    wanted = annotated.entry_of(found, each, "filename", str, file=name, where=f"{name}, image {number}")
    image = annotated.find_image(found, folder, path, wanted, where) if wanted else None
    if image is None:
        return
    place, shown = f"{name} ({wanted})", named(image, folder)
    regions = annotated.entry_of(found, each, "regions", typed.Entries | dict[str, Any], file=shown, where=place) or ()
    entries = regions.values() if isinstance(regions, dict) else regions
    shapes = annotated.read_shapes(found, entries, partial(_shape, attributes), image=shown, where=place)
    held = each.get("file_attributes")
    split, group = annotated.split_and_group(held) if isinstance(held, dict) else ("", "")
    split = split or annotated.split_of(image, folder, path)
    name = wanted.rpartition(".")[0] or wanted
    found.images.append(AnnotatedImage(split, name, image, path, shapes, group=group))


def _several(name: str, attributes: Mapping[str, set[str]]) -> Iterator[Problem]:
    """A problem where several attributes of regions may be the class; a note of the others where the name tells it."""
    may_be = sorted(key for key, values in attributes.items() if values)
    usual = [key for key in _USUAL if key in {each.lower() for each in attributes}]
    if len(may_be) > 1 and not usual:
        message = (
            f"{name}: expected one attribute of regions that is their class, found {', '.join(may_be)}. Call that one "
            "class."
        )
        yield Problem("several attributes", name, message, whole=True)
    elif others := [key for key in may_be if usual and key.lower() != usual[0]]:
        message = f"{name}: {usual[0]} is the class of regions. Other attributes are not read: {', '.join(others)}."
        yield Problem("several attributes", name, message, fatal=False, whole=True)


def _label(values: Mapping[str, str]) -> str:
    """The class of a region: its attribute, or of several the first that names a class."""
    by_name = {key.lower(): value for key, value in values.items()}
    ordered = [by_name[key] for key in _USUAL if key in by_name] + [*values.values()]
    return next(filter(None, ordered), UNNAMED)


def _value(value: Any) -> str:
    """The value of an attribute; of check boxes, {"cat": true}, the first that is on."""
    if isinstance(value, dict):
        return next((key for key, on in value.items() if on), UNNAMED)
    return annotated.class_name(value)


def _shape(attributes: dict[str, set[str]], region: dict[str, Any], where: str) -> Shape | None:  # noqa: ARG001 - of its seam
    """The shape of a region, whose attributes are added to those of all; None for points and lines."""
    shape = typed.get(region, "shape_attributes", dict[str, Any])
    held = typed.get(region, "region_attributes", dict[str, Any] | None) or {}
    values = {key: _value(value) for key, value in held.items()}
    for key, value in values.items():
        attributes.setdefault(key, set()).update([value] if value else [])
    label = _label(values)
    kind = typed.get(shape, "name", str)
    if kind == "polygon":
        xs, ys = (typed.get(shape, key, list[typed.Coordinate]) for key in ("all_points_x", "all_points_y"))
        return shapes.polygon(label, list(zip(xs, ys, strict=True)))
    if kind == "rect":
        x, y, width, height = typed.numbers(shape, ("x", "y", "width", "height"))
        return shapes.rectangle(label, [(x, y), (x + width, y + height)])
    if kind == "circle":
        x, y, radius = typed.numbers(shape, ("cx", "cy", "r"))
        return shapes.ellipse(label, (x, y), (radius, radius))
    if kind == "ellipse":
        x, y, wide, high = typed.numbers(shape, ("cx", "cy", "rx", "ry"))
        angle = typed.get(shape, "theta", typed.Coordinate | None) or 0
        return shapes.ellipse(label, (x, y), (wide, high), math.degrees(angle))
    return None
