"""What a user says of a folder of raw data, beside what lies in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class LayoutOptions:
    """Options for the layout of a folder of raw data.

    Attributes:
        layout: a name of `catalogue.layouts`, or the place FILE.py:NAME of a function of a folder; "" detects it.
        task: kind of record to pack the folder for, by its name, if the folder has labels for several kinds; ""
            takes the first.
        pattern: a regular expression that finds `label`, and perhaps `split`, in the names of images.
        boxes: what the four numbers of a box are, where they have no names of their own: corners, or a corner and a
            size; "" tells it from the file.
        evaluate_only: whether the data is not for training, and needs no split train.
        fields: of TFRecords and CSV files with names of their own: the names of the fields or columns by what they hold
            (`tfrecords.recognise_fields`, `columns.check_fields`).
        max_side: pixels of the longer side that images are made smaller to; 0 leaves them as they are.
        value_range: the values of TIFF and DICOM images that become 0 and 65535; None takes them as they are.
        quality: of JPEG, from 1 to 100, that images are written anew with; 0 leaves them as they are.
        seekable: whether JPEG images are written anew with restart markers.
        limit: the largest number of images of each split, spread evenly over them; 0 takes all.
        images: the folder of images, and `masks` that of their masks, below the folder or anywhere.
        masks: as `images`; neither is given without the other.
        group: a regular expression that finds, in the names of images, what those have in common that stay together.
        rater: whose masks are taken where several have drawn them; "majority" takes the most frequent value of a pixel.
    """

    layout: str = ""
    task: str = ""
    pattern: str = ""
    boxes: Literal["", "xyxy", "xywh"] = ""
    evaluate_only: bool = False
    limit: int = 0
    fields: Mapping[str, str] = field(default_factory=dict)
    max_side: int = 0
    value_range: tuple[float, float] | None = None
    quality: int = 0
    seekable: bool = False
    images: str = ""
    masks: str = ""
    group: str = ""
    rater: str = ""
