"""Volumes: a record holds a whole volume and its labels, slices below one another."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from penstock.errors import LabelError, SchemaError
from penstock.images import PixelFormat, codecs, drawing, probe
from penstock.kinds.base import TILE, Described
from penstock.kinds.fields import decode_name, decode_segmentation
from penstock.kinds.labels import LabelSet
from penstock.kinds.segmentation import SegmentationKind
from penstock.progress import counted
from penstock.values import Pixels, Record


class VolumesKind(SegmentationKind):
    """Every voxel of a volume has the id of a class, or one that does not count."""

    name = "volumes"
    writers: ClassVar = {}

    def read(self, record: Record, described: Described) -> tuple[NDArray[Any], Any]:
        """The voxels, uint8 (slices, rows, columns, channels), and their class ids, uint8 (slices, rows, columns)."""
        return read_slices(
            record, described.pixel_format.channels, LabelSet(len(described.classes), described.ignore_label)
        )

    def draw(self, record: Record, described: Described) -> Pixels:
        """The slice with the most labels, and its labels over it."""
        labels = LabelSet(len(described.classes), described.ignore_label)
        voxels, ids = read_slices(record, described.pixel_format.channels, labels)
        best, image = telling_slice(voxels, ids, described.ignore_label)
        laid = self.lay(image, ids[best], described)
        pair = np.hstack([drawing.fit(image, TILE), drawing.fit(laid, TILE)])
        return drawing.caption(pair, f"{decode_name(record)}, slice {best} of {len(ids)} ({record.origin})")


VOLUMES: Final = VolumesKind()


def read_slices(record: Record, channels: int, labels: LabelSet) -> tuple[Pixels, Pixels]:
    """Voxels, uint8 (slices, rows, columns, channels), and their class ids, uint8 (slices, rows, columns).

    Raises:
        DataError: the record is not what it should be.
    """
    fields = decode_segmentation(record)
    info = probe(fields.image, record.origin)
    if fields.slices < 1 or info.height % fields.slices:
        raise SchemaError(
            record.origin,
            expected="a volume: image/slices slices below one another",
            found=f"{counted(fields.slices, 'slice')} in {info.height} rows",
            remedy="Pack the dataset again, with --task volumes",
        )
    where = f"{record.origin} (mask)"
    voxels = codecs.decode_image(fields.image, record.origin, info=info, pixels=PixelFormat(channels))
    ids = codecs.decode_mask(fields.mask, where, palette=True)
    if ids.shape != voxels.shape[:2]:
        raise LabelError(
            where,
            expected=f"a mask of {voxels.shape[0]} x {voxels.shape[1]}, like its voxels",
            found=f"one of {ids.shape[0]} x {ids.shape[1]}",
            remedy="Pack the dataset again",
        )
    labels.check(ids, where)
    shape = fields.slices, info.height // fields.slices, info.width
    return voxels.reshape(*shape, channels), ids.reshape(shape)


def telling_slice(voxels: Pixels, ids: Pixels, ignore: int) -> tuple[int, Pixels]:
    """The slice with the most labels, and an image of it: of more than three modalities the first three, RGB."""
    best = int(((ids != 0) & (ids != ignore)).sum(axis=(1, 2)).argmax())
    return best, np.ascontiguousarray(np.broadcast_to(voxels[best][..., :3], (*ids.shape[1:], 3)))
