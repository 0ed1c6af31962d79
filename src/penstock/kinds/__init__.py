"""What a record holds, kind by kind: its fields, its checks, its counts, its drawing. Nothing here knows torch.

base.py            Kind, the contract
items.py           an item of a folder, what masks mean, what was found, what is wrong
masks.py           what kinds with a mask share
segmentation.py    an image and a mask of class ids
matting.py         an image and an alpha matte
classification.py  an image and a class
detection.py       an image and boxes
volumes.py         a volume and its labels
boxes.py           whether boxes make sense
labels.py          a record's mask and boxes against its image and its classes
"""

from __future__ import annotations

from typing import Final

from penstock.kinds.base import Counts, Described, Kind
from penstock.kinds.classification import ClassificationKind
from penstock.kinds.detection import DetectionKind
from penstock.kinds.items import Box, Facts, Item, Labels, Made, Problem
from penstock.kinds.matting import MattingKind
from penstock.kinds.segmentation import SegmentationKind
from penstock.kinds.volumes import VolumesKind

KINDS: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (SegmentationKind(), MattingKind(), ClassificationKind(), DetectionKind(), VolumesKind())
}
"""The built-in kinds, by their names."""

__all__ = [
    "KINDS",
    "Box",
    "ClassificationKind",
    "Counts",
    "Described",
    "DetectionKind",
    "Facts",
    "Item",
    "Kind",
    "Labels",
    "Made",
    "MattingKind",
    "Problem",
    "SegmentationKind",
    "VolumesKind",
]
