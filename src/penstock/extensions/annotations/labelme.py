"""LabelMe's JSON, a file beside each image: polygons, rectangles, circles and painted masks."""

from __future__ import annotations

import base64
import binascii
import math
import os
from functools import partial
from pathlib import Path
from typing import Any, Final

from penstock.datasets import class_lists, listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import annotated, jsons, shapes, typed
from penstock.datasets.layouts.annotated import AnnotatedImage, Annotations
from penstock.datasets.layouts.lookup import Images
from penstock.datasets.layouts.shapes import Bitmap, Shape
from penstock.errors import DatasetError, ImageError
from penstock.images import codecs
from penstock.kinds.items import FilePart, Problem, named
from penstock.progress import counted
from penstock.values import Bits

_KEYS: Final = (b'"shapes"', b'"imagePath"')
_PAIR: Final = 2
_FLAGS: Final = ("__ignore__", "_background_")  # names that LabelMe's own scripts put first


def recognise(folder: Path) -> Layout | None:
    """JSON files with `shapes` and `imagePath`; None where there are none."""
    files = [path for path in listing.files(folder) if path.suffix.lower() == ".json"]
    if not any(all(key in path.read_bytes() for key in _KEYS) for path in files[:_PAIR]):
        return None
    found = Annotations("LabelMe", f"{counted(len(files), 'JSON file')} of LabelMe", classes=_classes(folder))
    images = Images(folder)
    for path in files:
        try:
            tree = jsons.read(path)
        except DatasetError as error:
            name = named(path, folder)
            found.problems.append(annotated.damaged(name, name, "LabelMe's JSON", error.found))
            continue
        if isinstance(tree, dict) and "shapes" in tree and "imagePath" in tree:
            _add(found, folder, path, tree, images)
    return found.layout(folder)


def _classes(folder: Path) -> tuple[str, ...]:
    """The names in labels.txt, without the two that LabelMe's scripts put first."""
    return tuple(name for name in class_lists.read_classes(folder) if name not in _FLAGS)


def _add(found: Annotations, folder: Path, path: Path, tree: dict[str, Any], images: Images) -> None:
    name, wanted = named(path, folder), str(tree["imagePath"])
    image = _image(path, tree, images)
    if image is None:
        found.problems.append(annotated.image_missing(name, wanted, images.among(wanted)))
        return
    if isinstance(image, Path) and image.stem != path.stem and (namesake := _namesake(path)):
        found.problems.append(_two_images(name, named(image, folder), named(namesake, folder)))
        return
    shown = named(image, folder)
    entries = annotated.entry_of(found, tree, "shapes", typed.Entries, file=shown, where=name)
    shapes = annotated.read_shapes(found, entries or (), _shape, image=shown, where=name)
    size = typed.size(tree.get("imageHeight"), tree.get("imageWidth"))
    flags = tree.get("flags") or {}
    tags = tuple(key for key, value in flags.items() if value) if isinstance(flags, dict) else ()
    own = image if isinstance(image, Path) and image.is_relative_to(folder) else path
    stem = own.relative_to(folder).with_suffix("").as_posix()
    split = annotated.split_of(path, folder)
    found.images.append(AnnotatedImage(split, stem, image, path, shapes, tags, size))


def _image(path: Path, tree: dict[str, Any], images: Images) -> Path | FilePart | None:
    """The file that the JSON names, from where it lies; that of the same name; or the image inside the JSON."""
    wanted = str(tree["imagePath"]).replace("\\", "/")
    beside = [Path(os.path.normpath(path.parent / wanted)), _namesake(path)]
    there = next((each for each in beside if each and listing.is_there(each)), None) or images.find(wanted)
    if there is None and tree.get("imageData"):
        return FilePart(path, "imageData", partial(_inside, path))
    return there


def _namesake(path: Path) -> Path | None:
    """The image that lies beside a JSON file and has its name."""
    return next((each for end in sorted(listing.IMAGES) if listing.is_there(each := path.with_suffix(end))), None)


def _two_images(name: str, wanted: str, namesake: str) -> Problem:
    """A JSON file that was copied or renamed without its imagePath, or an image that was."""
    message = (
        f"{name}: expected the image of its own name, {namesake}, found {wanted} in its imagePath. Correct the "
        "imagePath, or give the JSON file the name of its image."
    )
    return Problem("annotations of another image", name, message)


def _inside(path: Path) -> bytes:
    """The image that LabelMe keeps in its JSON, in base 64."""
    try:
        return base64.b64decode(jsons.read(path)["imageData"], validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise ImageError(
            f"{path}: imageData", expected="an image in base 64", found=str(error), remedy="Save it with LabelMe again"
        ) from None


def _shape(each: dict[str, Any], where: str) -> Shape | None:
    """A shape; None for points and lines, which have no inside."""
    label, points = annotated.class_name(typed.get(each, "label", typed.Name)), typed.get(each, "points", typed.Points)
    kind = each.get("shape_type") or "polygon"
    if kind == "rectangle":
        return shapes.rectangle(label, points)
    if kind == "circle":
        if len(points) != _PAIR:
            message = f"a circle of {counted(len(points), 'point')}, which needs two"
            raise ValueError(message)
        (x, y), (edge_x, edge_y) = points
        radius = math.hypot(edge_x - x, edge_y - y)
        return shapes.ellipse(label, (x, y), (radius, radius))
    if kind == "mask":
        if not points:
            message = "a mask without its place"
            raise ValueError(message)
        (left, top), mask = points[0], typed.get(each, "mask", str)
        return Shape(label, bitmap=Bitmap(round(left), round(top), partial(_painted, mask, where)))
    if kind == "polygon":
        return shapes.polygon(label, points)
    return None


def _painted(mask: str, where: str) -> Bits:
    try:
        data = base64.b64decode(mask, validate=True)
        return codecs.decode_mask(data, where) > 0
    except (binascii.Error, ValueError) as error:
        raise DatasetError(where, expected="a mask in base 64", found=str(error), remedy="Draw it again") from None
