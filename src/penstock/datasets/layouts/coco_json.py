"""The structure of COCO's JSON (Lin et al. 2014), and the files of it in a folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from penstock.datasets import listing
from penstock.errors import DatasetError
from penstock.kinds.items import Problem

_Found = tuple[Path, "Tree", list[tuple[int, Any, str]]]

_KEYS: Final = {"images", "annotations", "categories"}
_FEW: Final = 16  # files of JSON
_KNOWN: Final = {"trainval": "train", "minival": "val", "valminusminival": "val"}  # splits of COCO 2014


class Runs(msgspec.Struct):
    """A mask as run lengths, column by column: numbers, or compressed as text. `size` is (height, width)."""

    size: tuple[int, int]
    counts: list[int] | str


class Image(msgspec.Struct):
    """An image, with its size in pixels where it is stated, and where and when it was taken."""

    id: int | str
    file_name: str
    height: int = 0
    width: int = 0
    split: Any = None
    location: Any = None
    seq_id: Any = None
    video_id: Any = None
    patient_id: Any = None


class Annotation(msgspec.Struct):
    """An object: its box as x, y, width and height, and its polygons or its mask."""

    id: int | str
    image_id: int | str
    category_id: int
    bbox: tuple[float, float, float, float] | None = None
    iscrowd: bool | int | float = False
    area: float | None = None
    segmentation: list[list[float]] | Runs | None = None


class Category(msgspec.Struct):
    """A class."""

    id: int
    name: str
    supercategory: str | None = ""


class Tree(msgspec.Struct):
    """What a file holds."""

    images: list[Image]
    annotations: list[Annotation]
    categories: list[Category]


class File(NamedTuple):
    """A file, and what it holds."""

    path: Path
    tree: Tree
    broken: dict[int | str, Problem] = {}  # noqa: RUF012 - by the id of the image that an annotation of it costs


def read(folder: Path) -> tuple[dict[str, File], list[Problem]]:
    """The files by split; a second one of a split is a problem."""
    files: dict[str, File] = {}
    problems = []
    for path, tree, broken in _found(folder):
        costly: dict[int | str, Problem] = {}
        for place, each, wrong in broken:
            problem = _broken(path.relative_to(folder).as_posix(), place, each, wrong)
            image = each.get("image_id") if isinstance(each, dict) else None
            if isinstance(image, int | str) and any(known.id == image for known in tree.images):
                costly.setdefault(image, problem)
            else:
                problems.append(problem)
        split = split_of(folder, path)
        before = files.get(split)
        if before is None or not before.tree.annotations:  # image_info_train.json, which lists images alone
            files[split] = File(path, tree, costly)
        elif tree.annotations and not path.stem.startswith("person_keypoints"):
            problems.append(_second(path.relative_to(folder).as_posix(), split, before.path.name))
    problems += _without_parents(files)
    return files, problems


def _found(folder: Path) -> list[_Found]:
    """The files in the folder, in `annotations/` and in the splits; where none is there, those further below, unless
    many of JSON lie there, which are perhaps annotations of an image each.
    """
    usual = [folder / "annotations", folder, *listing.splits(folder).values()]
    if found := [*_read(path for place in usual for path in listing.plain(place, "*.json"))]:
        return found
    above = listing.folders(folder)
    places = [*above, *(path for each in above for path in listing.folders(each))]
    below = [path for place in places if place not in usual for path in listing.plain(place, "*.json")]
    return [*_read(below, all)] if len(below) <= _FEW else []


def _read(paths: Iterable[Path], enough: Callable[[Iterable[bool]], bool] = any) -> Iterator[_Found]:
    """Those of some files that are COCO's. A damaged one is an error if it holds `enough` of the keys: any, or all."""
    for path in paths:
        try:
            data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
            plain = msgspec.json.decode(data) if enough(b'"%b"' % key.encode() in data for key in _KEYS) else None
            if isinstance(plain, dict) and set(plain) >= _KEYS and not _is_panoptic(plain):
                yield path, *_converted(plain)
        except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeDecodeError) as error:
            found = f"another structure ({str(error) or 'nested too deeply'})"
            raise DatasetError(str(path), expected="COCO's JSON", found=found, remedy="Fix or remove it") from None


def _converted(plain: dict[str, Any]) -> tuple[Tree, list[tuple[int, Any, str]]]:
    """The content of a file, and its annotations of another structure: their places from 1, and what is wrong."""
    for each in plain["annotations"] if isinstance(plain["annotations"], list) else ():
        if isinstance(each, dict) and each.get("bbox") in ([], [0, 0, 0, 0]):  # which some tools write for none
            del each["bbox"]
    try:
        return msgspec.convert(plain, Tree), []
    except msgspec.ValidationError:
        if not isinstance(plain["annotations"], list):
            raise
    tree = msgspec.convert({**plain, "annotations": []}, Tree)
    broken = []
    for place, each in enumerate(plain["annotations"], 1):
        try:
            tree.annotations.append(msgspec.convert(each, Annotation))
        except msgspec.ValidationError as error:
            broken.append((place, each, str(error)))
    return tree, broken


def _broken(name: str, place: int, each: Any, wrong: str) -> Problem:
    """An annotation that is none; the others are read."""
    number = each.get("id") if isinstance(each, dict) else None
    own = f"annotation {number}" if number is not None else f"annotation {place} of the list"
    message = f"{name}: expected COCO's structure in {own}, found another ({wrong}). Fix it, or leave it out."
    return Problem("damaged annotation", f"{name}, {own}", message)


def _without_parents(files: dict[str, File]) -> list[Problem]:
    """Leave out categories that only stand for others, as in Roboflow's exports: supercategories without objects."""
    every = [each for file in files.values() for each in file.tree.categories]
    used = {each.category_id for file in files.values() for each in file.tree.annotations}
    children: dict[str | None, set[int]] = {}
    for each in every:
        children.setdefault(each.supercategory, set()).add(each.id)
    parents = {
        each.id: each.name for each in every if each.id not in used and children.get(each.name, set()) - {each.id}
    }
    for file in files.values():
        file.tree.categories = [each for each in file.tree.categories if parents.get(each.id) != each.name]
    return [_parent(next(iter(files.values())).path.name, number, name) for number, name in parents.items()]


def _is_panoptic(tree: dict[str, Any]) -> bool:
    """Whether these are COCO's panoptic annotations, whose segments lie in images of their own."""
    said = tree["annotations"]
    return isinstance(said, list) and bool(said) and isinstance(said[0], dict) and "segments_info" in said[0]


def split_of(folder: Path, path: Path) -> str:
    """`instances_val2017` is val, `trainval` is train, `valid/_annotations.coco.json` (Roboflow's) is val."""
    words = [word.lower().removesuffix("set") for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", path.stem)]
    above = listing.split_of(path.parent.name) if path.parent != folder else ""
    own = next(filter(None, (_KNOWN.get(word) or listing.split_of(word) for word in words)), "")
    return own or above or "train"


def _parent(file: str, number: int, name: str) -> Problem:
    message = (
        f"{file}: category {number} ({name!r}) is only the supercategory of others, and nothing is annotated with it. "
        "It is left out."
    )
    return Problem("supercategory", f"{file}#{number}", message, fatal=False)


def _second(name: str, split: str, first: str) -> Problem:
    message = (
        f"{name}: expected one file for {split}, found {first} too, which is read. Join them, with ids of their own "
        "for images, or rename this one by its split (train, val, test)."
    )
    return Problem("two files of one split", name, message, whole=True)
