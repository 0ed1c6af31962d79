"""What a record holds: its fields, its checks, its counts, and how it is drawn. Without torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from numpy.typing import NDArray

from penstock.errors import DatasetError
from penstock.images import ImageInfo, PixelFormat, read_upright
from penstock.kinds.items import FilePart, InspectedItem, Item, Labels, Problem, named
from penstock.progress import counted
from penstock.records.example import Fields
from penstock.unpacked import FolderWriter
from penstock.values import Pixels, Record

NO_LABEL = "no label"
"""The kind of problem of an item without the label that it needs."""

TILE = 320
"""The longer side of a drawn record, in pixels."""


class Described(Protocol):
    """What a dataset's description says of its records."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes' names; their index is their id."""

    @property
    def ignore_label(self) -> int:
        """The id that does not count."""

    @property
    def pixel_format(self) -> PixelFormat:
        """Channels and bits of the images."""

    @property
    def colors(self) -> tuple[tuple[int, int, int], ...]:
        """The classes' (red, green, blue) in the data's own legend; none where it has no legend."""


@dataclass(frozen=True)
class Counts:
    """What one record adds to the description of its split.

    Attributes:
        height, width: size of the upright image, or of a slice of a volume, in pixels.
        per_class: what the kind counts, by class.
        image_pixels: the labelled pixels of the image, by every class that occurs in it.
        objects: how many boxes there are.
        slices: how many slices a volume has.
    """

    height: int
    width: int
    per_class: Counter[int] = field(default_factory=Counter)
    image_pixels: Counter[int] = field(default_factory=Counter)
    objects: int = 0
    slices: int = 0

    def joined(self, other: Counts) -> Counts:
        """These and another record's: counts are added up, of sizes the largest is kept."""
        self.per_class.update(other.per_class)
        self.image_pixels.update(other.image_pixels)
        return Counts(
            max(self.height, other.height),
            max(self.width, other.width),
            self.per_class,
            self.image_pixels,
            max(self.objects, other.objects),
            max(self.slices, other.slices),
        )


class Kind(ABC):
    """One kind of record.

    Attributes:
        name: as dataset.json has it; by default that of the class, in lower case.
        unit: what `count` counts, in the singular.
        label: what every item needs beside its image.
        nothing: what is missing where no class occurs at all.
        inferred_from: what classes that nobody named are inferred from.
        ignores: whether an ignore label means something.
        names_classes: whether the data itself names the classes, in place of --classes.
        shows_boxes_read: whether people should know how boxes were read.
        legend: whether colours stand for classes in what `draw` draws.
        any_channels: whether images may have other channels than gray or RGB.
        reads_masks: whether the options for masks apply to the kind.
        remembers: whether findings may be reused: they must depend only on the files and the printed label of an item.
        checked_label: the type of labels after `check_item`, of what msgspec can write; None where they stay as they
            are.
        writers: what its records can be unpacked as, by the name of the layout; the first is the default.
    """

    name: str
    unit: str = "pixel"
    label: str = "a mask"
    nothing: str = "an id that counts in any mask"
    inferred_from: str = "masks"
    ignores: bool = False
    names_classes: bool = True
    shows_boxes_read: bool = False
    legend: bool = True
    any_channels: bool = False
    reads_masks: bool = True
    remembers: bool = True
    checked_label: Any = None
    writers: ClassVar[Mapping[str, type[FolderWriter]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not hasattr(cls, "name"):
            cls.name = cls.__name__.lower()

    @abstractmethod
    def check_item(self, folder: Path, inspected: InspectedItem, image: ImageInfo, labels: Labels) -> InspectedItem:
        """An item whose image is sound, with what its label adds."""

    def check_together(
        self, items: Sequence[InspectedItem], labels: Labels, folder: Path, *, stated: bool
    ) -> Iterator[Problem]:
        """Problems that are found only by comparing all items."""
        return iter(())

    def unlabelled(self, inspected: InspectedItem, folder: Path) -> InspectedItem:
        """An item that lacks its label, with that problem."""
        name = named(inspected.item.image, folder)
        message = (
            f"{name}: expected {self.label}, found none, but the layout is for {self.name}. Give it some, or leave it "
            "out."
        )
        return inspected.with_problem(Problem(NO_LABEL, name, message))

    @abstractmethod
    def encode(self, inspected: InspectedItem, image: bytes, info: ImageInfo, labels: Labels, folder: Path) -> bytes:
        """The record of a sound item, with TensorFlow's keys."""

    @abstractmethod
    def check(self, record: Record, described: Described) -> None:
        """Decode one record whole, and compare its label with the dataset's classes.

        Raises:
            DataError: something is wrong with it.
        """

    def read(self, record: Record, described: Described) -> tuple[NDArray[Any], Any]:
        """The upright image, uint8 or uint16 (height, width, channels), and what the record says of it, for people.

        Masks are uint8 (height, width), a class is its name, and objects are a dict: "boxes", float32 (objects, 4) with
        left, top, right and bottom in pixels, "classes", their names, and "masks", bool (objects, height, width), where
        there are some. None where the kind does not say.

        Raises:
            DataError: the record is damaged.
        """
        image = Fields(record.payload, record.origin).first_bytes("image/encoded")
        return read_upright(image, record.origin, described.pixel_format), None

    def label_of(self, record: Record, described: Described) -> Any:
        """What its `writers` write of a record beside the image; `LabelledImage` says in which form.

        Raises:
            DataError: the record is damaged.
        """
        return self.read(record, described)[1]

    def renumbered(self, record: Record, described: Described, ids: Mapping[int, int], ignore: int) -> bytes | None:
        """The payload of a record whose classes have other ids; what is of a class without one does not count.

        Args:
            record: a record of the dataset that is described.
            described: that dataset.
            ids: the new ids, by those that the record has.
            ignore: the new ignore label, for kinds that have one.

        Returns:
            None where the record as a whole does not count.

        Raises:
            DataError: the record is damaged.
            DatasetError: the kind, a custom one, does not say how.
        """
        raise DatasetError(
            record.origin,
            remedy="Give it that method, or pack the data with the class ids of the run",
            message=f"{record.origin}: the {len(described.classes)} classes have other ids than those of the run, and "
            f"{self.name}, a custom task, has no `renumbered`.",
        )

    def label_files(self, item: Item) -> tuple[Path | FilePart, ...]:
        """The files beside the image that hold the label."""
        return (item.label,) if isinstance(item.label, Path | FilePart) else ()

    def class_of(self, item: Item) -> int | None:
        """The class of an image that has one, by which a split of its own is chosen; else None."""
        return None

    def objects(self, item: Item) -> int | None:
        """The number of objects in an item; None where its label is none of objects."""
        return None

    def shrunk(self, item: Item, most: int) -> Item:
        """An item with its label for an image that is made smaller, with sides of at most `most` pixels.

        Raises:
            DatasetError: labels of this kind cannot be made smaller.
        """
        raise DatasetError(
            f"--max-side {most}",
            expected="labels that can be made smaller with their images",
            found=self.name,
            remedy="Remove --max-side, and make the files smaller before",
        )

    @abstractmethod
    def count(self, items: Sequence[InspectedItem], classes: int) -> list[int]:
        """How many of its units every class has in some items."""

    def image_pixels(self, items: Sequence[InspectedItem], classes: int) -> list[int]:
        """The labelled pixels of the images that every class occurs in; empty where nobody needs them."""
        return []

    @abstractmethod
    def measure(self, record: Record, described: Described) -> Counts:
        """What one record adds to the description of its split."""

    def describe(self, items: Sequence[InspectedItem], labels: Labels) -> list[str]:
        """Lines of `inspect`: the classes of some items with their counts."""
        rows = zip(labels.classes, self.count(items, len(labels.classes)), strict=True)
        return [f"  {name:<16} {count:>10,} {counted(count, self.unit).split()[1]}" for name, count in rows]

    @abstractmethod
    def draw(self, record: Record, described: Described) -> Pixels:
        """A record as a tile of an image grid, with its label: uint8 RGB (height, width, 3)."""

    def legend_of(self, described: Described) -> tuple[str, ...]:
        """The classes that colours of a drawing stand for."""
        return described.classes if self.legend else ()

    def ignored_color(self, described: Described) -> int:
        """The id that is drawn in the colour of what does not count."""
        return described.ignore_label
