"""Records of an image and its mask: what segmentation, matting and volumes share."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

from penstock.errors import LabelError, PenstockError
from penstock.images import ImageInfo, PixelFormat, codecs, drawing, geometry, probe, warp_mask
from penstock.images.formats import stored_mask
from penstock.images.pixels import color_codes
from penstock.images.upright import read_shown, read_upright
from penstock.kinds import boxes, shrinking
from penstock.kinds.base import TILE, Counts, Described, Kind
from penstock.kinds.fields import SegmentationRecord, decode_segmentation, encode_segmentation
from penstock.kinds.items import FilePart, InspectedItem, Item, Labels, Problem, hashed, named, sentence
from penstock.kinds.labels import LabelSet, decode_ids
from penstock.progress import counted
from penstock.values import Pixels, Record

_SMALLER: Final = 64  # pixels of a mask to a byte of its PNG, about
_SMALL: Final = 512  # bytes
IDS: Final = 256
"""Values of a pixel of a mask."""
_WITH_ALPHA: Final = 4


class MaskKind(Kind):
    """An image and a mask of the same size."""

    any_channels = True

    def check_item(self, folder: Path, inspected: InspectedItem, image: ImageInfo, labels: Labels) -> InspectedItem:
        """Decode the mask, compare its size with the image's, and count its ids."""
        mask = inspected.item.label
        if not isinstance(mask, Path | FilePart):
            return self.unlabelled(inspected, folder)
        inspected = boxes.check_outlines(named(inspected.item.image, folder), inspected, clip=labels.clip_boxes)
        name = named(mask, folder)
        try:
            data = stored_mask(mask.read_bytes(), name, palette=labels.palette, soft=labels.threshold > 0)
            info = probe(data, name)
            if wrong := self.check_header(name, info):
                return inspected.with_problem(wrong)
            ids = read_ids(data, name, labels)
        except (PenstockError, OSError) as error:
            kind = "not a mask of ids" if "one channel" in str(error) else "unreadable mask"
            return inspected.with_problem(Problem(kind, name, sentence(name, error)))
        size = min(len(data), max(_SMALL, ids.size // _SMALLER))
        inspected = replace(inspected.labelled(hashed(ids.tobytes())), size=inspected.size + size)
        if info.size != image.size:
            return inspected.with_problem(_other_size(name, image, info))
        if image.orientation != 1 and info.orientation == 1 and (image.height, image.width) == info.size:
            inspected = inspected.with_problem(_perhaps_turned(name, image))
        return replace(inspected, pixels=_counted(ids))

    def check_header(self, name: str, info: ImageInfo) -> Problem | None:
        """What the header of a mask alone shows to be wrong."""
        return None

    def encode(self, inspected: InspectedItem, image: bytes, info: ImageInfo, labels: Labels, folder: Path) -> bytes:
        """The record, with DeepLab's keys."""
        item = inspected.item
        mask = _mask_bytes(item.label, labels, folder)
        return encode_segmentation(
            SegmentationRecord(image, mask, item.name, inspected.format, info.height, info.width, item.slices)
        )

    def check(self, record: Record, described: Described) -> None:
        """Decode image and mask, and check the mask's ids."""
        fields = decode_segmentation(record)
        info = probe(fields.image, record.origin)
        codecs.decode_image(fields.image, record.origin, info=info, pixels=described.pixel_format)
        where = f"{record.origin} (mask)"
        ids, _ = decode_ids(fields.mask, where, info.size)
        self.check_ids(ids, described, where)

    def read(self, record: Record, described: Described) -> tuple[NDArray[Any], Any]:
        """The image and its mask."""
        fields = decode_segmentation(record)
        image = read_upright(fields.image, record.origin, described.pixel_format)
        return image, _upright(fields, image.shape[:2], described, record.origin)

    def renumbered(self, record: Record, described: Described, ids: Mapping[int, int], ignore: int) -> bytes:
        """A mask with the new ids, and the ignore label where a class has none."""
        fields = decode_segmentation(record)
        mask = _upright(fields, probe(fields.image, record.origin).size, described, record.origin)
        self.check_ids(mask, described, f"{record.origin} (mask)")
        new = np.array([ids.get(old, ignore) for old in range(IDS)], np.uint8)
        return encode_segmentation(replace(fields, mask=codecs.plain_mask(new[mask])))

    def check_ids(self, ids: Pixels, described: Described, where: str) -> None:
        """Every id must be a class, or ignored.

        Raises:
            LabelError: one is not.
        """
        LabelSet(len(described.classes), described.ignore_label).check(ids, where)

    def shrunk(self, item: Item, most: int) -> Item:
        """A smaller mask, and outlines in fractions of the image's size."""
        return shrinking.smaller_mask(item, most)

    def count(self, items: Sequence[InspectedItem], classes: int) -> list[int]:
        """Pixels of every class; ignored ones are not counted."""
        total: Counter[int] = Counter()
        for each in items:
            total.update(dict(each.pixels))
        return [total[i] for i in range(classes)]

    def measure(self, record: Record, described: Described) -> Counts:
        """Its size, and pixels by class."""
        fields = decode_segmentation(record)
        height, width = probe(fields.image, record.origin).size
        ids = codecs.decode_mask(fields.mask, record.origin, palette=True)
        pixels = self.pixels(np.bincount(ids.ravel(), minlength=IDS))
        present = Counter({int(i): int(pixels[i]) for i in np.flatnonzero(pixels[: len(described.classes)])})
        occurs = Counter(dict.fromkeys(present, present.total())) if self.ignores else Counter[int]()
        return Counts(height // max(1, fields.slices), width, present, occurs, slices=fields.slices)

    def pixels(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Pixels by class, from the number of pixels of every value: int64 (256,)."""
        return values

    def draw(self, record: Record, described: Described) -> Pixels:
        """The image, and its mask over it."""
        fields = decode_segmentation(record)
        image = read_shown(fields.image, record.origin)
        laid = self.lay(image, _upright(fields, image.shape[:2], described, record.origin), described)
        pair = np.hstack([drawing.fit(image, TILE), drawing.fit(laid, TILE)])
        return drawing.caption(pair, f"{fields.name} ({record.origin})")

    @abstractmethod
    def lay(self, image: Pixels, mask: Pixels, described: Described) -> Pixels:
        """A mask as people see it, beside or over its image."""


def _upright(fields: SegmentationRecord, size: tuple[int, int], described: Described, where: str) -> Pixels:
    """The mask of a record as its upright image is: uint8 (height, width)."""
    ids, upright = decode_ids(fields.mask, f"{where} (mask)", size)
    turned = np.empty(size, np.uint8)
    warp_mask(ids, upright, described.ignore_label, turned)
    return turned


def read_ids(data: bytes, where: str, labels: Labels) -> Pixels:
    """The ids of a raw mask, mapped.

    Raises:
        DataError: it is no mask of ids.
    """
    ids = _decoded(data, where, labels)
    if not labels.mapping:
        return ids
    table = np.arange(IDS, dtype=np.uint8)
    for old, new in labels.mapping.items():
        table[old] = new
    return table[ids]


def _decoded(data: bytes, where: str, labels: Labels) -> Pixels:
    """The ids of a mask, from its colours where it has some and a legend says what they mean."""
    info = probe(data, where)
    alpha = _alpha_alone(data, where, info)
    if alpha is not None:
        if not labels.threshold:
            raise LabelError(
                where,
                expected="class ids in gray or in colours",
                found=f"one colour, and {counted(len(np.unique(alpha)), 'value')} in the alpha channel",
                remedy="If the alpha channel is the mask, use --mask-threshold 128",
            )
        return (alpha >= labels.threshold).astype(np.uint8)
    if labels.threshold:
        gray = cv2.cvtColor(codecs.decode_image(data, where, info=info), cv2.COLOR_RGB2GRAY)
        return (gray >= labels.threshold).astype(np.uint8)
    colored = info.palette or info.channels > 1
    by_index = labels.palette and (info.palette or not labels.colors)
    if not colored or by_index or info.format != "png":
        return codecs.decode_mask(data, where, palette=labels.palette)
    stored = codecs.decode_image(data, where, info=info)
    if not labels.colors:
        return _gray(stored) if _is_gray(stored, info) else codecs.decode_mask(data, where)
    codes = color_codes(stored)
    ids = np.zeros(codes.shape, np.uint8)
    for code in np.unique(codes):
        color = int(code) >> 16, int(code) >> 8 & 255, int(code) & 255
        there = codes == code
        if color not in labels.colors:
            raise _unknown_color(where, color, there)
        ids[there] = labels.colors[color]
    return ids


def _alpha_alone(data: bytes, where: str, info: ImageInfo) -> Pixels | None:
    """The alpha channel of a mask that has one colour and differs in alpha alone, uint8 (height, width); else None."""
    if info.format != "png" or info.channels != _WITH_ALPHA or info.palette or info.planes:
        return None
    pixels = codecs.decode_image(data, where, info=info, pixels=PixelFormat(_WITH_ALPHA, 8))
    colors, alpha = pixels[..., :3], pixels[..., 3]
    differs = bool((alpha != alpha[0, 0]).any())
    return np.ascontiguousarray(alpha) if differs and not (colors != colors[0, 0]).any() else None


def _is_gray(pixels: Pixels, info: ImageInfo) -> bool:
    """Whether a mask was saved with three equal channels, whose values then are its ids."""
    alike = (pixels[..., 0] == pixels[..., 1]) & (pixels[..., 1] == pixels[..., 2])
    return not info.palette and info.bits == 8 and bool(alike.all())  # noqa: PLR2004 - a byte


def _gray(pixels: Pixels) -> Pixels:
    return np.ascontiguousarray(pixels[..., 0])


def _unknown_color(where: str, color: tuple[int, int, int], there: NDArray[np.bool_]) -> LabelError:
    row, column = (int(axis[0]) for axis in np.nonzero(there))
    return LabelError(
        where,
        expected="the colours of the legend",
        found=f"{', '.join(map(str, color))} in {counted(int(there.sum()), 'pixel')}, first at x {column}, y {row}",
        remedy="Add the colour to the legend, or export the masks again without smoothing",
    )


def _counted(ids: Pixels) -> tuple[tuple[int, int], ...]:
    """The values of a mask with their pixels."""
    flat = ids.ravel()
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    starts = np.concatenate([[0], changes])  # of runs of one value, of which a mask has few
    counts = np.zeros(IDS, np.int64)
    np.add.at(counts, flat[starts], np.diff(starts, append=flat.size))
    return tuple((int(i), int(counts[i])) for i in np.flatnonzero(counts))


def mask_name(inspected: InspectedItem, folder: Path) -> str:
    """The mask of an item that has pixels, as people call it."""
    return named(inspected.item.label, folder)


def _perhaps_turned(name: str, image: ImageInfo) -> Problem:
    """A note of a mask that would fit its image turned upright as well as stored."""
    message = (
        f"{name}: its image is turned upright by its EXIF orientation {image.orientation}, and the mask fits it in "
        "both ways. It is taken as drawn on the upright image: penstock show tells whether that is right."
    )
    return Problem("perhaps turned", name, message, fatal=False)


def _other_size(name: str, image: ImageInfo, mask: ImageInfo) -> Problem:
    turned = f" after its EXIF orientation {image.orientation}" if image.orientation != 1 else ""
    message = (
        f"{name}: expected a mask of {image.size[0]} x {image.size[1]} (height x width), like its image{turned}, "
        f"found {mask.size[0]} x {mask.size[1]}. Save both at the same size."
    )
    return Problem("size mismatch", name, message)


def _mask_bytes(place: Path | FilePart, labels: Labels, folder: Path) -> bytes:
    """The ids of a mask as a PNG that is read fast, whatever the file was; upright."""
    name = named(place, folder)
    data = stored_mask(place.read_bytes(), name, palette=labels.palette, soft=labels.threshold > 0)
    info = probe(data, name)
    ids = read_ids(data, name, labels)
    upright = np.empty(info.size, np.uint8)
    turn = geometry.upright_to_stored(info.orientation, (info.height, info.width))
    warp_mask(ids, turn, labels.ignore, upright)
    return codecs.encode_mask(upright)
