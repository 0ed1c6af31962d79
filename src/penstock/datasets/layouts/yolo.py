"""YOLO text files: `labels/train/a.txt` beside `images/train/a.jpg`, a line per object: class, then the middle and the
size of its box in fractions of the image.
"""

from __future__ import annotations

import contextlib
import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

import yaml

from penstock.datasets import class_lists, class_names, listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import shapes
from penstock.datasets.layouts.annotated import AnnotatedImage, Annotations
from penstock.datasets.layouts.mask_problems import outside, twice
from penstock.datasets.layouts.shapes import Shape
from penstock.errors import DatasetError
from penstock.kinds import boxes
from penstock.kinds.items import Box, Item, Labels, Problem, unlabelled_split

_BOX: Final = 4
_WIDEST: Final = 2  # images: a box that is wider is none
_NEAR: Final = 0.01  # of the image, that a key point may lie outside its box
_MANY: Final = 3  # outlines
_POINTS: Final = 6  # numbers of the smallest outline
_FAR: Final = 1e3  # widths of the image: what lies further out is no coordinate
_NAMES: Final = frozenset({".names", ".labels"})
_OF_NAMES: Final = re.compile(r"names?$|class|labels?_?list|labelmap", re.IGNORECASE)
_MAX: Final = 100_000  # classes; a larger id is a slip of the pen


class _Object(NamedTuple):
    """A line: its box, and its outline where it has one, in fractions of the image's size."""

    box: Box
    outline: tuple[tuple[float, float], ...]


def recognise(folder: Path) -> Layout | None:
    """Folders `images` and `labels`, divided into splits or the splits into them, with names in a YAML file."""
    pairs = [*_folders(folder)] or [*_listed(folder)]
    if not any(_texts(labels) for _, _, labels in pairs):
        return None
    items: list[Item] = []
    drawn: list[AnnotatedImage] = []
    problems: list[Problem] = []
    trees = _trees(folder)
    names = _names(folder, trees)
    posed = any("kpt_shape" in tree for tree in trees.values())
    known = {split for split, _, _ in pairs}
    problems += [unlabelled_split(folder, images, labels) for images, labels in _unlabelled(folder, known)]
    root = folder / "images" if (folder / "images").is_dir() else folder
    divided = listing.splits(root)
    stated = _named_splits(folder, trees)
    if root != folder and not all(any(each.is_relative_to(path) for path in divided.values()) for each in stated):
        pairs, divided = [("train", root, folder / "labels")], {}  # folders that are not called as the splits are
    problems += outside(folder, root, divided) if divided else []
    several = len(pairs) > len(known)
    for split, images, labels in pairs:
        of_text: dict[Path, Path] = {}
        texts = _texts(labels)
        there = {_composed(path.with_suffix(".txt")): path for path in texts}
        for image in filter(listing.is_image, listing.files(images)):
            wanted = labels / image.relative_to(images).with_suffix(".txt")
            text = there.get(_composed(wanted), wanted)
            if of_text.setdefault(text, image) != image:
                problems += twice(folder, image, of_text[text], "image")
                continue
            part = next((stated[each] for each in image.parents if each in stated), None if stated else split)
            if part is None and split == "train" and not divided:
                problems.append(_unstated(image.relative_to(folder).as_posix()))
                continue
            part = part or split
            objects = _read_text(folder, image, text, problems, posed=posed)
            name = image.relative_to(folder if several else images).with_suffix("").as_posix()
            boxes = tuple(each.box for each in objects)
            items.append(Item(part, name, image, label=boxes, relative=True))
            drawn.append(AnnotatedImage(part, name, image, text, _shapes(objects, names), relative=True))
        lonely = (path for path in texts if path not in of_text and (images != labels or is_box(path)))
        problems += [_alone(path.relative_to(folder).as_posix()) for path in lonely]
    beside = all(images == labels for _, images, labels in pairs)
    where = "text files beside the images" if beside else "images/ and text files in labels/"
    reason = f"{where}: boxes as middle and size, in fractions of the image"
    reason += "; key points, which have no task, are left out" if posed else ""
    problems += _from_one(folder, items, names)
    problems += _poses(folder, [line for each in drawn for shape in each.shapes for line in shape.outlines])
    layout = Layout("detection", "YOLO", (reason,), tuple(items), Labels(names), tuple(problems))
    if not any(shape.is_outlined for each in drawn for shape in each.shapes):
        return layout
    layout = replace(layout, reasons=(reason, "boxes are the upright ones around outlines"))
    outlines = Annotations("YOLO outlines", f"{where}, with outlines", drawn, names, problems)
    return replace(layout, others=(outlines.masks(folder), outlines.instances(folder)))


def _from_one(folder: Path, items: list[Item], names: tuple[str, ...]) -> Iterator[Problem]:
    """A note where no box has the id 0, as where ids are counted from 1."""
    used = {box.label for item in items for box in item.label}
    if names and used and 0 not in used:
        yield class_names.from_one(str(folder), "box", names)


def _poses(folder: Path, outlines: Sequence[Sequence[tuple[float, float]]]) -> Iterator[Problem]:
    """Outlines of one number of points, which may be boxes with key points where no `kpt_shape` says so.

    A problem where there are many, the first two of which are the middle and the size of a box that holds all others;
    else a note. Of four points that may be chance.
    """
    if len(outlines) < _MANY or len({*map(len, outlines)}) > 1:
        return
    count, are_boxes = len(outlines[0]), all(map(_is_box_with_points, outlines))
    if count > _BOX or are_boxes:
        found = ", of which the first two are the middle and the size of a box around the others" if are_boxes else ""
        message = (
            f"{folder}: all {len(outlines):,} outlines have {count} points{found}. If they are boxes with key points, "
            "write kpt_shape into data.yaml, so that the boxes are read."
        )
        yield Problem("outlines of one length", str(folder), message, fatal=are_boxes and count > _BOX, whole=True)


def _is_box_with_points(outline: Sequence[tuple[float, float]]) -> bool:
    middle, size, *points = outline
    return all(
        abs(at - center) <= side / 2 + _NEAR
        for point in points
        for at, center, side in zip(point, middle, size, strict=True)
    )


def _read_text(folder: Path, image: Path, text: Path, problems: list[Problem], *, posed: bool) -> list[_Object]:
    """The objects of an image; what is wrong with its text file is added to the problems."""
    place = image.relative_to(folder).as_posix()
    try:
        return list(_objects(text, posed=posed))
    except FileNotFoundError:
        gone = _linked_nowhere(place, text.relative_to(folder).as_posix())
        problems.append(gone if text.is_symlink() else _unnamed(place))
    except DatasetError as error:
        problems.append(Problem("line without a box", place, str(error)))
    return []


def _shapes(objects: list[_Object], names: tuple[str, ...]) -> tuple[Shape, ...]:
    """Objects by the names of their classes, as the masks of outlines need them."""
    named = [names[each.box.label] if each.box.label < len(names) else f"class{each.box.label}" for each in objects]
    return tuple(
        shapes.polygon(name, each.outline) if each.outline else Shape(name, corners=boxes.edges_of(each.box))
        for name, each in zip(named, objects, strict=True)
    )


def _composed(path: Path) -> str:
    return listing.composed(path.as_posix())


def _texts(labels: Path) -> list[Path]:
    """The files of boxes; LabelImg writes `classes.txt` beside them."""
    return [path for path in listing.files(labels) if path.suffix.lower() == ".txt" and path.name != "classes.txt"]


def _folders(folder: Path) -> Iterator[tuple[str, Path, Path]]:
    """Images and text files by split, in folders of their own or, as Darknet has them, beside each other."""
    apart = [*_apart(folder)]
    yield from apart
    if not apart:
        for split, path in (listing.splits(folder) or {"train": folder}).items():
            if _are_beside(path):
                yield split, path, path


def _listed(folder: Path) -> Iterator[tuple[str, Path, Path]]:
    """The folders of images that the YAML file names for its splits, several for one too, and those of their labels."""
    if not any("labels" in path.relative_to(folder).parts[:-1] for path in _texts(folder)):
        return  # the YAML of other data need not be of a form that is read here
    for place, split in _named_splits(folder, _trees(folder)).items():
        parts = place.relative_to(folder).parts
        if "images" in parts:
            at = len(parts) - 1 - parts[::-1].index("images")  # as Ultralytics finds the labels
            labels = folder.joinpath(*parts[:at], "labels", *parts[at + 1 :])
            if labels.is_dir():
                yield split, place, labels


def _are_beside(folder: Path) -> bool:
    """Whether most images of a folder have text files of their names beside them, the first of which has a box."""
    files = listing.files(folder)
    texts = {path.with_suffix(""): path for path in files if path.suffix.lower() == ".txt"}
    images = [path for path in files if listing.is_image(path)]
    labelled = [texts[path.with_suffix("")] for path in images if path.with_suffix("") in texts]
    filled = next((path for path in labelled if path.stat().st_size), None)
    return filled is not None and 2 * len(labelled) > len(images) and is_box(filled)


def is_box(path: Path) -> bool:
    """Whether a text file begins with the line of an object."""
    try:
        words = listing.text_of(path).partition("\n")[0].split()
        return len(words) > _BOX and all(float(word) >= 0 for word in words)
    except (ValueError, DatasetError):
        return False


def _apart(folder: Path) -> Iterator[tuple[str, Path, Path]]:
    if (folder / "images").is_dir() and (folder / "labels").is_dir():
        divided = listing.splits(folder / "images")
        if not divided:
            yield "train", folder / "images", folder / "labels"
        for split, path in divided.items():
            if (folder / "labels" / path.name).is_dir():
                yield split, path, folder / "labels" / path.name
        return
    for split, path in listing.splits(folder).items():
        images, labels = listing.subfolder(path, ("images",)), listing.subfolder(path, ("labels",))
        if images and labels:
            yield split, images, labels


def _objects(path: Path, *, posed: bool) -> Iterator[_Object]:
    """Boxes, those around outlines, or where the YAML file has a `kpt_shape` those before key points."""
    for number, line in enumerate(listing.text_of(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            label, *numbers = (float(word) for word in line.split())
            outlined = len(numbers) >= _POINTS and not posed
            if len(numbers) >= _BOX and not outlined and max(numbers[2:_BOX]) > _WIDEST:
                raise _in_pixels(f"{path}, line {number}", line)
            box = _of_outline(numbers) if outlined else _of_middle(*numbers[: _BOX if posed else None])
            far = not all(abs(number) < _FAR for number in numbers)  # NaN is far too
            if far or not 0 <= label < _MAX or label != int(label):
                raise ValueError  # noqa: TRY301 - named below
        except (ValueError, TypeError):
            raise DatasetError(
                f"{path}, line {number}",
                expected="a class and four numbers: the middle (x, y), the width and the height of a box, or the "
                "points of an outline",
                found=line.strip()[:80],
                remedy="Fix the line",
            ) from None
        outline = tuple(zip(numbers[::2], numbers[1::2], strict=True)) if outlined else ()
        yield _Object(Box(int(label), *box), outline)


def _in_pixels(where: str, line: str) -> DatasetError:
    """The error for a box that is much larger than any image."""
    return DatasetError(
        where,
        expected="the middle, the width and the height of a box in fractions of the image's width and height",
        found=line.strip()[:80],
        remedy="If the numbers are pixels, divide them by the image's width and height",
    )


def _of_middle(x: float, y: float, width: float, height: float) -> tuple[float, float, float, float]:
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _of_outline(numbers: list[float]) -> tuple[float, float, float, float]:
    """The box around an outline x1 y1 x2 y2 ..., as files for segmentation have them."""
    if len(numbers) % 2:
        raise ValueError
    return min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2])


def _names(folder: Path, trees: Mapping[Path, Mapping[str, Any]]) -> tuple[str, ...]:
    """The list of names below the folder: in YAML, in a file of class names, else in one that is called so; of lists
    that begin alike the longest.
    """
    found = {path: _checked(names, path) for path, tree in trees.items() if (names := tree.get("names"))}
    for path in listing.files(folder):
        if path.name in class_lists.CLASS_FILES and (names := class_lists.read_classes(path.parent)):
            found[path] = names
    found = dict(sorted((found or _called_names(folder)).items()))
    longest = max(found, key=lambda path: len(found[path]), default=None)
    if longest is None:
        return ()
    if other := next((path for path, names in found.items() if names != found[longest][: len(names)]), None):
        pairs = enumerate(zip(found[longest], found[other], strict=False))
        label, both = next((number, pair) for number, pair in pairs if len(set(pair)) > 1)
        raise DatasetError(
            str(other),
            expected=f"the names of {longest.relative_to(folder)}, as an id is one class in the whole dataset",
            found=f"{both[1]} instead of {both[0]} for id {label}",
            remedy="Number the classes alike in all text files, and keep one list of names",
        )
    return found[longest]


def _called_names(folder: Path) -> dict[Path, tuple[str, ...]]:
    """Lists that are called one of classes, such as _darknet.labels, coco.names or predefined_classes.txt."""
    found = {}
    for path in listing.files(folder):
        is_text = path.suffix.lower() == ".txt" and _OF_NAMES.search(path.stem) is not None
        if (is_text or path.suffix.lower() in _NAMES) and not is_box(path):
            with contextlib.suppress(DatasetError):
                found[path] = class_lists.names_in_file(path)
    return {path: names for path, names in found.items() if not any(listing.is_image(Path(name)) for name in names)}


def _trees(folder: Path) -> dict[Path, dict[str, Any]]:
    """The YAML files that hold a table, in the folder and below it."""
    trees = {}
    for path in listing.files(folder):
        if path.suffix.lower() not in {".yaml", ".yml"}:
            continue
        try:
            tree = yaml.load(listing.text_of(path), yaml.BaseLoader)  # all is text: the class no is a name
        except (yaml.YAMLError, RecursionError) as error:
            found = re.sub(r"\s+", " ", str(error))
            raise DatasetError(str(path), expected="YAML", found=found, remedy="Fix or remove it") from None
        if isinstance(tree, dict):
            trees[path] = tree
    return trees


def _named_splits(folder: Path, trees: Mapping[Path, Mapping[str, Any]]) -> dict[Path, str]:
    """The splits of the folders that the YAML file names; none where it names lists, or folders that are gone."""
    there = {path.parent for path in listing.files(folder) if listing.is_image(path)}
    found: dict[Path, str] = {}
    for tree in trees.values():
        for split, names in listing.SPLITS.items():
            for value in filter(None, map(tree.get, names)):
                texts = value if isinstance(value, list) else [value]
                for text in (each for each in texts if isinstance(each, str)):
                    place = _place(folder, text, there)
                    if place is not None:
                        found.setdefault(place, split)
    return found if len(set(found.values())) > 1 else {}


def _place(folder: Path, text: str, there: set[Path]) -> Path | None:
    """The folder of images, or one above them, that a path of another computer's ends with."""
    parts = [part for part in PurePosixPath(text.replace("\\", "/")).parts if part not in {"/", ".", ".."}]
    for start in range(len(parts)):
        place = folder.joinpath(*parts[start:])
        if any(each.is_relative_to(place) for each in there):
            return place
    return None


def _checked(names: object, path: Path) -> tuple[str, ...]:
    """Names in the order of their ids: a list, or a table whose keys are 0, 1, 2, ..."""
    if isinstance(names, dict) and set(names) == {str(label) for label in range(len(names))}:
        names = [names[str(label)] for label in range(len(names))]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DatasetError(
            f"{path}: names",
            expected="a list of names, or a table of them by the ids 0, 1, 2, ... without gaps",
            found=reprlib.repr(names)[:80],
            remedy="List the names in the order of their ids, which count from 0 in the text files too",
        )
    return class_lists.check_names([listing.composed(name) for name in names], str(path))


def _unlabelled(folder: Path, known: set[str]) -> Iterator[tuple[Path, Path]]:
    """Splits of images without text files."""
    inside = listing.splits(folder / "images") if (folder / "images").is_dir() else {}
    yield from ((path, folder / "labels" / path.name) for split, path in inside.items() if split not in known)
    if not inside:
        beside = {split: path for split, path in listing.splits(folder).items() if (path / "images").is_dir()}
        yield from ((path / "images", path / "labels") for split, path in beside.items() if split not in known)


def _linked_nowhere(name: str, text: str) -> Problem:
    message = f"{text}: expected a text file, found a link to nothing. Fix it, or leave the image out with --skip-bad."
    return Problem("text file missing", name, message)


def _unstated(name: str) -> Problem:
    message = f"{name}: no split of the YAML file has its folder. It is left out."
    return Problem("outside the splits", name, message, fatal=False)


def _unnamed(name: str) -> Problem:
    message = f"{name}: no text file of the same name in labels/: it is taken as an image without objects."
    return Problem("no text file", name, message, fatal=False)


def _alone(name: str) -> Problem:
    message = f"{name}: expected an image of the same name in images/, found none. Add it, or remove the file."
    return Problem("image missing", name, message)
