"""CVAT's XML for images: boxes, polygons, ellipses, painted masks and tags."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import numpy as np

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import annotated, shapes, typed, voc
from penstock.datasets.layouts.annotated import AnnotatedImage, Annotations
from penstock.datasets.layouts.lookup import Images
from penstock.datasets.layouts.shapes import Bitmap, Shape
from penstock.images.header import MAX_PIXELS
from penstock.kinds.items import named
from penstock.progress import counted
from penstock.values import Bits

_ROOT: Final = b"<annotations"
_HEAD: Final = 4096  # bytes in which the root of the tree begins


def recognise(folder: Path) -> Layout | None:
    """XML files with `<annotations>` of images, in the folder or in its subfolders; None where there are none."""
    places = [folder, *(path for path in sorted(folder.iterdir()) if path.is_dir())]
    paths = [path for place in places for path in listing.plain(place, "*.xml")]
    files = [path for path in paths if _ROOT in path.read_bytes()[:_HEAD]]
    trees = {path: tree for path in files if (tree := voc.read_xml(path)).tag == "annotations"}
    if not trees:
        return None
    count = sum(len(tree.findall("image")) for tree in trees.values())
    names = ", ".join(named(path, folder) for path in trees)
    found = Annotations("CVAT", f"shapes of {counted(count, 'image')} in {names}", classes=_classes(trees))
    images = Images(folder)
    for path, tree in trees.items():
        for each in tree.findall("image"):
            _add(found, folder, path, each, images)
    return found.layout(folder)


def _classes(trees: dict[Path, ET.Element]) -> tuple[str, ...]:
    """The labels of the project or task, in its order."""
    names = [
        listing.composed(each.text or "") for tree in trees.values() for each in tree.findall("meta//labels/label/name")
    ]
    return tuple(dict.fromkeys(names))


def _add(found: Annotations, folder: Path, path: Path, each: ET.Element, images: Images) -> None:
    name, wanted = named(path, folder), each.get("name") or ""
    image = annotated.find_image(found, folder, path, wanted, images)
    if image is None:
        return
    size = typed.size(each.get("height"), each.get("width"))
    drawn = [part for part in each if part.tag != "tag"]
    shapes = annotated.read_shapes(found, drawn, _shape, image=named(image, folder), where=f"{name} ({wanted})")
    tags = tuple(tag.get("label") or "" for tag in each.findall("tag"))
    split = listing.split_of(each.get("subset") or "") or annotated.split_of(image, folder, path)
    stem = wanted.rpartition(".")[0] or wanted
    found.images.append(AnnotatedImage(split, stem, image, path, shapes, tags, size))


def _shape(part: ET.Element, where: str) -> Shape | None:  # noqa: ARG001 - of its seam
    shape = _drawn(part)
    return replace(shape, layer=typed.get(part.attrib, "z_order", int | None) or 0) if shape else None


def _drawn(part: ET.Element) -> Shape | None:
    said, label = part.attrib, part.get("label") or ""
    angle = typed.get(said, "rotation", typed.Coordinate | None) or 0
    if part.tag == "box":
        left, top, right, bottom = typed.numbers(said, ("xtl", "ytl", "xbr", "ybr"))
        corners = [(left, top), (right, bottom)]
        return shapes.turned(label, corners, angle) if angle else shapes.rectangle(label, corners)
    if part.tag == "polygon":
        points = [pair.split(",") for pair in typed.get(said, "points", str).split(";")]
        return shapes.polygon(label, typed.read(points, typed.Points))
    if part.tag == "ellipse":
        x, y, wide, high = typed.numbers(said, ("cx", "cy", "rx", "ry"))
        return shapes.ellipse(label, (x, y), (wide, high), angle)
    if part.tag == "mask":
        x, y, width, height = (typed.get(said, key, int) for key in ("left", "top", "width", "height"))
        runs = typed.read(typed.get(said, "rle", str).replace(" ", "").split(","), list[typed.Count])
        if sum(runs) != width * height or sum(runs) > MAX_PIXELS:
            message = f"runs of {sum(runs)} pixels for {height} x {width}"
            raise ValueError(message)
        return Shape(label, bitmap=Bitmap(x, y, partial(_bits, tuple(runs), height, width)))
    return None


def _bits(runs: tuple[int, ...], height: int, width: int) -> Bits:
    """Lengths of runs that are in turn outside and inside, row by row."""
    values = np.arange(len(runs)) % 2 == 1
    return np.repeat(values, runs).reshape(height, width)
