"""COCO JSON (Lin et al. 2014): boxes, and masks of classes or of objects from polygons and run lengths."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts.annotated import BACKGROUND
from penstock.datasets.layouts.coco_json import Annotation, File, Image, Runs, Tree, read, split_of
from penstock.datasets.layouts.lookup import Images, unnamed_images
from penstock.errors import DatasetError
from penstock.images import codecs, geometry
from penstock.images.header import MAX_PIXELS
from penstock.kinds.boxes import spell
from penstock.kinds.items import Box, FilePart, Instance, Item, Labels, Problem, named

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_IGNORED: Final = 255
CONTRADICTION: Final = "box and outline differ"
_ALIKE: Final = 0.5  # overlap of a box and its outline
_FAR: Final = 1e6  # pixels: what lies further out is no coordinate
_POLYGON: Final = 6  # numbers of a triangle


class _Shown(NamedTuple):
    """An image, where it lies, and what is said of it."""

    image: Image
    place: Path
    own: list[Annotation]


def recognise_boxes(folder: Path) -> Layout | None:
    """JSON files with images, annotations and categories, in the folder or in `annotations/`; boxes are x, y, w, h."""
    files, problems = read(folder)
    if not files:
        return None
    classes, items = _classes(files, problems), []
    for split, file in files.items():
        order = _order(file.tree, classes)
        for each in _images(folder, file, problems):
            boxes: tuple[Box, ...] = ()
            size = (each.image.height, each.image.width)
            try:
                boxes = tuple(_box(file.path, annotation, order, size) for annotation in each.own)
            except DatasetError as error:
                problems.append(Problem("object without a box", named(each.place, folder), str(error)))
            problems += _contradictions(named(each.place, folder), each.own)
            items.append(Item(split, Path(each.image.file_name).stem, each.place, boxes=boxes, size=size))
    problems += unnamed_images(folder, [item.image for item in items])
    reason = f"{', '.join(file.path.name for file in files.values())}: boxes as x, y, width, height"
    return Layout("detection", "COCO", (reason,), tuple(items), Labels(classes), tuple(problems), boxes="xywh")


def recognise_masks(folder: Path) -> Layout | None:
    """The same files, as masks: class 0 is background, smaller objects lie on larger ones, crowds are area of their
    class.
    """
    files, problems = read(folder)
    if not any(each.segmentation for file in files.values() for each in file.tree.annotations):
        return None
    names = _classes(files, problems)
    classes = (BACKGROUND, *(name for name in names if name.lower() != BACKGROUND))
    labels, items = Labels(classes), []
    if len(labels.classes) > _IGNORED:
        raise DatasetError(
            str(folder),
            expected=f"up to {_IGNORED - 1} categories, as masks hold bytes",
            found=str(len(labels.classes) - 1),
            remedy="Merge some, or pack it for detection",
        )
    for split, file in files.items():
        order = _order(file.tree, classes)
        for image, place, own in _images(folder, file, problems):
            problems += _contradictions(named(place, folder), own)
            problems += [_unlined(named(place, folder), each) for each in own if not each.segmentation]
            draw = partial(_mask, own, order, (image.height, image.width), f"{file.path}, image {image.id}")
            mask = FilePart(file.path, str(image.id), draw)
            items.append(Item(split, Path(image.file_name).stem, place, mask=mask, outlines=_edges(own)))
    problems += unnamed_images(folder, [item.image for item in items])
    reason = f"{', '.join(file.path.name for file in files.values())}: polygons and run lengths"
    return Layout("segmentation", "COCO masks", (reason,), tuple(items), labels, tuple(problems), names_masks=True)


def recognise_instances(folder: Path) -> Layout | None:
    """The same files, as objects with their pixels."""
    files, problems = read(folder)
    if not any(each.segmentation for file in files.values() for each in file.tree.annotations):
        return None
    classes, items = _classes(files, problems), []
    for split, file in files.items():
        order = _order(file.tree, classes)
        for image, place, own in _images(folder, file, problems):
            problems += _contradictions(named(place, folder), own)
            problems += [_left_out(named(place, folder), each) for each in own if not each.segmentation]
            where = f"{file.path}, image {image.id}"
            instances = tuple(
                Instance(_category(each, order, where), partial(_pixels, each, where), bool(each.iscrowd))
                for each in own
                if each.segmentation
            )
            size = (image.height, image.width)
            stem = Path(image.file_name).stem
            items.append(Item(split, stem, place, instances=instances, size=size, outlines=_edges(own)))
    problems += unnamed_images(folder, [item.image for item in items])
    reason = f"{', '.join(file.path.name for file in files.values())}: objects from polygons and run lengths"
    return Layout("instances", "COCO instances", (reason,), tuple(items), Labels(classes), tuple(problems))


def _pixels(each: Annotation, where: str, size: tuple[int, int]) -> Any:
    return _inside(each, size, where)


def _order(tree: Tree, classes: Sequence[str]) -> dict[int, int]:
    """Category ids, which have gaps, to class ids; a background is class 0 of masks, however it is written."""
    names = {each.id: listing.composed(each.name) for each in tree.categories}
    return {number: classes.index(name) if name in classes else 0 for number, name in names.items()}


def _classes(files: dict[str, File], problems: list[Problem]) -> tuple[str, ...]:
    """Names by class id: those of the first file by their ids, then what others add. A note says where they differ."""
    stated = {file.path: _names(file.tree, file.path) for file in files.values()}
    for path, names in stated.items():
        listing.check_names(names, str(path))
    every = tuple(dict.fromkeys(name for names in stated.values() for name in names))
    first, *_ = stated
    for path, others in stated.items():
        if others != stated[first]:
            message = (
                f"{path.name}: its categories ({', '.join(others)}) are not those of {first.name} "
                f"({', '.join(stated[first])}). They are joined by name: {', '.join(every)}."
            )
            problems.append(Problem("other categories", str(path), message, fatal=False, whole=True))
    return listing.check_names([*every], str(first))


def _names(tree: Tree, path: Path) -> list[str]:
    counts = Counter(each.id for each in tree.categories)
    again = next((number for number, count in counts.items() if count > 1), None)
    if again is not None:
        raise DatasetError(
            str(path),
            expected="every category once",
            found=f"two of id {again}",
            remedy="Give each an id of its own, and its annotations too",
        )
    return [listing.composed(each.name) for each in sorted(tree.categories, key=lambda each: each.id)]


def _images(folder: Path, file: File, problems: list[Problem]) -> Iterator[_Shown]:
    """Every image that is there, with what is said of it; what is wrong is added to the problems."""
    path, name = file.path, file.path.relative_to(folder).as_posix()
    known: dict[int, Image] = {}
    problems += [_twice(name, image) for image in file.tree.images if known.setdefault(image.id, image) is not image]
    files: dict[str, Image] = {}
    first = {image.id: files.setdefault(image.file_name, image) for image in known.values()}
    problems += [_shared(name, first[number], image) for number, image in known.items() if first[number] is not image]
    own: dict[int, list[Annotation]] = {}
    for each in file.tree.annotations:
        if each.image_id in first:
            own.setdefault(first[each.image_id].id, []).append(each)
        else:
            problems.append(_nowhere(name, each))
    places, elsewhere = _places(folder, path), Images(folder)
    for image in files.values():
        place = next(filter(None, (listing.file_of(root, image.file_name) for root in places)), None)
        place = place or _elsewhere(folder, path, image, elsewhere)
        if place is None:
            problems.append(_missing(name, image, elsewhere.among(image.file_name)))
        else:
            yield _Shown(image, place, own.get(image.id, []))


def _elsewhere(folder: Path, path: Path, image: Image, images: Images) -> Path | None:
    """The only image of that name, unless it lies in the folder of another split."""
    found = images.find(image.file_name)
    splits = {listing.split_of(part) for part in found.relative_to(folder).parts[:-1]} if found else set()
    return found if splits <= {"", split_of(folder, path)} else None


def _places(folder: Path, path: Path) -> list[Path]:
    """Where a file's images may lie."""
    stem = path.stem.removeprefix("instances_")
    return [
        folder / stem,
        folder / "images" / stem,
        folder / split_of(folder, path),
        folder / "images",
        folder,
        path.parent,
    ]


def _box(path: Path, each: Annotation, order: dict[int, int], size: tuple[int, int]) -> Box:
    """The box of an annotation, or the one around its outline or its pixels."""
    label = _category(each, order, str(path))
    if each.bbox is not None:
        x, y, width, height = each.bbox
        return Box(label, x, y, x + width, y + height, bool(each.iscrowd))
    if around := _extent(each):
        return replace(around, label=label, crowd=bool(each.iscrowd))
    pixels = _inside(each, size, str(path)) if each.segmentation else None
    if pixels is None or not pixels.any():
        raise DatasetError(
            f"{path} (annotation {each.id})",
            expected="a bbox of four numbers, or an outline",
            found="none",
            remedy="Fix the file",
        )
    return Box(label, *geometry.edges_of(pixels), crowd=bool(each.iscrowd))


def _extent(each: Annotation) -> Box | None:
    """The edges of an outline; None for run lengths, which have the size of their image, and for no outline."""
    outlines = each.segmentation
    if not isinstance(outlines, list) or not outlines or not all(map(_is_outline, outlines)):
        return None
    x = [number for outline in outlines for number in outline[::2]]
    y = [number for outline in outlines for number in outline[1::2]]
    return Box(0, min(x), min(y), max(x), max(y))


def _is_outline(numbers: Sequence[float]) -> bool:
    return len(numbers) >= _POLYGON and not len(numbers) % 2 and max(map(abs, numbers)) < _FAR


def _edges(own: Sequence[Annotation]) -> tuple[Box, ...]:
    return tuple(box for each in own if (box := _extent(each)))


def _contradictions(name: str, own: Sequence[Annotation]) -> Iterator[Problem]:
    """The problems of annotations whose box lies elsewhere than their outline."""
    for each in own:
        around = _extent(each)
        if around is None or each.bbox is None or each.iscrowd:
            continue
        x, y, width, height = each.bbox
        box = Box(0, x, y, x + width, y + height)
        if min(width, height) > 0 and _overlap(box, around) < _ALIKE:
            found = f"{spell(box)} and {spell(around)} (x, y)"
            corners = _overlap(Box(0, *each.bbox), around) >= _ALIKE
            fix = "Read the box as corners with --boxes xyxy" if corners else "Fix it"
            message = (
                f"{name}: expected the box and the outline of annotation {each.id} in one place, found {found}. {fix}, "
                "or leave the image out with --skip-bad."
            )
            yield Problem(CONTRADICTION, name, message)


def _overlap(one: Box, other: Box) -> float:
    """The intersection of two boxes over their union, both a pixel larger, as lines have no area."""
    width = min(one.right, other.right) - max(one.left, other.left) + 1
    height = min(one.bottom, other.bottom) - max(one.top, other.top) + 1
    both = max(0.0, width) * max(0.0, height)
    areas = [(each.right - each.left + 1) * (each.bottom - each.top + 1) for each in (one, other)]
    return both / max(1.0, sum(areas) - both)


def _category(each: Annotation, order: dict[int, int], where: str) -> int:
    if each.category_id not in order:
        raise DatasetError(
            f"{where} (annotation {each.id})",
            expected=f"the id of a category ({', '.join(map(str, list(order)[:8]))}{', ...' * (len(order) > 8)})",  # noqa: PLR2004 - a line
            found=f"category_id {each.category_id}",
            remedy="Fix the file",
        )
    return order[each.category_id]


def _mask(own: Sequence[Annotation], order: dict[int, int], size: tuple[int, int], where: str) -> bytes:
    """Class ids, 0 for what nobody outlined, as PNG."""
    if min(size) < 1 or size[0] * size[1] > MAX_PIXELS:
        raise DatasetError(
            where,
            expected=f"an image with its height and width, of at most {MAX_PIXELS:,} pixels",
            found=f"{size[0]} x {size[1]}",
            remedy="Fix the file",
        )
    ids = np.zeros(size, np.uint8)
    outlined = [each for each in own if each.segmentation]
    for each in sorted(outlined, key=lambda each: -(each.area or _inside(each, size, where).sum())):
        label = _category(each, order, where)
        ids[_inside(each, size, where)] = label
    return codecs.encode_mask(ids)


def _inside(each: Annotation, size: tuple[int, int], where: str) -> Any:
    """Which pixels lie in an outline: bool of shape `size`."""
    from faster_coco_eval import mask as masks  # noqa: PLC0415 - an extra

    shape = each.segmentation
    if isinstance(shape, Runs):
        sound = tuple(shape.size) == size
        sound = sound and (isinstance(shape.counts, str) or _covers(shape.counts, size))
    else:
        outlines = shape or []
        sound = all(map(_is_outline, outlines))
    if not sound:
        raise DatasetError(
            f"{where} (annotation {each.id})",
            expected=f"outlines of at least three points, or run lengths of an image of {size[0]} x {size[1]}",
            found=_described(shape),
            remedy="Fix the file",
        )
    if not isinstance(shape, Runs):
        runs = masks.merge(masks.frPyObjects(shape, *size))
    elif isinstance(shape.counts, str):  # as pycocotools writes them
        runs = {"size": list(size), "counts": shape.counts.encode()}
    else:
        runs = masks.frPyObjects({"size": list(size), "counts": shape.counts}, *size)
    try:
        return masks.decode(runs).astype(bool)
    except (RuntimeError, ValueError) as error:
        raise DatasetError(
            f"{where} (annotation {each.id})",
            expected="run lengths",
            found=str(error).rstrip("."),
            remedy="Fix the file",
        ) from None


def _described(shape: list[list[float]] | Runs | None) -> str:
    """What is said of an object's pixels, in words."""
    if isinstance(shape, Runs) and isinstance(shape.counts, list):
        sides = " x ".join(map(str, shape.size))
        least = min(shape.counts, default=0)
        return f"run lengths of {sides} that sum to {sum(shape.counts):,}, the smallest {least:,}"
    return str(msgspec.to_builtins(shape))[:80]


def _covers(runs: list[int], size: tuple[int, int]) -> bool:
    """Whether run lengths are those of an image."""
    return min(runs, default=0) >= 0 and sum(runs) == size[0] * size[1]


def _missing(name: str, image: Image, found: str) -> Problem:
    message = f"{name}: expected image {image.file_name}, as it says, found {found}. Add it, or remove its entry."
    return Problem("image missing", f"{name}#{image.id}", message)


def _twice(name: str, image: Image) -> Problem:
    message = (
        f"{name}: expected every image id once, found {image.id} twice ({image.file_name}). Give it one of its own."
    )
    return Problem("two images of one id", f"{name}#{image.id}", message, whole=True)


def _shared(name: str, first: Image, image: Image) -> Problem:
    message = (
        f"{name}: images {first.id} and {image.id} are both {image.file_name}: their annotations are put together."
    )
    return Problem("one image of two ids", f"{name}#{image.id}", message, fatal=False)


def _unlined(name: str, each: Annotation) -> Problem:
    message = f"{name}: annotation {each.id} has no outline: its object is background in the mask."
    return Problem("object without an outline", name, message, fatal=False)


def _left_out(name: str, each: Annotation) -> Problem:
    message = f"{name}: annotation {each.id} has no outline. It is left out."
    return Problem("object without an outline", name, message, fatal=False)


def _nowhere(name: str, each: Annotation) -> Problem:
    message = f"{name}: expected image {each.image_id} of annotation {each.id}, found none of that id. It is left out."
    return Problem("annotation without an image", f"{name}#{each.id}", message, fatal=False)
