"""What a record holds, kind by kind: its fields, its checks, its counts, its drawing. Nothing here knows torch.

base.py            Kind, the contract
fields.py          the fields of a record, with the keys of TensorFlow's DeepLab and TF-slim
items.py           an item of a folder, what masks mean, what was found, what is wrong
masks.py           what kinds with a mask share
segmentation.py    an image and a mask of class ids
matting.py         an image and an alpha matte
classification.py  an image and a class
detection.py       an image and boxes
instances.py       an image and objects with their pixels
shrinking.py       labels of images that are made smaller
boxes.py           whether boxes make sense
labels.py          a record's mask and boxes against its image and its classes
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from penstock.custom import import_path_of, load, load_admitted
from penstock.errors import RecipeError
from penstock.extending import Extended
from penstock.kinds.base import TILE, Counts, Kind
from penstock.kinds.classification import ClassificationKind
from penstock.kinds.detection import DetectionKind
from penstock.kinds.instances import InstancesKind
from penstock.kinds.items import Box, FilePart, InspectedItem, Item, Labels, Problem, hashed, named, sentence
from penstock.kinds.matting import MattingKind
from penstock.kinds.segmentation import SegmentationKind

_BUILT_IN: Final = (SegmentationKind, MattingKind, ClassificationKind, DetectionKind, InstancesKind)
KINDS: Final[Extended[Kind]] = Extended({kind.name: kind() for kind in _BUILT_IN}, "KINDS")
"""The built-in kinds and those of extensions, by their names."""


def find_kind(name: str, folder: Path | str = "") -> Kind:
    """A kind of record: a built-in one, or a custom one at a place.

    Args:
        name: of a kind, or a place.
        folder: the run or dataset that carries the file of the place, and whose code was checked; "" where the place is
            the user's.

    Raises:
        RecipeError: there is none of that name, or what is at the place is no kind.
    """
    place = import_path_of(name)
    if place is None:
        if name not in KINDS:
            raise RecipeError(
                "task", expected=f"one of {', '.join(KINDS)}, or FILE.py:NAME", found=name, remedy="Choose one of them"
            )
        return KINDS[name]
    found = load_admitted(Path(folder), place, "task") if folder else load(place, "task")
    kind = found() if isinstance(found, type) else found
    if not isinstance(kind, Kind):
        raise RecipeError(
            f"task = {place}", expected="a penstock.kinds.Kind", found=type(kind).__name__, remedy="Derive it from Kind"
        )
    return kind


__all__ = [
    "KINDS",
    "TILE",
    "Box",
    "Counts",
    "FilePart",
    "InspectedItem",
    "InstancesKind",
    "Item",
    "Kind",
    "Labels",
    "Problem",
    "find_kind",
    "hashed",
    "named",
    "sentence",
]
