"""Instance segmentation: an image and the objects in it, each with its pixels and its class."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.errors import LabelError, PenstockError
from penstock.images import ImageInfo, codecs, drawing, geometry
from penstock.images.geometry import Size
from penstock.images.upright import read_shown
from penstock.kinds import boxes, shrinking
from penstock.kinds.base import TILE, Described
from penstock.kinds.detection import DetectionKind
from penstock.kinds.fields import DetectionRecord, decode_detection, encode_detection
from penstock.kinds.items import Box, InspectedItem, Item, Labels, Problem, hashed, named
from penstock.unpacked import CocoFolder
from penstock.values import Bits, Object, Pixels, Record


class InstancesKind(DetectionKind):
    """Every image has any number of objects, each with its pixels and a class. Objects may overlap."""

    name = "instances"
    unit = "object"
    label = "instances, perhaps an empty tuple of them"
    shows_boxes_read = False
    remembers = False
    writers: ClassVar = {"coco": CocoFolder}

    def check_item(self, folder: Path, inspected: InspectedItem, image: ImageInfo, labels: Labels) -> InspectedItem:
        """Draw every object; its box is the one around its pixels."""
        item, name = inspected.item, named(inspected.item.image, folder)
        if not isinstance(item.label, tuple):
            return self.unlabelled(inspected, folder)
        if 0 not in item.size and item.size != image.size and not labels.trust_size:
            (problem,) = boxes.other_size(name, item.size, image.size)
            return inspected.with_problem(problem)
        inspected = boxes.check_outlines(name, inspected, clip=labels.clip_boxes)
        wrong, kept, text = [], [], ""
        for number, each in enumerate(item.label, 1):
            try:
                pixels = each.pixels(image.size)
            except PenstockError as error:
                wrong.append(Problem("damaged annotation", name, str(error)))
                continue
            if not pixels.any():
                wrong.append(_empty(name, number))
                continue
            kept.append(replace(each, box=Box(each.label, *geometry.edges_of(pixels), crowd=each.crowd)))
            text += f"\0{each.label} {each.crowd} {hashed(np.packbits(pixels).tobytes())}"
        drawn = replace(item, label=tuple(kept), relative=False)
        once = dict.fromkeys(wrong)  # all objects of a damaged mask say the same
        return replace(inspected.labelled(text), item=drawn, problems=(*inspected.problems, *once))

    def encode(self, inspected: InspectedItem, image: bytes, info: ImageInfo, labels: Labels, folder: Path) -> bytes:
        """The record, with the keys of TensorFlow's Object Detection API; masks are PNG files of the image's size."""
        item, names = inspected.item, labels.classes
        objects = tuple(
            Object(
                each.label, *boxes.edges_of(each.box), names[each.label], each.crowd,
                mask=codecs.encode_mask(each.pixels(info.size).view(np.uint8)),
            )
            for each in item.label
        )  # fmt: skip
        return encode_detection(DetectionRecord(image, objects, item.name, inspected.format, *info.size))

    def shrunk(self, item: Item, most: int) -> Item:
        """Outlines in fractions of the image's size, and pixels that are drawn for the image as it was."""
        return shrinking.relative_instances(item)

    def check(self, record: Record, described: Described) -> None:
        """Decode the image and every object's mask."""
        super().check(record, described)
        fields = decode_detection(record)
        for number, each in enumerate(fields.objects, 1):
            decode_object(each, (fields.height, fields.width), f"{record.origin} (object {number})")

    def read(self, record: Record, described: Described) -> tuple[NDArray[Any], Any]:
        """The image, and its objects with their pixels."""
        image, objects = super().read(record, described)
        size = image.shape[:2]
        masks = [decode_object(each, size, record.origin) for each in decode_detection(record).objects]
        return image, {**objects, "masks": np.array(masks, bool).reshape(-1, *size)}

    def legend_of(self, described: Described) -> tuple[str, ...]:
        """None where there is one class: each object has a colour of its own then."""
        return described.classes if len(described.classes) > 1 else ()

    def draw(self, record: Record, described: Described) -> Pixels:
        """The image with its objects in colours."""
        fields = decode_detection(record)
        image = read_shown(fields.image, record.origin)
        masks = [decode_object(each, image.shape[:2], record.origin) for each in fields.objects]
        labels = [each.label for each in fields.objects]
        drawn = drawing.instances(image, masks, labels, classes=len(described.classes))
        return drawing.caption(drawing.fit(drawn, TILE), f"{fields.name} ({record.origin})")


def decode_object(each: Object, size: Size, where: str) -> Bits:
    """Which pixels are an object's: bool (height, width).

    Args:
        each: the object.
        size: of the upright image, (height, width).
        where: named in errors.

    Raises:
        DataError: it has no mask, or the mask is damaged, empty or of another size.
    """
    expected = f"a mask of {size[0]} x {size[1]} (height x width) with the pixels of the object"
    remedy = "Pack the data again"
    if not each.mask:
        raise LabelError(where, expected=expected, found="no mask", remedy=remedy)
    pixels = codecs.decode_mask(each.mask, where)
    if pixels.shape != tuple(size):
        found = f"one of {pixels.shape[0]} x {pixels.shape[1]}"
        raise LabelError(where, expected=expected, found=found, remedy=remedy)
    if not pixels.any():
        raise LabelError(where, expected=expected, found="a mask without any", remedy=remedy)
    return pixels > 0


def _empty(name: str, number: int) -> Problem:
    message = f"{name}: object {number} has no pixel inside the image. It is left out."
    return Problem("object without pixels", name, message, fatal=False)
