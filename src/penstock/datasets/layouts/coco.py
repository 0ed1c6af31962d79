"""COCO JSON (Lin et al. 2014): boxes, and masks of classes or of objects from polygons and run lengths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from penstock.datasets import class_lists, listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import coco_shapes
from penstock.datasets.layouts.annotated import BACKGROUND
from penstock.datasets.layouts.coco_json import Annotation, File, Image, Tree, read, split_of
from penstock.datasets.layouts.lookup import Images, unnamed_images
from penstock.errors import DatasetError
from penstock.images import codecs, geometry
from penstock.images.header import MAX_PIXELS
from penstock.kinds.items import Box, FilePart, Instance, Item, Labels, Problem, named

_IGNORED: Final = 255


_SEVERAL: Final = 3  # ids that show something
_GROUPS: Final = ("location", "seq_id", "video_id", "patient_id")


class _Shown(NamedTuple):
    """An image, where it lies, and what is said of it."""

    image: Image
    place: Path
    annotations: list[Annotation]
    group: str

    def item(self, split: str, label: Any, **more: Any) -> Item:
        """The item with its label; `split` is that of the file, which counts where the image names none."""
        own = listing.split_of(self.image.split) if isinstance(self.image.split, str) else ""
        name = Path(self.image.file_name).stem
        return Item(own or split, name, self.place, label=label, group=self.group, **more)


def recognise_boxes(folder: Path) -> Layout | None:
    """JSON files with images, annotations and categories, in the folder or in `annotations/`; boxes are x, y, w, h."""
    files, problems = read(folder)
    if not files or _are_of_images(files):
        return None
    classes, items = _classes(files, problems), []
    for split, file in files.items():
        order = _order(file.tree, classes)
        problems += coco_shapes.corners(named(file.path, folder), file.tree.annotations)
        for each in _images(folder, file, problems):
            boxes: tuple[Box, ...] = ()
            size = (each.image.height, each.image.width)
            try:
                boxes = tuple(_box(file.path, annotation, order, size) for annotation in each.annotations)
            except DatasetError as error:
                problems.append(Problem("object without a box", named(each.place, folder), str(error)))
            problems += coco_shapes.contradictions(named(each.place, folder), each.annotations)
            items.append(each.item(split, boxes, size=size))
    problems += unnamed_images(folder, [item.image for item in items])
    reason = f"{', '.join(file.path.name for file in files.values())}: boxes as x, y, width, height"
    return Layout("detection", "COCO", (reason,), tuple(items), Labels(classes), tuple(problems), boxes="xywh")


def recognise_classes(folder: Path) -> Layout | None:
    """The same files, where annotations have neither boxes nor outlines: the categories are those of whole images."""
    files, problems = read(folder)
    if not _are_of_images(files):
        return None
    classes, items = _classes(files, problems), []
    for split, file in files.items():
        order = _order(file.tree, classes)
        for shown in _images(folder, file, problems):
            found = {_category(each, order, str(file.path)) for each in shown.annotations}
            if len(found) == 1:
                items.append(shown.item(split, found.pop()))
            else:
                names = ", ".join(classes[label] for label in sorted(found)) or "none"
                problems.append(_without_one_class(named(shown.place, folder), names))
    problems += unnamed_images(folder, [item.image for item in items])
    reason = f"{', '.join(file.path.name for file in files.values())}: categories of whole images"
    return Layout("classification", "COCO classes", (reason,), tuple(items), Labels(classes), tuple(problems))


def _are_of_images(files: Mapping[str, File]) -> bool:
    """Whether there are annotations, and none has a box or an outline."""
    every = [each for file in files.values() for each in file.tree.annotations]
    return bool(every) and not any(each.bbox or each.segmentation for each in every)


def _without_one_class(name: str, classes: str) -> Problem:
    message = (
        f"{name}: expected one category, found {classes}. Images of several classes are not supported: leave one, or "
        "leave the image out with --skip-bad."
    )
    return Problem("image without one class", name, message)


def recognise_masks(folder: Path) -> Layout | None:
    """The same files as masks: 0 is background, small objects lie on large ones, crowds are area of their class."""
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
        for shown in _images(folder, file, problems):
            image, place, own, _ = shown
            problems += coco_shapes.contradictions(named(place, folder), own)
            problems += [_unlined(named(place, folder), each) for each in own if not each.segmentation]
            draw = partial(_mask, own, order, (image.height, image.width), f"{file.path}, image {image.id}")
            mask = FilePart(file.path, str(image.id), draw)
            items.append(shown.item(split, mask, outlines=coco_shapes.edges(own)))
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
        for shown in _images(folder, file, problems):
            image, place, own, _ = shown
            problems += coco_shapes.contradictions(named(place, folder), own)
            problems += [_left_out(named(place, folder), each) for each in own if not each.segmentation]
            where = f"{file.path}, image {image.id}"
            instances = tuple(
                Instance(_category(each, order, where), partial(_pixels, each, where), bool(each.iscrowd))
                for each in own
                if each.segmentation
            )
            size = (image.height, image.width)
            items.append(shown.item(split, instances, size=size, outlines=coco_shapes.edges(own)))
    problems += unnamed_images(folder, [item.image for item in items])
    reason = f"{', '.join(file.path.name for file in files.values())}: objects from polygons and run lengths"
    return Layout("instances", "COCO instances", (reason,), tuple(items), Labels(classes), tuple(problems))


def _pixels(each: Annotation, where: str, size: tuple[int, int]) -> Any:
    return coco_shapes.part(each, size, where).whole(size)


def _order(tree: Tree, classes: Sequence[str]) -> dict[int, int]:
    """Category ids, which have gaps, to class ids; a background is class 0 of masks, however it is written."""
    names = {each.id: listing.composed(each.name) for each in tree.categories}
    return {number: classes.index(name) if name in classes else 0 for number, name in names.items()}


def _classes(files: dict[str, File], problems: list[Problem]) -> tuple[str, ...]:
    """Names by class id: those of the first file by their ids, then what others add. A note says where they differ."""
    stated = {file.path: _names(file.tree, file.path) for file in files.values()}
    for path, names in stated.items():
        class_lists.check_names(names, str(path))
    every = tuple(dict.fromkeys(name for names in stated.values() for name in names))
    first, *_ = stated
    for path, others in stated.items():
        if others != stated[first]:
            message = (
                f"{path.name}: its categories ({', '.join(others)}) are not those of {first.name} "
                f"({', '.join(stated[first])}). They are joined by name: {', '.join(every)}."
            )
            problems.append(Problem("other categories", str(path), message, fatal=False, whole=True))
    return class_lists.check_names([*every], str(first))


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
    known: dict[int | str, Image] = {}
    problems += [_twice(name, image) for image in file.tree.images if known.setdefault(image.id, image) is not image]
    files: dict[str, Image] = {}
    first = {image.id: files.setdefault(image.file_name, image) for image in known.values()}
    problems += [_shared(name, first[number], image) for number, image in known.items() if first[number] is not image]
    own: dict[int | str, list[Annotation]] = {}
    for each in file.tree.annotations:
        if each.image_id in first:
            own.setdefault(first[each.image_id].id, []).append(each)
        else:
            problems.append(_nowhere(name, each))
    problems += _perhaps_shifted(name, file.tree, first.keys())
    places, elsewhere = _places(folder, path), Images(folder)
    group = _group_field(file.tree.images)
    for image in files.values():
        place = next(filter(None, (listing.file_of(root, image.file_name) for root in places)), None)
        place = place or _elsewhere(folder, path, image, elsewhere)
        if place is None:
            problems.append(_missing(name, image, elsewhere.among(image.file_name)))
        else:
            if broken := file.broken.get(image.id):
                problems.append(replace(broken, file=named(place, folder)))
            yield _Shown(image, place, own.get(image.id, []), _text(getattr(image, group, None)))


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _group_field(images: Sequence[Image]) -> str:
    """The field of images that belong together, with several values: of camera traps the place; "" for none."""
    held = {name: {str(value) for image in images if (value := getattr(image, name)) is not None} for name in _GROUPS}
    return next((name for name, values in held.items() if len(values) > 1), "")


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
        folder / "images" / split_of(folder, path),
        folder / "images",
        folder,
        path.parent,
    ]


def _box(path: Path, each: Annotation, order: dict[int, int], size: tuple[int, int]) -> Box:
    label = _category(each, order, str(path))
    if each.bbox is not None:
        x, y, width, height = each.bbox
        return Box(label, x, y, x + width, y + height, bool(each.iscrowd))
    if around := coco_shapes.extent(each):
        return replace(around, label=label, crowd=bool(each.iscrowd))
    pixels = _pixels(each, str(path), size) if each.segmentation else None
    if pixels is None or not pixels.any():
        raise DatasetError(
            f"{path} (annotation {each.id})",
            expected="a bbox of four numbers, or an outline",
            found="none",
            remedy="Fix the file",
        )
    return Box(label, *geometry.edges_of(pixels), crowd=bool(each.iscrowd))


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
    drawn = [(each, coco_shapes.part(each, size, where)) for each in own if each.segmentation]
    for each, part in sorted(drawn, key=lambda pair: -(pair[0].area or pair[1].bits.sum())):
        np.copyto(ids[part.rows, part.columns], _category(each, order, where), where=part.bits)
    return codecs.plain_mask(ids)


def _missing(name: str, image: Image, found: str) -> Problem:
    message = f"{name}: expected the image {image.file_name} that it names, found {found}. Add it, or remove its entry."
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


def _perhaps_shifted(name: str, tree: Tree, known: Container[int | str]) -> list[Problem]:
    """A problem where image ids of annotations may be counted from another number: whole numbers, of which some are no
    image's, although there are as many as images.
    """
    there = {each.image_id for each in tree.annotations if isinstance(each.image_id, int)}
    lost = sorted(number for number in there if number not in known)
    if not lost or len(there) < len(tree.images) or len(there) < _SEVERAL:
        return []
    message = (
        f"{name}: expected the ids of the {len(tree.images):,} images in the annotations, found as many of which "
        f"{lost[0]} is no image's, as where the ids of one are counted from another number. Correct the image_id of "
        "the annotations, or the ids of the images."
    )
    return [Problem("image ids that may be shifted", name, message, whole=True)]


def _nowhere(name: str, each: Annotation) -> Problem:
    message = f"{name}: expected image {each.image_id} of annotation {each.id}, found none of that id. It is left out."
    return Problem("annotation without an image", f"{name}#{each.id}", message, fatal=False)
