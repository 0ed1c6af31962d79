"""Boxes in Pascal VOC's XML without its folders: LabelImg's `images/` and `annotations/`, or XML beside the images, as
Roboflow exports it in `train/`, `valid/` and `test/`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from penstock.datasets import class_lists, listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import annotated, masks, voc
from penstock.errors import DatasetError
from penstock.kinds.items import Item, Labels, Problem, named
from penstock.progress import counted

_XML: Final = ("annotations", "annotation", "labels", "xml", "xmls")
_APART: Final = frozenset(map(str.lower, (*_XML, *masks.IMAGES)))


def recognise(folder: Path) -> Layout | None:
    """Image files with XML files of the same names; None where there are none."""
    pairs = {split: pair for split, pair in _folders(folder).items() if _xml_files(pair[1])}
    if not pairs:
        return None
    problems: list[Problem] = []
    trees: dict[Path, ET.Element] = {}
    for _, beside in pairs.values():
        for path in _xml_files(beside):
            try:
                tree = voc.parse(path)
            except DatasetError as error:
                problems.append(Problem("damaged XML", named(path, folder), str(error)))
                continue
            if tree is not None:
                trees[path] = tree
    if not trees:
        return None
    classes = class_lists.read_classes(folder) or voc.class_names(trees.values())
    items: list[Item] = []
    for split, (images, texts) in pairs.items():
        found, wrong = _items(folder, split, images, texts, trees, classes)
        items += found
        problems += wrong
    problems += [*_lonely(folder, pairs), *voc.from_zero(items, folder)]
    where = "beside the images" if all(images == xml for images, xml in pairs.values()) else "in a folder of their own"
    reason = f"XML files {where}, of the same names, with boxes of {counted(len(classes), 'class')}, counted from 1"
    return Layout("detection", "Pascal VOC XML", (reason,), tuple(items), Labels(classes), tuple(problems))


def _folders(folder: Path) -> dict[str, tuple[Path, Path]]:
    images, texts = listing.subfolder(folder, masks.IMAGES), listing.subfolder(folder, _XML)
    if images is not None:
        inside = listing.splits(images)
        beside = listing.splits(texts) if texts else {}
        if inside:
            return {split: (path, beside.get(split, texts or path)) for split, path in inside.items()}
        return {"train": (images, texts or images)}
    splits = listing.splits(folder)
    return {split: _pair(path) for split, path in splits.items()} or {"train": _pair(folder)}


def _pair(path: Path) -> tuple[Path, Path]:
    images = listing.subfolder(path, masks.IMAGES) or path
    return images, listing.subfolder(path, _XML) or images


def _xml_files(folder: Path) -> list[Path]:
    """The XML files directly in the folder; if it holds none, those in its subfolders."""
    return listing.plain(folder, "*.xml") or [path for path in listing.files(folder) if path.suffix.lower() == ".xml"]


def _by_name(texts: Path) -> dict[str, Path]:
    """The XML files by their paths without suffix, and by the names that only one of them has."""
    paths = _xml_files(texts)
    often = Counter(_name(path.parent, path) for path in paths)
    single = {name: path for path in paths if often[name := _name(path.parent, path)] == 1}
    return {**single, **{_name(texts, path): path for path in paths}}


def _name(root: Path, path: Path) -> str:
    """A path without suffix, and without the folders that images and XML files have to themselves."""
    parts = path.relative_to(root).with_suffix("").parts
    return listing.composed("/".join([*(part for part in parts[:-1] if part.lower() not in _APART), parts[-1]]))


def _items(
    folder: Path, split: str, images: Path, texts: Path, trees: dict[Path, ET.Element], classes: tuple[str, ...]
) -> tuple[list[Item], list[Problem]]:
    """The images of a split with the boxes of their XML, and what does not fit."""
    items: list[Item] = []
    problems: list[Problem] = []
    there = _by_name(texts)
    flat = images == folder and any(path.parent == folder for path in there.values())
    for image in listing.files(images):
        if not listing.is_image(image) or (flat and image.parent != folder):
            continue
        path = there.get(_name(images, image)) or there.get(_name(image.parent, image)) or texts / f"{image.stem}.xml"
        if path not in trees:
            if not path.is_file():
                problems.append(_unlabelled(named(image, folder), named(path, folder)))
            continue
        try:
            boxes = tuple(voc.boxes(trees[path], classes, path))
        except DatasetError as error:
            problems.append(Problem("object without a box", named(image, folder), str(error)))
            continue
        problems += voc.other_image(trees[path], image, folder)
        name = image.relative_to(images).with_suffix("").as_posix()
        part = annotated.split_of(path, folder) if split == "train" else split
        items.append(Item(part, name, image, label=boxes, size=voc.size(trees[path])))
    return items, problems


def _lonely(folder: Path, pairs: dict[str, tuple[Path, Path]]) -> list[Problem]:
    """XML files in folders of their own without an image of the same name in any split."""
    files = [path for images, _ in pairs.values() for path in listing.files(images) if listing.is_image(path)]
    known = {listing.composed(path.stem) for path in files}
    apart = dict.fromkeys(texts for images, texts in pairs.values() if texts != images)
    return [
        _alone(named(path, folder))
        for texts in apart
        for path in _xml_files(texts)
        if listing.composed(path.stem) not in known
    ]


def _unlabelled(name: str, xml: str) -> Problem:
    message = f"{name}: expected {xml}, found none. Add it, or leave the image out with --skip-bad."
    return Problem("XML missing", name, message)


def _alone(name: str) -> Problem:
    message = f"{name}: expected an image of the same name, found none. Add the image, or remove the file."
    return Problem("image missing", name, message)
