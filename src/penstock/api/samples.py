"""What is looked at of a dataset: single records, and image grids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.images import codecs
from penstock.kinds.fields import decode_name
from penstock.progress import counted

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from penstock.values import Pixels, Record


@dataclass(frozen=True, repr=False)
class Sheet:
    """An image grid; a notebook shows it.

    Attributes:
        png: the image as a PNG.
        records: where each image is from: its partition and offset; none where that is written below it.
        notes: remarks about the settings.
        first: position of the first image in the order of training, if the grid shows a step of a run.
        path: where it was written; None where it was not.
    """

    png: bytes
    records: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    first: int = 0
    path: Path | None = None

    def __repr__(self) -> str:
        return f"<Sheet of {len(self.png) >> 10:,} KiB>"

    def _repr_png_(self) -> bytes:
        return self.png


@dataclass(frozen=True, repr=False)
class Sample:
    """One record of a dataset; a notebook shows it.

    Attributes:
        origin: where it is: its partition and offset.
        record: its bytes.
        image: the upright image: uint8 or uint16 (height, width, channels), or the voxels of a volume, uint8 (slices,
            height, width, channels).
        label: what the record says of the image: a mask or alpha matte, uint8 (height, width); the name of a class; or
            a dict of objects: "boxes", float32 (objects, 4) with left, top, right and bottom in pixels, "classes", and
            "masks", bool (objects, height, width).
        drawn: the image with its label as people see it, made smaller: uint8 RGB (height, width, 3).
    """

    origin: str
    record: Record
    image: NDArray[Any]
    label: Any
    drawn: Pixels

    @property
    def name(self) -> str:
        """What the image was called before it was packed; "" where the record does not say."""
        return decode_name(self.record)

    def __repr__(self) -> str:
        image = f"image {self.image.dtype} {self.image.shape}"
        return f"<Sample {self.name} ({self.origin}), {image}, label {_label_words(self.label)}>"

    def _repr_png_(self) -> bytes:
        return codecs.encode_png(self.drawn)


def _label_words(label: Any) -> str:
    if isinstance(label, dict):
        return counted(len(label["classes"]), "object")
    return f"{label.dtype} {label.shape}" if hasattr(label, "shape") else str(label)
