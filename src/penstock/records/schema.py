"""The fields of a record, task by task, with the keys of TensorFlow's DeepLab and TF-slim.

Segmentation: research/deeplab/datasets/build_data.py. Classification: research/slim/datasets/dataset_utils.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import SchemaError
from penstock.records.example import Fields, encode

if TYPE_CHECKING:
    from penstock.values import Record


@dataclass(frozen=True, slots=True)
class SegmentationRecord:
    """An encoded image and its encoded mask of class ids; sizes in pixels as stored, before EXIF orientation."""

    image: bytes
    mask: bytes
    name: str
    format: str
    height: int
    width: int


@dataclass(frozen=True, slots=True)
class ClassificationRecord:
    """An encoded image and its class id; `text` is the class's name where the record has it."""

    image: bytes
    label: int
    name: str
    format: str
    height: int
    width: int
    text: str = ""


def encode_segmentation(record: SegmentationRecord) -> bytes:
    """The payload with DeepLab's eight keys; `image/channels` is 3, as DeepLab always writes it."""
    return encode(
        {
            "image/encoded": record.image,
            "image/filename": record.name,
            "image/format": record.format,
            "image/height": record.height,
            "image/width": record.width,
            "image/channels": 3,
            "image/segmentation/class/encoded": record.mask,
            "image/segmentation/class/format": "png",
        }
    )


def decode_segmentation(record: Record) -> SegmentationRecord:
    """Read DeepLab's keys; only the two images are required, the rest may be missing as in other writers' files.

    Raises:
        SchemaError: the payload is no Example, or lacks an image or a mask.
    """
    fields = Fields(record.payload, record.origin)
    return SegmentationRecord(
        image=fields.first_bytes("image/encoded"),
        mask=fields.first_bytes("image/segmentation/class/encoded"),
        name=_text(fields, "image/filename"),
        format=_text(fields, "image/format"),
        height=fields.first_int("image/height", 0),
        width=fields.first_int("image/width", 0),
    )


def encode_classification(record: ClassificationRecord) -> bytes:
    """The payload with TF-slim's five keys, and `image/filename` and `image/class/text` as its ImageNet writer adds."""
    return encode(
        {
            "image/encoded": record.image,
            "image/filename": record.name,
            "image/format": record.format,
            "image/class/label": record.label,
            "image/class/text": record.text,
            "image/height": record.height,
            "image/width": record.width,
        }
    )


def decode_classification(record: Record) -> ClassificationRecord:
    """Read TF-slim's keys. A missing label is an error: a default would train silently on a wrong class.

    Raises:
        SchemaError: the payload is no Example, or lacks the image or the label.
    """
    fields = Fields(record.payload, record.origin)
    return ClassificationRecord(
        image=fields.first_bytes("image/encoded"),
        label=fields.first_int("image/class/label"),
        name=_text(fields, "image/filename"),
        format=_text(fields, "image/format"),
        height=fields.first_int("image/height", 0),
        width=fields.first_int("image/width", 0),
        text=_text(fields, "image/class/text"),
    )


def decode_name(record: Record) -> str:
    """The name of the picture in a record of any task; "" where it has none.

    Raises:
        SchemaError: the payload is no Example.
    """
    return _text(Fields(record.payload, record.origin), "image/filename")


def _text(fields: Fields, name: str) -> str:
    try:
        return fields.first_bytes(name, b"").decode()
    except UnicodeDecodeError as error:
        raise SchemaError(
            fields.origin,
            expected=f"field {name} as UTF-8 text",
            found=f"bytes that are not ({error.reason} at byte {error.start})",
            remedy="Check which program wrote the record",
        ) from error
