"""VGG Image Annotator's JSON: polygons, rectangles, circles and ellipses, as a project or as exported annotations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from penstock.datasets import listing
from penstock.datasets.layouts import annotated, jsons, shapes, typed
from penstock.datasets.layouts.annotated import AnnotatedImage, Annotations
from penstock.datasets.layouts.lookup import Images
from penstock.kinds.items import named
from penstock.progress import counted

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.datasets.layout import Layout
    from penstock.datasets.layouts.shapes import Shape

_KEYS: Final = (b'"regions"', b'"filename"')
_PROJECT: Final = "_via_img_metadata"
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
    for path, images in files.items():
        for number, each in enumerate(images, 1):
            _add(found, folder, path, number, each, where)
    return found.layout(folder)


def _images(tree: Any) -> list[Any]:
    """The entries of a project or of exported annotations; empty for other JSON."""
    entries = tree.get(_PROJECT, tree) if isinstance(tree, dict) else tree
    values = list(entries.values()) if isinstance(entries, dict) else entries if isinstance(entries, list) else []
    is_via = any(isinstance(each, dict) and "regions" in each and "filename" in each for each in values)
    return values if is_via else []


def _add(found: Annotations, folder: Path, path: Path, number: int, each: Any, where: Images) -> None:
    name = named(path, folder)
    wanted = annotated.entry_of(found, each, "filename", str, file=name, where=f"{name}, image {number}")
    image = annotated.find_image(found, folder, path, wanted, where) if wanted else None
    if image is None:
        return
    place, shown = f"{name} ({wanted})", named(image, folder)
    regions = annotated.entry_of(found, each, "regions", typed.Entries | dict[str, Any], file=shown, where=place) or ()
    entries = regions.values() if isinstance(regions, dict) else regions
    shapes = annotated.read_shapes(found, entries, _shape, image=shown, where=place)
    split = annotated.split_of(image, folder, path)
    found.images.append(AnnotatedImage(split, wanted.rpartition(".")[0] or wanted, image, path, shapes))


def _label(attributes: dict[str, Any]) -> str:
    """The class of a region: its attribute, or of several the first that names a class."""
    usual = ("class", "label", "type", "name", "category", "object")
    by_name = {key.lower(): value for key, value in attributes.items()}
    ordered = [by_name[key] for key in usual if key in by_name] + list(attributes.values())
    for value in ordered:
        if isinstance(value, dict):  # check boxes: {"cat": true}
            chosen = [key for key, on in value.items() if on]
            return chosen[0] if chosen else UNNAMED
        if name := annotated.class_name(value):
            return name
    return UNNAMED


def _shape(region: dict[str, Any], where: str) -> Shape | None:
    del where
    shape = typed.get(region, "shape_attributes", dict[str, Any])
    label = _label(typed.get(region, "region_attributes", dict[str, Any] | None) or {})
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
