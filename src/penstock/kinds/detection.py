"""Detection: an image and the boxes of the objects in it, with their classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.images import ImageInfo, codecs, drawing, probe
from penstock.images.upright import read_shown, read_upright
from penstock.kinds import boxes, shrinking
from penstock.kinds.base import TILE, Counts, Described, Kind
from penstock.kinds.fields import DetectionRecord, decode_detection, encode_detection
from penstock.kinds.items import Box, InspectedItem, Item, Labels, Problem, named, outside_classes
from penstock.kinds.labels import check_objects
from penstock.unpacked import CocoFolder, VocBoxes, YoloFolder
from penstock.values import Object, Pixels, Record


class DetectionKind(Kind):
    """Every image has any number of objects, each with a box and a class."""

    name = "detection"
    unit = "box"
    label = "boxes, perhaps an empty tuple of them"
    nothing = "an object in any image"
    inferred_from = "labels"
    shows_boxes_read = True
    reads_masks = False
    checked_label: Any = tuple[Box, ...]
    writers: ClassVar = {"coco": CocoFolder, "yolo": YoloFolder, "voc": VocBoxes}

    def check_item(self, folder: Path, inspected: InspectedItem, image: ImageInfo, labels: Labels) -> InspectedItem:
        """Boxes in pixels and inside the image."""
        if not isinstance(inspected.item.label, tuple):
            return self.unlabelled(inspected, folder)
        name = named(inspected.item.image, folder)
        return boxes.check(name, inspected, clip=labels.clip_boxes, trust_size=labels.trust_size)

    def check_together(
        self, items: Sequence[InspectedItem], labels: Labels, folder: Path, *, stated: bool
    ) -> Iterator[Problem]:
        """Boxes of a class that has no name, and boxes that all lie in one corner."""
        shown = [(box, each) for each in items for box in _objects(each.item) if isinstance(box, Box) and each.height]
        yield from boxes.all_in_a_corner(shown, folder)
        for each in items:
            held = [box.label for box in _objects(each.item)]
            wrong = [label for label in held if not 0 <= label < len(labels.classes)]
            if wrong:
                yield outside_classes(named(each.item.image, folder), labels, wrong[0])

    def encode(self, inspected: InspectedItem, image: bytes, info: ImageInfo, labels: Labels, folder: Path) -> bytes:
        """The record, with the keys of TensorFlow's Object Detection API."""
        item, names = inspected.item, labels.classes
        objects = tuple(
            Object(box.label, box.left, box.top, box.right, box.bottom, names[box.label], box.crowd, box.difficult)
            for box in item.label
        )
        return encode_detection(DetectionRecord(image, objects, item.name, inspected.format, *info.size))

    def check(self, record: Record, described: Described) -> None:
        """Decode the image, and check its boxes."""
        fields = decode_detection(record)
        info = probe(fields.image, record.origin)
        codecs.decode_image(fields.image, record.origin, info=info, pixels=described.pixel_format)
        check_objects(fields, len(described.classes), info.size, record.origin)

    def read(self, record: Record, described: Described) -> tuple[NDArray[Any], Any]:
        """The image, and its objects by what there is of each."""
        fields = decode_detection(record)
        image = read_upright(fields.image, record.origin, described.pixel_format)
        edges = [(each.left, each.top, each.right, each.bottom) for each in fields.objects]
        names = [described.classes[each.label] for each in fields.objects]
        return image, {"boxes": np.array(edges, np.float32).reshape(-1, 4), "classes": names}

    def renumbered(self, record: Record, described: Described, ids: Mapping[int, int], ignore: int) -> bytes:
        """The objects of classes that have a new id."""
        kept = [each for each in self.label_of(record, described) if each.label in ids]
        objects = tuple(replace(each, label=ids[each.label]) for each in kept)
        return encode_detection(replace(decode_detection(record), objects=objects))

    def label_of(self, record: Record, described: Described) -> Sequence[Object]:
        """Its objects."""
        self.check(record, described)
        return decode_detection(record).objects

    def objects(self, item: Item) -> int:
        """Its boxes."""
        return len(_objects(item))

    def shrunk(self, item: Item, most: int) -> Item:
        """Boxes in fractions of the image's size."""
        return shrinking.relative_boxes(item)

    def count(self, items: Sequence[InspectedItem], classes: int) -> list[int]:
        """Objects of every class."""
        total = Counter(box.label for each in items for box in _objects(each.item))
        return [total[i] for i in range(classes)]

    def measure(self, record: Record, described: Described) -> Counts:
        """Its size, and its objects by class."""
        fields = decode_detection(record)
        height, width = probe(fields.image, record.origin).size
        labels = Counter(each.label for each in fields.objects)
        return Counts(height, width, labels, objects=len(fields.objects))

    def draw(self, record: Record, described: Described) -> Pixels:
        """The image with its boxes."""
        fields = decode_detection(record)
        whole = read_shown(fields.image, record.origin)
        image = drawing.fit(whole, TILE)
        edges = np.array([(o.left, o.top, o.right, o.bottom) for o in fields.objects], np.float32).reshape(-1, 4)
        labels = np.array([o.label for o in fields.objects], np.int64)
        drawn = drawing.boxes(image, edges * (image.shape[1] / whole.shape[1]), labels)
        return drawing.caption(drawn, f"{fields.name} ({record.origin})")

    def ignored_color(self, described: Described) -> int:
        """No class of objects is drawn as background is."""
        return drawing.OBJECTS


def _objects(item: Item) -> tuple[Any, ...]:
    """The objects of an item; none where its label is something else."""
    return item.label if isinstance(item.label, tuple) else ()
