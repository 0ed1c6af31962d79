"""Supervisely's format: `meta.json`, and in each dataset `img/a.jpg` with `ann/a.jpg.json`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import annotated, jsons, shapes, typed
from penstock.datasets.layouts.annotated import AnnotatedImage, Annotations
from penstock.datasets.layouts.shapes import Bitmap, Shape
from penstock.errors import DatasetError
from penstock.kinds.items import named
from penstock.values import Bits


def recognise(folder: Path) -> Layout | None:
    """A project's folder, or that of one dataset; None where no `img/` and `ann/` lie beside each other."""
    datasets = [path for path in (folder, *sorted(folder.iterdir())) if (path / "img").is_dir()]
    datasets = [path for path in datasets if (path / "ann").is_dir()]
    if not datasets:
        return None
    names = ", ".join(named(path, folder) for path in datasets)
    found = Annotations("Supervisely", f"img/ and ann/ in {names}", classes=_classes(folder))
    for dataset in datasets:
        for path in listing.plain(dataset / "ann", "*.json"):
            _add(found, folder, dataset, path)
    return found.layout(folder)


def _classes(folder: Path) -> tuple[str, ...]:
    meta = next((path for path in (folder / "meta.json", folder.parent / "meta.json") if path.is_file()), None)
    if meta is None:
        return ()
    try:
        return tuple(
            typed.get(each, "title", str) for each in typed.get(jsons.read(meta), "classes", typed.Entries) or ()
        )
    except ValueError as error:
        fix = "Export the project again"
        raise DatasetError(str(meta), expected="a project's classes", found=str(error), remedy=fix) from None


def _add(found: Annotations, folder: Path, dataset: Path, path: Path) -> None:
    name = named(path, folder)
    try:
        tree = jsons.read(path)
        objects, tags = typed.get(tree, "objects", list[Any]), typed.get(tree, "tags", typed.Entries) or ()
        height, width = (typed.get(tree.get("size"), side, typed.Count) for side in ("height", "width"))
        names = tuple(typed.get(tag, "name", str) for tag in tags)
    except (DatasetError, ValueError) as error:
        said = error.found if isinstance(error, DatasetError) else str(error)
        found.problems.append(annotated.damaged(name, name, "an image's objects and size", said))
        return
    image = listing.noted(dataset / "img", path.stem)
    if not listing.is_there(image):
        found.problems.append(annotated.image_missing(name, named(image, folder)))
        return
    shapes = annotated.read_shapes(found, objects, _shape, image=named(image, folder), where=name)
    split = annotated.split_of(path, folder)
    found.images.append(AnnotatedImage(split, image.stem, image, path, shapes, names, (height, width)))


def _shape(each: dict[str, Any], where: str) -> Shape | None:
    """A shape; None for points and lines, which have no inside."""
    label = annotated.class_name(typed.get(each, "classTitle", typed.Name))
    kind = typed.get(each, "geometryType", str)
    if kind == "bitmap":
        bitmap = each.get("bitmap")
        (left, top), data = typed.get(bitmap, "origin", typed.Point), typed.get(bitmap, "data", str)
        return Shape(label, bitmap=Bitmap(int(left), int(top), partial(_bits, data, where)))
    if kind not in {"rectangle", "polygon"}:
        return None
    outline = typed.get(each.get("points"), "exterior", typed.Points)
    if kind == "rectangle":
        return shapes.rectangle(label, outline)
    return shapes.polygon(label, outline, typed.get(each["points"], "interior", list[typed.Points] | None) or ())


def _bits(data: str, where: str) -> Bits:
    """A PNG of what belongs to the object, compressed with zlib, in base 64."""
    try:
        png = typed.unpacked(data)
    except ValueError as error:
        raise _undecodable(where, str(error)) from None
    image = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_UNCHANGED)
    if image is None:
        raise _undecodable(where, "no PNG")
    return image[..., -1] > 0 if image.ndim == 3 else image > 0  # noqa: PLR2004 - channels


def _undecodable(where: str, found: str) -> DatasetError:
    return DatasetError(where, expected="a bitmap in zlib and base 64", found=found, remedy="Export it again")
