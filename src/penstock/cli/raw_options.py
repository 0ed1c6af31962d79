"""What a user may say of a folder of raw images: the options that inspect and pack share."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter, validators

from penstock.datasets import How, Labels
from penstock.datasets.class_lists import check_names, names_in_file
from penstock.datasets.layouts.legend import read as read_legend
from penstock.errors import DatasetError
from penstock.kinds import KINDS

_IGNORED: Final = 255
_NAMES: Final = {"mapping": "--map"}
"""Of options that are not called as their fields are."""

Classes = Annotated[
    str, Parameter(help="Class names in the order of their ids: 'sky,road,car', or a file with one per line.")
]
Ignore = Annotated[
    int, Parameter(validator=validators.Number(gte=0, lte=255), help="Ignore label: id of pixels that do not count.")
]
Some = validators.Number(gte=1)
Any = validators.Number(gte=0)
Map = Annotated[
    list[str],
    Parameter(name="--map", help="Change an id of the raw masks before anything else: OLD=NEW. May be repeated."),
]
Colors = Annotated[
    Path | None,
    Parameter(help="Legend of masks in colour: a CSV file with columns name, r, g, b, or labelmap.txt of CVAT."),
]
MaskThreshold = Annotated[
    int,
    Parameter(
        validator=validators.Number(gte=0, lte=255),
        help="For black and white masks, such as JPEG files: pixels with this gray value or more are class 1, all "
        "others class 0. By default masks hold class ids.",
    ),
]
Palette = Annotated[
    bool,
    Parameter(negative="", help="Masks are palette PNGs, and the indices of their pixels are the class ids."),
]
Images = Annotated[str, Parameter(help="Folder of images, where it is not found by itself; with --masks.")]
Masks = Annotated[str, Parameter(help="Folder of masks, where it is not found by itself; with --images.")]
Group = Annotated[
    str,
    Parameter(
        help="Regular expression that finds in file names what images have in common that belong together, such as "
        "'patient[0-9]+'. They are never divided between splits. By default the images of a folder belong together."
    ),
]
Rater = Annotated[
    str,
    Parameter(help="Whose masks are taken, where several raters have drawn them: a name, or 'majority'."),
]
LayoutName = Annotated[str, Parameter(help="Dataset layout: voc, coco, ..., or FILE.py:NAME. Detected by default.")]
Task = Annotated[str, Parameter(help=f"Task to pack for, if the folder has labels for several: {', '.join(KINDS)}.")]
Boxes = Annotated[
    Literal["xyxy", "xywh"],
    Parameter(
        help="Format of boxes: xyxy (two corners) or xywh (a corner and a size). By default the format is inferred "
        "and printed."
    ),
]
ClipBoxes = Annotated[
    bool, Parameter(negative="", help="Cut boxes that reach outside their image at its edges. By default a problem.")
]
TrustImageSize = Annotated[
    bool,
    Parameter(negative="", help="Take images of another size than their annotations state. By default a problem."),
]
Pattern = Annotated[str, Parameter(help="Regular expression that finds the class in file names: '(?P<label>[a-z]+)_'.")]
FieldNames = Annotated[
    list[str],
    Parameter(
        name="--field",
        help="Field of TFRecords, or column of a CSV file, with a name of its own: image=NAME, and label=NAME, "
        "mask=NAME or xmin=NAME and so on. May be repeated.",
    ),
]
LimitEach = Annotated[
    int, Parameter(validator=Any, help="Largest number of images of each split, to try something on a part; 0: all.")
]
MaxSide = Annotated[
    int, Parameter(validator=Any, help="Make images smaller, so that no side is longer than this, in pixels; 0: never.")
]
ValueRange = Annotated[
    tuple[float, float],
    Parameter(
        help="Values of TIFF and DICOM images that become 0 and 65535, such as '-160 240' for Hounsfield units. By "
        "default values of TIFF images must be whole numbers from 0 to 65535 and stay as they are, and DICOM images "
        "have the range that their headers allow.",
    ),
]
Quality = Annotated[
    int,
    Parameter(
        validator=validators.Number(gte=0, lte=100),
        help="Write images anew as JPEG of this quality, 1 to 100. By default they stay as they are.",
    ),
]
Seekable = Annotated[
    bool,
    Parameter(
        negative="",
        help="Write JPEG images anew with restart markers, so that training decodes the crops of large images alone.",
    ),
]
EvaluateOnly = Annotated[
    bool, Parameter(negative="", help="The data is only for evaluation and needs no training images.")
]
Validation = Annotated[
    float,
    Parameter(
        name=["--validation", "--val"],
        validator=validators.Number(gte=0, lt=1),
        help="Fraction of train to set aside as val.",
    ),
]
SkipBad = Annotated[bool, Parameter(help="Leave out images with problems, and list them.", negative="")]
Threads = Annotated[int, Parameter(validator=Some, help="Number of threads.")]


@Parameter(name="*")
@dataclass(frozen=True)
class RawOptions:
    """The options, as they are typed."""

    classes: Classes = ""
    ignore: Ignore = _IGNORED
    mapping: Map | None = None
    images: Images = ""
    masks: Masks = ""
    palette: Palette = False
    rater: Rater = ""
    group: Group = ""
    mask_threshold: MaskThreshold = 0
    colors: Colors | None = None
    layout: LayoutName = ""
    task: Task = ""
    pattern: Pattern = ""
    boxes: Boxes | None = None
    clip_boxes: ClipBoxes = False
    trust_image_size: TrustImageSize = False
    evaluate_only: EvaluateOnly = False
    limit: LimitEach = 0
    max_side: MaxSide = 0
    value_range: ValueRange | None = None
    quality: Quality = 0
    seekable: Seekable = False
    field: FieldNames | None = None
    validation: Validation = 0.0
    skip_bad: SkipBad = False
    threads: Threads = 4

    def how(self) -> How:
        """How the folder is read.

        Raises:
            DatasetError: --field is no pair.
        """
        return How(
            self.layout, self.task, self.pattern, self.boxes or "", self.evaluate_only, self.limit,
            _fields(self.field), self.max_side, self.value_range, self.quality, self.seekable,
            self.images, self.masks, self.group, self.rater,
        )  # fmt: skip

    def labels(self) -> Labels:
        """What masks mean.

        Raises:
            DatasetError: --classes, --map or --colors is wrong.
        """
        mapping = self.mapping or []
        pairs = dict(map(_pair, mapping))
        if len(pairs) != len(mapping):
            raise DatasetError(
                "--map", expected="every old id once", found=", ".join(mapping), remedy="Remove one of the two"
            )
        stated = _legend(self.colors) if self.colors else Labels()
        given = Labels(
            _class_names(self.classes), self.ignore, pairs, palette=self.palette, threshold=self.mask_threshold
        ).over(stated)
        return replace(given, clip_boxes=self.clip_boxes, trust_size=self.trust_image_size)

    def refuse_for_topic(self, *others: str) -> None:
        """A topic says by itself what lies in it.

        Args:
            others: further options that were given.

        Raises:
            DatasetError: options of a folder were given.
        """
        changed = [each for each in fields(self) if each.name != "threads" and getattr(self, each.name) != each.default]
        names = [_NAMES.get(each.name, f"--{each.name.replace('_', '-')}") for each in changed]
        if named := [*names, *others]:
            raise DatasetError(
                ", ".join(named),
                expected="a folder",
                found="a topic",
                remedy=f"Remove {' and '.join(named)}",
                message=f"{' and '.join(named)} cannot be given for a topic, which has its own description. "
                f"Remove {' and '.join(named)}.",
            )


NOTHING_GIVEN: Final = RawOptions()


def _fields(texts: list[str] | None) -> dict[str, str]:
    """What --field says: names of fields by what they hold."""
    pairs = [text.partition("=") for text in texts or []]
    if wrong := [text for text, (name, _, field) in zip(texts or [], pairs, strict=True) if not (name and field)]:
        raise DatasetError(
            "--field",
            expected="WHAT=NAME",
            found=wrong[0],
            remedy="Write for example --field image=img",
        )
    return {name: field for name, _, field in pairs}


def _class_names(classes: str) -> tuple[str, ...]:
    """The names that --classes lists, or that stand in the file that it names."""
    if classes and os.path.isfile(classes):  # noqa: PTH113 - a long list is no name that a Path would take
        return names_in_file(Path(classes))
    if "," not in classes and Path(classes).suffix in {".txt", ".csv", ".names"}:
        raise DatasetError(classes, expected="a file of class names", found="no such file", remedy="Check the path")
    return check_names([name.strip() for name in classes.split(",")], "--classes") if classes else ()


def _legend(colors: Path) -> Labels:
    if not colors.is_file():
        raise DatasetError(f"--colors {colors}", expected="a legend", found="no such file", remedy="Check the path")
    return read_legend(colors)


def _pair(text: str) -> tuple[int, int]:
    try:
        old, new = (int(part) for part in text.split("="))
        bytes((old, new))
    except ValueError:
        raise DatasetError(
            f"--map {text}",
            expected="OLD=NEW, two ids from 0 to 255",
            found=text,
            remedy="Write for example --map 255=1",
        ) from None
    return old, new
