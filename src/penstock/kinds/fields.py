"""The fields of a record, kind by kind, with the keys of TensorFlow's DeepLab and TF-slim.

Detection: research/object_detection/dataset_tools/create_coco_tf_record.py, whose labels begin with 1. Segmentation:
research/deeplab/datasets/build_data.py. Classification: research/slim/datasets/dataset_utils.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import SchemaError
from penstock.records.example import Fields, Value, encode
from penstock.values import Object, Record


@dataclass(frozen=True, slots=True)
class SegmentationRecord:
    """An encoded image and its encoded mask of class ids; sizes in pixels as stored, before EXIF orientation.

    Of a volume both hold its slices below one another, `slices` of them; 0 is an image.
    """

    image: bytes
    mask: bytes
    name: str
    format: str
    height: int
    width: int
    slices: int = 0


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


@dataclass(frozen=True, slots=True)
class DetectionRecord:
    """An encoded image and its objects; `height` and `width` are the upright image's, in pixels."""

    image: bytes
    objects: tuple[Object, ...]
    name: str
    format: str
    height: int
    width: int


def encode_segmentation(record: SegmentationRecord) -> bytes:
    """The payload with DeepLab's eight keys, and `image/slices` for volumes. DeepLab writes 3 as `image/channels`."""
    return encode(
        {
            **({"image/slices": record.slices} if record.slices else {}),
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
        slices=fields.first_int("image/slices", 0),
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


def encode_detection(record: DetectionRecord) -> bytes:
    """The payload with the keys of TensorFlow's Object Detection API: edges in fractions of height and width."""
    objects, height, width = record.objects, record.height, record.width
    image: dict[str, Value] = {
        "image/encoded": record.image,
        "image/filename": record.name,
        "image/source_id": record.name,
        "image/format": record.format,
        "image/height": height,
        "image/width": width,
    }
    if not objects:  # an empty list has no type
        return encode(image)
    return encode(
        {
            **image,
            "image/object/bbox/xmin": [each.left / width for each in objects],
            "image/object/bbox/xmax": [each.right / width for each in objects],
            "image/object/bbox/ymin": [each.top / height for each in objects],
            "image/object/bbox/ymax": [each.bottom / height for each in objects],
            "image/object/class/label": [each.label + 1 for each in objects],
            "image/object/class/text": [each.text.encode() for each in objects],
            "image/object/is_crowd": [int(each.crowd) for each in objects],
            "image/object/difficult": [int(each.difficult) for each in objects],
            **({"image/object/mask": [each.mask for each in objects]} if any(each.mask for each in objects) else {}),
        }
    )


def decode_detection(record: Record) -> DetectionRecord:
    """Read the Object Detection API's keys; an image without objects has none of their keys, or empty ones.

    Raises:
        SchemaError: the payload is no Example, lacks the image or its size, or says more of some objects than others.
    """
    fields = Fields(record.payload, record.origin)
    height, width = fields.first_int("image/height"), fields.first_int("image/width")
    edges = [fields.floats(f"image/object/bbox/{edge}") for edge in ("xmin", "ymin", "xmax", "ymax")]
    labels = fields.ints("image/object/class/label")
    lengths = {len(labels), *map(len, edges)}
    if len(lengths) > 1 or min(height, width) < 1:
        raise SchemaError(
            record.origin,
            expected="a size, and for every object four edges (image/object/bbox/...) and a label",
            found=f"{height} x {width}, {', '.join(str(len(edge)) for edge in edges)} edges and {len(labels)} labels",
            remedy="Correct the program that wrote the record",
        )
    crowd, difficult = (_filled(fields.ints(f"image/object/{name}"), len(labels)) for name in ("is_crowd", "difficult"))
    masks = fields.all_bytes("image/object/mask")
    masks = masks if len(masks) == len(labels) else [b""] * len(labels)
    texts = [text.decode(errors="replace") for text in fields.all_bytes("image/object/class/text")]
    texts += [""] * (len(labels) - len(texts))
    rows = zip(labels, *edges, texts, crowd, difficult, masks, strict=False)
    return DetectionRecord(
        fields.first_bytes("image/encoded"),
        tuple(
            Object(label - 1, x1 * width, y1 * height, x2 * width, y2 * height, text, bool(many), bool(hard), mask)
            for label, x1, y1, x2, y2, text, many, hard, mask in rows
        ),
        _text(fields, "image/filename"),
        _text(fields, "image/format"),
        height,
        width,
    )


def _filled(values: list[int], count: int) -> list[int]:
    return values if len(values) == count else [0] * count


def decode_name(record: Record) -> str:
    """The name of the image in a record of any task; "" where it has none.

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
            remedy="Correct the program that wrote the record",
        ) from error
