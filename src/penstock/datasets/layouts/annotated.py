"""Images with the shapes that people drew in them, as annotation tools write them: as boxes, masks or classes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from penstock.datasets import class_lists, listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import typed
from penstock.datasets.layouts.columns import group_column
from penstock.datasets.layouts.lookup import Images, unnamed_images
from penstock.datasets.layouts.shapes import Shape, in_pixels
from penstock.errors import DatasetError
from penstock.images import codecs
from penstock.images.header import MAX_PIXELS, probe
from penstock.kinds.items import Box, FilePart, Instance, Item, Labels, Problem, named
from penstock.progress import counted
from penstock.values import Bits

BACKGROUND: Final = "background"
_SPLITS: Final = ("split", "set", "subset", "partition")
_MAX: Final = 255  # classes of a mask, as 255 does not count


@dataclass(frozen=True, slots=True)
class AnnotatedImage:
    """An image, and what people drew in it.

    Attributes:
        split: train, val or test.
        image: where it is.
        source: the annotation file.
        shapes: the objects in it.
        tags: classes of the whole image.
        size: (height, width) that the annotations were made for, or 0; where it is 0, masks take the image's own size.
        relative: whether the shapes are in fractions of the image's size.
        group: of images that belong together.
    """

    split: str
    name: str
    image: Path | FilePart
    source: Path
    shapes: tuple[Shape, ...] = ()
    tags: tuple[str, ...] = ()
    size: tuple[int, int] = (0, 0)
    relative: bool = False
    group: str = ""


@dataclass(frozen=True)
class Annotations:
    """What an annotation tool has written into a folder.

    Attributes:
        name: the name of the format.
        reason: why we think so, as a sentence.
        images: all images that are there.
        classes: their names, where the tool states them in an order; else they are sorted.
        problems: what is wrong with the files.
    """

    name: str
    reason: str
    images: list[AnnotatedImage] = field(default_factory=list)
    classes: tuple[str, ...] = ()
    problems: list[Problem] = field(default_factory=list)

    def layout(self, folder: Path) -> Layout | None:
        """The layout for the task that the shapes suggest, with those for other tasks; None without annotations."""
        if divided := _by_tags(self.images):
            about = f"{self.reason}; tags that are called as splits divide the images"
            return replace(self, images=divided, reason=about).layout(folder)
        self.problems.extend(unnamed_images(folder, [each.image for each in self.images]))
        shapes = [shape for each in self.images for shape in each.shapes]
        outlined = sum(shape.is_outlined for shape in shapes)
        ways = []
        if shapes and outlined * 2 > len(shapes):
            ways = [self.masks, self._boxes, self.instances]
        elif shapes:
            ways = [self._boxes, self.masks, self.instances] if outlined else [self._boxes]
        if any(each.tags for each in self.images):
            ways.append(self._classes)
        groups = {each.image: each.group for each in self.images if each.group}
        made = [_grouped(way(folder), groups) for way in ways]
        return replace(made[0], others=tuple(made[1:])) if made else None

    def _names(self, folder: Path, used: Iterable[str]) -> tuple[str, ...]:
        """The classes' names: those of the tool that occur or are stated, or those of classes.txt."""
        wanted = set(used)
        stated = [listing.composed(name) for name in self.classes] or class_lists.read_classes(folder)
        if stated and wanted <= set(stated):
            return class_lists.check_names(list(stated), str(folder))
        return class_lists.check_names(sorted(wanted, key=class_lists.by_number), str(folder))

    def _boxes(self, folder: Path) -> Layout:
        classes = self._names(folder, (shape.label for each in self.images for shape in each.shapes))
        problems, items = list(self.problems), []
        for each in self.images:
            try:
                boxes = tuple(Box(classes.index(shape.label), *shape.box()) for shape in each.shapes)
            except DatasetError as error:
                problems.append(Problem("object without a box", named(each.image, folder), str(error)))
                continue
            items.append(Item(each.split, each.name, each.image, label=boxes, relative=each.relative, size=each.size))
        reason = f"boxes of {counted(len(classes), 'class')}, around the outlines where there are some"
        return Layout("detection", self.name, (self.reason, reason), tuple(items), Labels(classes), tuple(problems))

    def masks(self, folder: Path) -> Layout:
        """The layout of masks that are drawn from the outlines, whatever else there is."""
        used = {shape.label for each in self.images for shape in each.shapes if shape.is_outlined}
        names = [name for name in self._names(folder, used) if name.lower() != BACKGROUND]
        if len(names) >= _MAX:
            raise DatasetError(
                str(folder),
                expected=f"up to {_MAX - 1} classes, as masks hold bytes",
                found=str(len(names)),
                remedy="Merge some, or pack it for detection with --task detection",
            )
        classes = (BACKGROUND, *names)
        items, problems = [], list(self.problems)
        for each in self.images:
            bare = sum(not shape.is_outlined for shape in each.shapes)
            if bare:
                problems.append(_unlined(named(each.image, folder), bare))
            draw = partial(mask_of, each, classes)
            mask = FilePart(each.source, each.name, draw)
            edges = _edges_of(each)
            items.append(Item(each.split, each.name, each.image, label=mask, outlines=edges, relative=each.relative))
        reason = "masks drawn from the outlines: class 0 is background, and smaller objects lie on larger ones"
        reasons = (self.reason, reason)
        return Layout(
            "segmentation", self.name, reasons, tuple(items), Labels(classes), tuple(problems), names_masks=True
        )

    def instances(self, folder: Path) -> Layout:
        """The layout of objects with their pixels, whatever else there is."""
        used = {shape.label for each in self.images for shape in each.shapes if shape.is_outlined}
        classes = tuple(name for name in self._names(folder, used) if name.lower() != BACKGROUND)
        items, problems = [], list(self.problems)
        for each in self.images:
            bare = sum(not shape.is_outlined for shape in each.shapes)
            if bare:
                problems.append(_without_pixels(named(each.image, folder), bare))
            drawn = tuple(
                Instance(classes.index(shape.label), partial(_pixels_of, shape, relative=each.relative))
                for shape in each.shapes
                if shape.is_outlined and shape.label.lower() != BACKGROUND
            )
            items.append(
                Item(
                    each.split, each.name, each.image, label=drawn, size=each.size,
                    outlines=_edges_of(each), relative=each.relative,
                )
            )  # fmt: skip
        reason = f"objects of {counted(len(classes), 'class')} with their pixels, from the outlines"
        return Layout("instances", self.name, (self.reason, reason), tuple(items), Labels(classes), tuple(problems))

    def _classes(self, folder: Path) -> Layout:
        classes = self._names(folder, (tag for each in self.images for tag in each.tags))
        problems, items = list(self.problems), []
        for each in self.images:
            if len(each.tags) != 1:
                problems.append(_tagged(named(each.image, folder), each.tags))
                continue
            items.append(Item(each.split, each.name, each.image, label=classes.index(each.tags[0])))
        reason = "each image has one class"
        return Layout(
            "classification", self.name, (self.reason, reason), tuple(items), Labels(classes), tuple(problems)
        )


def _by_tags(images: Sequence[AnnotatedImage]) -> list[AnnotatedImage]:
    """The images in the splits that their tags name, where each has one such tag and there are several; or none."""
    splits = [[split for tag in each.tags if (split := listing.split_of(tag))] for each in images]
    known = {split for found in splits for split in found}
    if len(known) <= 1 or any(len(found) != 1 for found in splits) or {each.split for each in images} != {"train"}:
        return []
    return [
        replace(each, split=found[0], tags=tuple(tag for tag in each.tags if not listing.split_of(tag)))
        for each, found in zip(images, splits, strict=True)
    ]


def _grouped(layout: Layout, groups: Mapping[Path | FilePart, str]) -> Layout:
    items = (replace(item, group=groups.get(item.image, item.group)) for item in layout.items)
    return replace(layout, items=tuple(items)) if groups else layout


def split_and_group(held: Mapping[str, Any]) -> tuple[str, str]:
    """The split and the group of an image that its fields name, such as `split` and `patient_id`; "" for none."""
    named_as = {key.lower(): value for key, value in held.items()}
    words = [value for key in _SPLITS if isinstance(value := named_as.get(key), str)]
    column = group_column([*held])
    group = held[column] if column else ""
    return next(filter(None, map(listing.split_of, words)), ""), str(group) if isinstance(group, str | int) else ""


def _edges_of(each: AnnotatedImage) -> tuple[Box, ...]:
    """The edges of every outline; painted pixels that are damaged are named where they are drawn."""
    found = []
    for shape in each.shapes:
        with contextlib.suppress(DatasetError):
            found += [Box(0, *shape.box())] if shape.is_outlined else []
    return tuple(found)


def mask_of(each: AnnotatedImage, classes: tuple[str, ...]) -> bytes:
    """The mask of an image as PNG: 0 for what nobody outlined."""
    size = each.size if all(each.size) else probe(each.image.read_bytes(), each.name).size
    if min(size) < 1 or size[0] * size[1] > MAX_PIXELS:
        raise DatasetError(
            f"{each.source} ({each.name})",
            expected=f"an image with its height and width, of at most {MAX_PIXELS:,} pixels",
            found=f"{size[0]} x {size[1]}",
            remedy="Fix the file",
        )
    ids = np.zeros(size, np.uint8)
    drawn = [(shape, shape.part(size)) for shape in _scaled(each, size) if shape.is_outlined]
    for shape, part in sorted(drawn, key=lambda pair: (pair[0].layer, -int(pair[1].bits.sum()))):
        label = 0 if shape.label.lower() == BACKGROUND else classes.index(shape.label)
        ids[part.rows, part.columns][part.bits] = label
    return codecs.plain_mask(ids)


def _scaled(each: AnnotatedImage, size: tuple[int, int]) -> Iterable[Shape]:
    return [in_pixels(shape, size) for shape in each.shapes] if each.relative else each.shapes


def _pixels_of(shape: Shape, size: tuple[int, int], *, relative: bool) -> Bits:
    return (in_pixels(shape, size) if relative else shape).pixels(size)


def entry_of(found: Annotations, value: Any, key: str, kind: Any, *, file: str, where: str) -> Any:
    """The value of a key, as `typed.get` gives it. Another type is a problem, and gives None."""
    try:
        return typed.get(value, key, kind)
    except ValueError as error:
        found.problems.append(damaged(file, where, f"{found.name}'s {key}", str(error)))
        return None


def read_shapes(
    found: Annotations, entries: Iterable[Any], read: Callable[[Any, str], Shape | None], *, image: str, where: str
) -> tuple[Shape, ...]:
    """The shapes of an image's entries; what cannot be read is added to the problems.

    Args:
        found: whose problems.
        entries: as the tool wrote them.
        read: makes a shape from an entry and its place; None for points and lines, which have no inside. It raises a
            ValueError where the entry is no shape, as `typed` does.
        image: as people call it; it is left out with --skip-bad.
        where: the annotation file, and the image's entry in it.
    """
    shapes, bare = [], 0
    for number, entry in enumerate(entries, 1):
        place = f"{where}, shape {number}"
        try:
            shape = _labelled(read(entry, place))
        except ValueError as error:
            found.problems.append(damaged(image, place, "a label and its points", str(error)))
            continue
        if shape is None:
            bare += 1
        else:
            shapes.append(shape)
    if bare:
        found.problems.append(_bare(image, bare))
    return tuple(shapes)


def _labelled(shape: Shape | None) -> Shape | None:
    if shape is None:
        return None
    if not shape.label:
        message = "no label"
        raise ValueError(message)
    if not listing.is_text(shape.label):
        message = f"the label {shape.label!r}"
        raise ValueError(message)
    return replace(shape, label=listing.composed(shape.label))


def split_of(path: Path, folder: Path, source: Path | None = None) -> str:
    """The split of the nearest folder to the root that names one, else of the file's name (`val.xml`), else train."""
    parents = path.relative_to(folder).parts[:-1] if path.is_relative_to(folder) else ()
    called = listing.role_of(source.stem)[1] if source else ""
    return next(filter(None, map(listing.split_of, parents)), called) or "train"


def class_name(label: Any, classes: tuple[str, ...] = ()) -> str:
    """A class by its name or by its id; "" where there is none."""
    if isinstance(label, int) and 0 <= label < len(classes):
        return classes[label]
    return "" if label is None else listing.composed(str(label).strip())


def find_image(found: Annotations, folder: Path, source: Path, wanted: str, images: Images) -> Path | None:
    """The image that an annotation file names: beside it, or the only one of that name. None is a problem."""
    image = (listing.file_of(source.parent, wanted) if wanted else None) or images.find(wanted)
    if image is None:
        found.problems.append(image_missing(named(source, folder), wanted, images.among(wanted)))
    return image


def image_missing(source: str, name: str, found: str = "nothing") -> Problem:
    """An annotated image that is not there, or of whose name there are several."""
    message = f"{source}: expected the image {name} that it names, found {found}. Add it, or remove its annotations."
    return Problem("image missing", f"{source}#{name}", message)


def damaged(file: str, where: str, expected: str, found: str) -> Problem:
    """An annotation file, or a part of one, that is not as its tool writes it."""
    message = f"{where}: expected {expected}, found {found}. Fix it, or remove it."
    return Problem("damaged annotation", file, message)


def _bare(name: str, count: int) -> Problem:
    them = "It is" if count == 1 else "They are"
    message = f"{name}: {counted(count, 'shape')} without an inside, as points and lines. {them} left out."
    return Problem("shape without an inside", name, message, fatal=False)


def _unlined(name: str, count: int) -> Problem:
    them = "its pixels are" if count == 1 else "their pixels are"
    message = f"{name}: {counted(count, 'object')} without an outline, only a box: {them} background in the mask."
    return Problem("object without an outline", name, message, fatal=False)


def _without_pixels(name: str, count: int) -> Problem:
    them = "It is" if count == 1 else "They are"
    message = f"{name}: {counted(count, 'object')} without an outline, only a box. {them} left out."
    return Problem("object without an outline", name, message, fatal=False)


def _tagged(name: str, tags: tuple[str, ...]) -> Problem:
    found = ", ".join(tags) or "none"
    message = (
        f"{name}: expected one class, found {found}. Fix it, or leave the image out with --skip-bad. Images of several "
        "classes are not supported."
    )
    return Problem("image without one class", name, message)
