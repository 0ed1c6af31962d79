"""What lies in a folder of raw data, image by image, and what is found of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from penstock.errors import PenstockError
from penstock.images.pixels import RGB, PixelFormat

_HIGHEST: Final = 255
MAX_IDS: Final = _HIGHEST + 1
"""Classes that a mask can tell apart."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """An image or a mask that is no file by itself, but is made from a part of one.

    Attributes:
        file: what it is made from.
        part: which part, for people: `data_batch_1.bin#7`.
        make: gives it as an encoded image; raises a DataError where the part is damaged.
    """

    file: Path
    part: str
    make: Callable[[], bytes]

    @classmethod
    def of(cls, place: Path | FilePart, part: str, make: Callable[[], bytes]) -> FilePart:
        """What is made from a file, or from a part of one."""
        if isinstance(place, FilePart):
            return cls(place.file, f"{place.part}, {part}", make)
        return cls(place, part, make)

    def read_bytes(self) -> bytes:
        """The encoded image."""
        return self.make()


def named(place: Path | FilePart, folder: Path) -> str:
    """A file or a part of one as people call it: relative to the folder, where it lies in it."""
    if isinstance(place, FilePart):
        return f"{named(place.file, folder)}#{place.part}"
    if place.is_relative_to(folder):
        return place.relative_to(folder).as_posix()
    whole = folder.resolve()
    return (place.relative_to(whole) if place.is_relative_to(whole) else place).as_posix()


@dataclass(frozen=True, slots=True)
class Box:
    """An object in an image.

    Attributes:
        label: the index of its class.
        left, top, right, bottom: its edges, in pixels of the upright image.
        crowd: whether it stands for many objects, which nobody told apart.
        difficult: whether it is too hard to count, as Pascal VOC says.
    """

    label: int
    left: float
    top: float
    right: float
    bottom: float
    crowd: bool = False
    difficult: bool = False


@dataclass(frozen=True, slots=True)
class Instance:
    """An object in an image, with its pixels.

    Attributes:
        label: the index of its class.
        pixels: gives which pixels of an upright image of a (height, width) are the object's, bool of that shape; raises
            a DatasetError where the annotation is damaged.
        crowd: whether it stands for many objects, which nobody told apart.
        box: around the pixels; None until they are drawn.
    """

    label: int
    pixels: Callable[[tuple[int, int]], NDArray[np.bool_]]
    crowd: bool = False
    box: Box | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """One image with its label, which the kind of its records reads.

    Attributes:
        split: train, val or test.
        name: of the image, without its suffix.
        image: its file, or a part of one.
        label: the file of a mask, the index of a class, a tuple of `Box`, or a tuple of `Instance`; of a custom kind
            anything else, such as the file of a depth map; None where there is none.
        outlines: edges of all that masks or instances are drawn from, which must lie inside the image.
        relative: whether boxes and outlines are in fractions of the image's size.
        group: of images that are never divided between splits, such as slices of a volume or frames of a video.
        size: (height, width) that boxes or instances were made for; 0 where it is not known.
        slices: of a whole volume, which is an image of them below one another.
        is_slice: whether it is a slice of a volume, which is like its neighbours.
    """

    split: str
    name: str
    image: Path | FilePart
    label: Any = None
    outlines: tuple[Box, ...] = ()
    relative: bool = False
    group: str = ""
    size: tuple[int, int] = (0, 0)
    slices: int = 0
    is_slice: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with the data.

    Attributes:
        kind: a short name, the same for all problems of a sort.
        file: the file it is about, as `named` gives it; an image is left out when it or its mask is a fatal one's.
        message: the whole sentence, file and remedy included.
        fatal: whether packing is refused; else it is only worth a look.
        whole: whether it is about the whole folder, and the file only an example; leaving it out fixes nothing.
    """

    kind: str
    file: str
    message: str
    fatal: bool = True
    whole: bool = False


def unlabelled_split(folder: Path, path: Path, beside: Path) -> Problem:
    """A note that a split is left out, as benchmarks keep the labels of theirs."""
    name = named(path, folder)
    message = f"{name}: no labels for it in {named(beside, folder)}: all of this split is left out."
    return Problem("split without labels", name, message, fatal=False, whole=True)


@dataclass(frozen=True)
class Labels:
    """How masks and boxes are interpreted.

    Attributes:
        classes: names by id; if empty, they are inferred from the masks.
        ignore: the id that does not count.
        mapping: ids to change, old to new, before anything else looks at them.
        palette: whether palette PNGs are accepted, their indices being the ids.
        colors: the ids of masks in colour, by (red, green, blue).
        threshold: the gray value from which a pixel of a mask is class 1, all others being class 0; 0 for masks of ids.
        trust_size: whether images may have another size than their annotations state.
        clip_boxes: whether boxes that reach outside their image are cut at its edges; else they are a problem.
    """

    classes: tuple[str, ...] = ()
    ignore: int = 255
    mapping: Mapping[int, int] = field(default_factory=dict)
    palette: bool = False
    colors: Mapping[tuple[int, int, int], int] = field(default_factory=dict)
    threshold: int = 0
    clip_boxes: bool = False
    trust_size: bool = False

    def __post_init__(self) -> None:
        ids = (self.ignore, *self.mapping, *self.mapping.values())
        if not all(0 <= i <= _HIGHEST for i in ids):
            message = f"ids of masks are bytes, 0 to {_HIGHEST}: {sorted(set(ids))}"
            raise ValueError(message)

    @property
    def class_colors(self) -> tuple[tuple[int, int, int], ...]:
        """The colour of every class in colour masks, by id; none unless every class has one."""
        by_id: dict[int, tuple[int, int, int]] = {}
        for color, label in self.colors.items():
            by_id.setdefault(self.mapping.get(label, label), color)
        ids = range(len(self.classes))
        return tuple(by_id[i] for i in ids) if by_id.keys() >= set(ids) else ()

    def over(self, stated: Labels) -> Labels:
        """These labels, with missing values taken from those that a layout states."""
        return Labels(
            self.classes or stated.classes,
            stated.ignore if self.ignore == _HIGHEST else self.ignore,
            {**stated.mapping, **{old: stated.mapping.get(new, new) for old, new in self.mapping.items()}},
            palette=self.palette or stated.palette,
            colors=self.colors or stated.colors,
            threshold=self.threshold or stated.threshold,
            clip_boxes=self.clip_boxes or stated.clip_boxes,
            trust_size=self.trust_size or stated.trust_size,
        )


@dataclass(frozen=True)
class InspectedItem:
    """What was found of one item.

    Attributes:
        item: the item.
        height, width: size of the upright image in pixels; 0 where the image cannot be read.
        format: "jpeg" or "png".
        size: bytes of the image and mask files together.
        content: a hash of the image file.
        key: a hash of all that the item's record will hold.
        label_key: a hash of its label alone; "" where the kind gives none.
        pixels: how many pixels of the mask have each id that occurs, after mapping.
        problems: what is wrong with it.
        label: what a custom kind has read of the label, so that `count` need not read it again.
        perceptual_hash: of what the image shows, by which nearly equal images are found.
        pixel_format: channels and bits of the image.
        moments: of every channel the mean and the mean square, as fractions of the highest value.
    """

    item: Item
    height: int = 0
    width: int = 0
    format: str = ""
    size: int = 0
    content: str = ""
    key: str = ""
    label_key: str = ""
    pixels: tuple[tuple[int, int], ...] = ()
    problems: tuple[Problem, ...] = ()
    label: Any = None
    perceptual_hash: int = 0
    pixel_format: PixelFormat = RGB
    moments: tuple[tuple[float, float], ...] = ()

    def with_problem(self, problem: Problem) -> InspectedItem:
        """The inspected item with one more problem."""
        return replace(self, problems=(*self.problems, problem))

    def labelled(self, label: str) -> InspectedItem:
        """The inspected item with the keys of its record and of its label, which is given as text."""
        key = hashed(f"{self.item.split}\0{self.item.name}\0{self.content}\0{label}".encode())
        return replace(self, key=key, label_key=hashed(label.encode()))


def hashed(data: bytes) -> str:
    """BLAKE2b of some bytes, 32 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def sentence(name: str, error: Exception) -> str:
    """What is wrong with a file that could not be read or decoded."""
    if isinstance(error, PenstockError):
        return str(error)
    return f"{name}: expected a readable file, found {error}. Check its permissions."


def copies(items: Iterable[InspectedItem]) -> Iterator[tuple[InspectedItem, InspectedItem]]:
    """Every image whose bytes an earlier one has too, behind the first of those."""
    first: dict[str, InspectedItem] = {}
    for each in items:
        if each.content and first.setdefault(each.content, each) is not each:
            yield first[each.content], each


def outside_classes(name: str, labels: Labels, label: int) -> Problem:
    """A label of a class that has no name."""
    message = (
        f"{name}: expected a class from 0 to {len(labels.classes) - 1}, found {label}. Name all classes, in "
        "the order of their ids."
    )
    return Problem("label outside the classes", name, message)
