"""Supervisely's format: `meta.json`, and in each dataset `img/a.jpg` with `ann/a.jpg.json`."""

from __future__ import annotations

import base64
import binascii
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from penstock.datasets import listing
from penstock.datasets.layouts import annotated, jsons, shapes
from penstock.datasets.layouts.annotated import AnnotatedImage, Annotations
from penstock.datasets.layouts.shapes import Bitmap, Shape
from penstock.errors import DatasetError
from penstock.kinds.items import named

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.datasets.layout import Layout
    from penstock.datasets.layouts.shapes import Bits


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
    tree = jsons.read(meta) if meta else {}
    classes = tree.get("classes") if isinstance(tree, dict) else None
    return tuple(str(each.get("title")) for each in classes or () if isinstance(each, dict))


def _add(found: Annotations, folder: Path, dataset: Path, path: Path) -> None:
    name = named(path, folder)
    try:
        tree = jsons.read(path)
        objects, size = tree["objects"], annotated.stated_size(tree["size"]["height"], tree["size"]["width"])
    except (DatasetError, KeyError, TypeError) as error:
        said = error.found if isinstance(error, DatasetError) else "other keys"
        found.problems.append(annotated.damaged(name, name, "the keys objects and size", said))
        return
    image = listing.noted(dataset / "img", path.stem)
    if not listing.is_there(image):
        found.problems.append(annotated.image_missing(name, named(image, folder)))
        return
    shapes = annotated.read_shapes(found, objects, _shape, image=named(image, folder), where=name)
    tags = tuple(str(each["name"]) for each in tree.get("tags") or () if isinstance(each, dict) and "name" in each)
    split = annotated.split_of(path, folder)
    found.images.append(AnnotatedImage(split, image.stem, image, path, shapes, tags, size))


def _shape(each: dict[str, Any], where: str) -> Shape | None:
    """A shape; None for points and lines, which have no inside."""
    label, kind = annotated.class_name(each["classTitle"]), each["geometryType"]
    if kind == "rectangle":
        return shapes.rectangle(label, each["points"]["exterior"])
    if kind == "polygon":
        return shapes.polygon(label, each["points"]["exterior"], each["points"].get("interior") or ())
    if kind == "bitmap":
        left, top = (int(number) for number in each["bitmap"]["origin"])
        return Shape(label, bitmap=Bitmap(left, top, partial(_bits, each["bitmap"]["data"], where)))
    return None


def _bits(data: str, where: str) -> Bits:
    """A PNG of what belongs to the object, compressed with zlib, in base 64."""
    try:
        png = zlib.decompress(base64.b64decode(data, validate=True))
    except (zlib.error, binascii.Error) as error:
        raise _undecodable(where, str(error)) from None
    image = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_UNCHANGED)
    if image is None:
        raise _undecodable(where, "no PNG")
    return image[..., -1] > 0 if image.ndim == 3 else image > 0  # noqa: PLR2004 - channels


def _undecodable(where: str, found: str) -> DatasetError:
    return DatasetError(where, expected="a bitmap in zlib and base 64", found=found, remedy="Export it again")
