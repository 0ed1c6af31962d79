"""Masks and boxes against their image and their classes: the checks that training and verification share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import cv2
import numpy as np

from penstock.errors import LabelError
from penstock.images import codecs, geometry
from penstock.images.geometry import Affine, Size
from penstock.images.header import probe
from penstock.kinds.fields import DetectionRecord
from penstock.values import Pixels

_IDS: Final = 256
_NEAR: Final = 1e-3  # pixels: edges are kept as fractions, in float32


def decode_ids(mask: bytes, where: str, size: Size) -> tuple[Pixels, Affine]:
    """A record's mask as stored, and the map from upright to stored points; it must be as large as its image.

    Args:
        mask: a single-channel or palette PNG.
        where: named in errors.
        size: the upright image's (height, width).

    Raises:
        DataError: the mask cannot be decoded, or is of another size.
    """
    info = probe(mask, where)
    if info.size != size:
        raise LabelError(
            where,
            expected=f"a mask of {size[0]} x {size[1]} (height x width), like its image",
            found=f"one of {info.size[0]} x {info.size[1]}",
            remedy="Make both the same size, then pack again",
        )
    ids = codecs.decode_mask(mask, where, palette=True)
    return ids, geometry.upright_to_stored(info.orientation, (info.height, info.width))


def check_objects(record: DetectionRecord, classes: int, size: Size, where: str) -> None:
    """A record's boxes must lie in its image, the right way round, and have classes that there are.

    Args:
        record: whose boxes.
        classes: the number of classes.
        size: of the upright image, (height, width).
        where: named in errors.

    Raises:
        LabelError: one does not, or the record was written for an image of another size.
    """
    if (record.height, record.width) != size:
        raise LabelError(
            where,
            expected=f"an image of {record.height} x {record.width} (height x width), as the record says",
            found=f"one of {size[0]} x {size[1]}",
            remedy="Pack the data again",
        )
    for number, box in enumerate(record.objects, 1):
        near = -_NEAR <= box.left < box.right <= size[1] + _NEAR and -_NEAR <= box.top < box.bottom <= size[0] + _NEAR
        if not near or not 0 <= box.label < classes:
            raise LabelError(
                where,
                expected=f"boxes inside {size[0]} x {size[1]} (height x width), of classes from 0 to {classes - 1}",
                found=f"box {number} of class {box.label}: {box.left:g}, {box.top:g} to {box.right:g}, {box.bottom:g}",
                remedy="Pack the data again",
            )


@dataclass(frozen=True)
class LabelSet:
    """The ids that a mask may hold: `0 .. classes - 1`, and `ignore`."""

    classes: int
    ignore: int

    def check(self, ids: Pixels, where: str) -> None:
        """Look at every pixel: at the highest id first, then in a table, which costs a fifth of counting them.

        Raises:
            LabelError: an id is neither a class nor ignored.
        """
        if int(ids.max()) < self.classes or not cv2.countNonZero(cv2.LUT(ids, self._refused)):
            return
        found = np.flatnonzero(np.bincount(ids.ravel(), minlength=_IDS) * self._refused)
        raise LabelError(
            where,
            expected=f"class ids from 0 to {self.classes - 1}, or the ignore label {self.ignore}",
            found=f"id {', '.join(map(str, found[:5].tolist()))}",
            remedy="Check classes and ignore_label in dataset.json, or pack the data again",
        )

    @cached_property
    def _refused(self) -> Pixels:
        table = np.ones(_IDS, np.uint8)
        table[: self.classes] = 0
        table[self.ignore] = 0
        return table
