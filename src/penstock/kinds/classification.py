"""Classification: an image and the id of its class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

from numpy.typing import NDArray

from penstock.errors import LabelError
from penstock.images import ImageInfo, codecs, drawing, probe
from penstock.images.upright import read_shown, read_upright
from penstock.kinds.base import NO_LABEL, TILE, Counts, Described, Kind
from penstock.kinds.fields import ClassificationRecord, decode_classification, encode_classification
from penstock.kinds.items import InspectedItem, Item, Labels, Problem, named, outside_classes
from penstock.unpacked import ClassFolders
from penstock.values import Pixels, Record

_NAMED: Final = 5  # classes in a sentence


def _one_class(items: Sequence[InspectedItem], labels: Labels, folder: Path) -> Problem:
    """A note: folders of images that nobody sorted look like one class."""
    message = (
        f"all {len(items):,} images have the class {labels.classes[0]}. To train a classifier, sort the images into "
        "one folder per class."
    )
    return Problem("only one class", named(items[0].item.image, folder), message, fatal=False, whole=True)


def _other_classes(items: Sequence[InspectedItem], labels: Labels, folder: Path) -> Iterator[Problem]:
    """The problem of a split without a class of train, as where two tables spell the classes otherwise."""
    there: dict[str, set[str]] = {}
    for each in items:
        if isinstance(each.item.label, int) and 0 <= each.item.label < len(labels.classes):
            there.setdefault(each.item.split, set()).add(labels.classes[each.item.label])
    train = there.pop("train", set())
    for split, names in there.items():
        others = {name for name in names if split not in name.lower()}  # testA is named for its folder
        if min(len(train), len(others)) > 1 and train.isdisjoint(names):  # one class each may be chance
            known, other = (", ".join(sorted(each)[:_NAMED]) for each in (train, names))
            message = (
                f"{folder}: expected the classes of train in {split}, found {known} in train and {other} in {split}. "
                "Name them alike."
            )
            yield Problem(f"other classes in {split}", str(folder), message, whole=True)


class ClassificationKind(Kind):
    """Every image has one class."""

    name = "classification"
    any_channels = True
    label = "a class"
    unit = "image"
    legend = False
    reads_masks = False
    writers: ClassVar = {"classes": ClassFolders}

    def check_item(self, folder: Path, inspected: InspectedItem, image: ImageInfo, labels: Labels) -> InspectedItem:
        """The label must be an id."""
        label = inspected.item.label
        if isinstance(label, int):
            return inspected.labelled(str(label))
        name = named(inspected.item.image, folder)
        message = (
            f"{name}: expected a label, a mask or boxes, found {label!r} for a label. Give it a class id, or leave it "
            "out."
        )
        return inspected.with_problem(Problem(NO_LABEL, name, message))

    def check_together(
        self, items: Sequence[InspectedItem], labels: Labels, folder: Path, *, stated: bool
    ) -> Iterator[Problem]:
        """Labels of a class that has no name."""
        for each in items:
            label = each.item.label
            if each.content and isinstance(label, int) and not 0 <= label < len(labels.classes):
                yield outside_classes(named(each.item.image, folder), labels, label)
        yield from _other_classes(items, labels, folder)
        if items and len(labels.classes) == 1:
            yield _one_class(items, labels, folder)

    def encode(self, inspected: InspectedItem, image: bytes, info: ImageInfo, labels: Labels, folder: Path) -> bytes:
        """The record, with TF-slim's keys."""
        item = inspected.item
        assert item.label is not None  # noqa: S101 - items without one are problems
        text = labels.classes[item.label]
        return encode_classification(
            ClassificationRecord(image, item.label, item.name, inspected.format, info.height, info.width, text)
        )

    def check(self, record: Record, described: Described) -> None:
        """Decode the image, and compare the label with the classes."""
        fields = decode_classification(record)
        codecs.decode_image(fields.image, record.origin, pixels=described.pixel_format)
        classes = len(described.classes)
        if not 0 <= fields.label < classes:
            raise LabelError(
                record.origin,
                expected=f"a class from 0 to {classes - 1}",
                found=str(fields.label),
                remedy="Pack the dataset again",
            )

    def read(self, record: Record, described: Described) -> tuple[NDArray[Any], Any]:
        """The image and the name of its class."""
        fields = decode_classification(record)
        image = read_upright(fields.image, record.origin, described.pixel_format)
        return image, described.classes[fields.label]

    def renumbered(self, record: Record, described: Described, ids: Mapping[int, int], ignore: int) -> bytes | None:
        """The new label; an image of another class does not count."""
        label = self.label_of(record, described)
        return encode_classification(replace(decode_classification(record), label=ids[label])) if label in ids else None

    def label_of(self, record: Record, described: Described) -> int:
        """The id of its class."""
        self.check(record, described)
        return decode_classification(record).label

    def class_of(self, item: Item) -> int | None:
        """Its label."""
        label: int | None = item.label
        return label

    def shrunk(self, item: Item, most: int) -> Item:
        """The item as it is."""
        return item

    def count(self, items: Sequence[InspectedItem], classes: int) -> list[int]:
        """Images of every class."""
        total = Counter(each.item.label for each in items)
        return [total[i] for i in range(classes)]

    def measure(self, record: Record, described: Described) -> Counts:
        """Its size and its class."""
        fields = decode_classification(record)
        height, width = probe(fields.image, record.origin).size
        return Counts(height, width, Counter([fields.label]))

    def draw(self, record: Record, described: Described) -> Pixels:
        """The image above the name of its class."""
        fields = decode_classification(record)
        image = drawing.fit(read_shown(fields.image, record.origin), TILE)
        return drawing.caption(image, f"{fields.text or fields.label}: {fields.name}")
