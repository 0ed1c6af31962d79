"""Items whose images are made smaller: for a first try on large ones, or for good."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import cv2
import numpy as np
import simplejpeg

from penstock.images import PixelFormat, probe
from penstock.images.codecs import decode_mask, encode_mask, encode_png
from penstock.images.formats import stored, stored_mask
from penstock.images.lossy import lossy_name
from penstock.images.planes import encode_planes
from penstock.images.upright import read_upright
from penstock.kinds.items import Box, FilePart, Instance, Item

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from penstock.images import ImageInfo

    Size = tuple[int, int]

_QUALITY: Final = 95
_BYTE: Final = 8


def shrunk(item: Item, most: int) -> Item:
    """An item whose image has sides of at most `most` pixels, with its label made smaller alike.

    Images that are small enough stay as they are. Others are resized once their EXIF orientation is applied; JPEG files
    stay JPEG, of quality 95, and all others become PNG.
    """
    image = _part(item.image, most, partial(_image, item.image, most))
    mask = _part(item.mask, most, partial(_mask, item.mask, most)) if item.mask is not None else None
    changed = replace(item, image=image, mask=mask, size=(0, 0))
    if (item.boxes or item.outlines) and not item.relative:
        size = item.size if all(item.size) else _size(item.image)
        boxes = item.boxes and tuple(_relative(box, size) for box in item.boxes)
        outlines = tuple(_relative(each, size) for each in item.outlines)
        changed = replace(changed, boxes=boxes, outlines=outlines, relative=True)
    if item.instances:
        size = item.size if all(item.size) else _size(item.image)
        changed = replace(changed, instances=tuple(_shrunk_instance(each, size) for each in item.instances))
    return changed


def _part(place: Path | FilePart, most: int, make: partial[bytes]) -> FilePart:
    return FilePart.of(place, f"at most {most} pixels", make)


def _size(place: Path | FilePart) -> Size:
    """(height, width) of the upright image."""
    return probe(stored(place.read_bytes(), str(place)), str(place)).size


def _relative(box: Box, size: Size) -> Box:
    height, width = size
    return replace(
        box, left=box.left / width, right=box.right / width, top=box.top / height, bottom=box.bottom / height
    )


def _shrunk_instance(instance: Instance, whole: Size) -> Instance:
    return replace(instance, pixels=partial(_pixels, instance, whole))


def _pixels(instance: Instance, whole: Size, size: Size) -> NDArray[np.bool_]:
    """The pixels of an object, at another size than it was annotated at."""
    pixels = instance.pixels(whole)
    resized = cv2.resize(pixels.astype(np.uint8), size[::-1], interpolation=cv2.INTER_NEAREST_EXACT)
    return np.asarray(resized > 0)


def _smaller(size: Size, most: int) -> Size:
    """The size with sides of at most `most` pixels, in the same proportions."""
    scale = min(1.0, most / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _image(place: Path | FilePart, most: int) -> bytes:
    data = stored(place.read_bytes(), str(place))
    info = probe(data, str(place))
    size = _smaller(info.size, most)
    if size == info.size:
        return data
    pixels = read_upright(data, str(place), _format(info))
    parts = [pixels[..., first : first + 4] for first in range(0, pixels.shape[2], 4)]
    resized = [cv2.resize(part, size[::-1], interpolation=cv2.INTER_AREA).reshape(*size, -1) for part in parts]
    return _encoded(np.concatenate(resized, axis=2), info)


def _format(info: ImageInfo) -> PixelFormat:
    bits = 16 if info.bits > _BYTE else _BYTE
    return PixelFormat(info.channels, bits) if info.planes else PixelFormat(bits=bits)


def _encoded(pixels: NDArray[Any], info: ImageInfo) -> bytes:
    if info.format == "jpeg":
        return bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), quality=_QUALITY))
    if info.planes:
        return encode_planes(pixels)
    return encode_png(pixels)


def _mask(place: Path | FilePart, most: int) -> bytes:
    """A mask by its nearest pixels: ids stay ids, and colours colours. A lossy one becomes a JPEG, so that it is still
    refused as a mask of ids.
    """
    from PIL import Image, ImageOps  # noqa: PLC0415 - for masks that are made smaller alone

    raw = place.read_bytes()
    data = stored_mask(raw, str(place), palette=True, soft=True)
    info = probe(data, str(place))
    size = _smaller(info.size, most)
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
            resized.convert("RGB").save(made, "JPEG", quality=_QUALITY)
        else:
            resized.save(made, "PNG")
    return made.getvalue()
