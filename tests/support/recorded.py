"""Records made of what they are to hold."""

from __future__ import annotations

from penstock.kinds.fields import (
    ClassificationRecord,
    DetectionRecord,
    SegmentationRecord,
    encode_classification,
    encode_detection,
    encode_segmentation,
)
from penstock.values import Record

_ENCODE = {
    SegmentationRecord: encode_segmentation,
    ClassificationRecord: encode_classification,
    DetectionRecord: encode_detection,
}


def recorded(content, origin):
    """The record of a value, as a source would give it."""
    return Record(origin, _ENCODE[type(content)](content))
