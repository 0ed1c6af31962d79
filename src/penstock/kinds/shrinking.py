"""Labels of images that are made smaller."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from penstock.images import probe
from penstock.images.codecs import decode_mask, encode_mask
from penstock.images.formats import stored, stored_mask
from penstock.images.lossy import lossy_name
from penstock.kinds.items import Box, FilePart, Instance, Item

Size = tuple[int, int]

JPEG_QUALITY: Final = 95


def smaller(size: Size, most: int) -> Size:
    """The size with sides of at most `most` pixels, in the same proportions."""
    scale = min(1.0, most / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def part_of(place: Path | FilePart, most: int, make: partial[bytes]) -> FilePart:
    """A file that is made smaller when it is read."""
    return FilePart.of(place, f"at most {most} pixels", make)


def relative_boxes(item: Item) -> Item:
    """An item with boxes in fractions of the size that they were made for."""
    if item.relative or not isinstance(item.label, tuple):
        return item
    size = _size(item)
    return replace(item, label=tuple(_relative(box, size) for box in item.label), relative=True)


def relative_instances(item: Item) -> Item:
    """An item whose objects have their pixels at any size of the image, and outlines in fractions of it."""
    if not isinstance(item.label, tuple):
        return item
    size = _size(item)
    objects = tuple(replace(each, pixels=partial(_pixels, each, size)) for each in item.label)
    return replace(_relative_outlines(replace(item, size=size)), label=objects)


def smaller_mask(item: Item, most: int) -> Item:
    """An item with a mask of at most `most` pixels a side, and outlines in fractions of the image's size."""
    if not isinstance(item.label, Path | FilePart):
        return item
    return replace(_relative_outlines(item), label=part_of(item.label, most, partial(_mask, item.label, most)))


def _relative_outlines(item: Item) -> Item:
    if item.relative or not item.outlines:
        return item
    size = _size(item)
    return replace(item, outlines=tuple(_relative(each, size) for each in item.outlines), relative=True)


def _size(item: Item) -> Size:
    """(height, width) that the annotations were made for: of the upright image, where they do not say."""
    if all(item.size):
        return item.size
    return probe(stored(item.image.read_bytes(), str(item.image)), str(item.image)).size


def _relative(box: Box, size: Size) -> Box:
    height, width = size
    return replace(
        box, left=box.left / width, right=box.right / width, top=box.top / height, bottom=box.bottom / height
    )


def _pixels(instance: Instance, whole: Size, size: Size) -> NDArray[np.bool_]:
    """The pixels of an object, at another size than it was annotated at."""
    pixels = instance.pixels(whole)
    resized = cv2.resize(pixels.astype(np.uint8), size[::-1], interpolation=cv2.INTER_NEAREST_EXACT)
    return np.asarray(resized > 0)


def _mask(place: Path | FilePart, most: int) -> bytes:
    """A mask by nearest pixels, so ids stay ids. A lossy one becomes a JPEG, which is still refused as ids."""
    from PIL import Image, ImageOps  # noqa: PLC0415 - for masks that are made smaller alone

    raw = place.read_bytes()
    data = stored_mask(raw, str(place), palette=True, soft=True)
    info = probe(data, str(place))
    size = smaller(info.size, most)
    if size == info.size:
        return data
    lossy = info.format == "jpeg" or bool(lossy_name(raw))
    if info.channels == 1 and not info.palette and not lossy:
        ids = decode_mask(data, str(place))
        return encode_mask(np.asarray(cv2.resize(ids, size[::-1], interpolation=cv2.INTER_NEAREST_EXACT), np.uint8))
    made = io.BytesIO()
    with Image.open(io.BytesIO(data)) as image:  # which keeps the palette
        resized = ImageOps.exif_transpose(image).resize(size[::-1], Image.Resampling.NEAREST)
        if lossy:
            resized.convert("RGB").save(made, "JPEG", quality=JPEG_QUALITY)
        else:
            resized.save(made, "PNG")
    return made.getvalue()
