"""What a user may say of a folder of raw images: the options that inspect and pack share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from cyclopts import Parameter, validators

from penstock.cli.options import TASKS
from penstock.errors import DatasetError

_IGNORED: Final = 255
_NAMES: Final = {"mapping": "--map"}
"""Of options that are not called as their fields are."""

Some = validators.Number(gte=1)
Natural = validators.Number(gte=0)


@Parameter(name="*")
@dataclass(frozen=True)
class RawArguments:
    """The options, as they are typed."""

    classes: Annotated[
        str, Parameter(help="Class names in the order of their ids: 'sky,road,car', or a file with one per line.")
    ] = ""
    ignore: Annotated[
        int,
        Parameter(validator=validators.Number(gte=0, lte=255), help="Ignore label: id of pixels that do not count."),
    ] = _IGNORED
    mapping: Annotated[
        list[str] | None,
        Parameter(name="--map", help="Change an id of the raw masks before anything else: OLD=NEW. May be repeated."),
    ] = None
    images: Annotated[str, Parameter(help="Folder of images, if it is not detected. Needs --masks.")] = ""
    masks: Annotated[str, Parameter(help="Folder of masks, if it is not detected. Needs --images.")] = ""
    palette: Annotated[
        bool, Parameter(help="Masks are palette PNGs, and the indices of their pixels are the class ids.")
    ] = False
    rater: Annotated[
        str, Parameter(help="Rater whose masks are used, if several raters have drawn them: a name, or 'majority'.")
    ] = ""
    group: Annotated[
        str,
        Parameter(
            help="Regular expression for the part of a file name that names a group, such as 'patient[0-9]+'. A group "
            "is never divided between splits. By default each folder is a group."
        ),
    ] = ""
    mask_threshold: Annotated[
        int,
        Parameter(
            validator=validators.Number(gte=0, lte=255),
            help="For black and white masks, such as JPEG files: pixels with this gray value or more are class 1, all "
            "others class 0. By default masks hold class ids.",
        ),
    ] = 0
    colors: Annotated[
        Path | None,
        Parameter(help="Legend of masks in colour: a CSV file with columns name, r, g, b, or labelmap.txt of CVAT."),
    ] = None
    layout: Annotated[str, Parameter(help="Dataset layout: voc, coco, ..., or FILE.py:NAME. Detected by default.")] = ""
    task: Annotated[str, Parameter(help=f"Task to pack for, if the folder has labels for several: {TASKS}.")] = ""
    pattern: Annotated[
        str, Parameter(help="Regular expression that finds the class in file names: '(?P<label>[a-z]+)_'.")
    ] = ""
    boxes: Annotated[
        Literal["xyxy", "xywh"] | None,
        Parameter(
            help="Format of boxes: xyxy (two corners) or xywh (a corner and a size). By default the format is inferred "
            "and printed."
        ),
    ] = None
    clip_boxes: Annotated[
        bool,
        Parameter(help="Cut boxes that reach outside their image at its edges. By default a problem."),
    ] = False
    trust_image_size: Annotated[
        bool,
        Parameter(help="Take images of another size than their annotations state. By default a problem."),
    ] = False
    evaluate_only: Annotated[bool, Parameter(help="The data is only for evaluation and needs no training images.")] = (
        False
    )
    limit: Annotated[
        int,
        Parameter(
            validator=Natural, help="Largest number of images of each split, to try something on a part; 0: all."
        ),
    ] = 0
    max_side: Annotated[
        int,
        Parameter(
            validator=Natural, help="Make images smaller, so that no side is longer than this, in pixels; 0: never."
        ),
    ] = 0
    value_range: Annotated[
        tuple[float, float] | None,
        Parameter(
            help="Values of TIFF and DICOM images that become 0 and 65535, such as '-160 240' for Hounsfield units. By "
            "default values of TIFF images must be whole numbers from 0 to 65535 and stay as they are, and DICOM "
            "images have the range that their headers allow."
        ),
    ] = None
    quality: Annotated[
        int,
        Parameter(
            validator=validators.Number(gte=0, lte=100),
            help="Write images anew as JPEG of this quality, 1 to 100. By default they stay as they are.",
        ),
    ] = 0
    seekable: Annotated[
        bool,
        Parameter(
            help="Write JPEG images anew with restart markers, so that training decodes the crops of large images "
            "alone.",
        ),
    ] = False
    field: Annotated[
        list[str] | None,
        Parameter(
            name="--field",
            help="Name of a field of TFRecords, or of a column of a CSV file, that is not recognised: image=NAME, "
            "label=NAME, mask=NAME, xmin=NAME and so on. May be repeated.",
        ),
    ] = None
    validation: Annotated[
        float,
        Parameter(
            name=["--validation", "--val"],
            validator=validators.Number(gte=0, lt=1),
            help="Fraction of train to set aside as val.",
        ),
    ] = 0.0
    skip_bad: Annotated[bool, Parameter(help="Leave out images with problems, and list them.")] = False
    threads: Annotated[int, Parameter(validator=Natural, help="Number of threads; 0: one per core, at least four.")] = 0

    def given(self) -> dict[str, Any]:
        """What is said of the folder, as `ps.inspect` takes it.

        Raises:
            DatasetError: --field or --map is no pair.
        """
        others = {"mapping", "field", "boxes", "colors", "validation", "skip_bad"}
        plain = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in others}
        named = {"mapping": _mapping(self.mapping or []), "fields": _fields(self.field)}
        return {**plain, **named, "boxes": self.boxes or "", "colors": self.colors or ""}

    def refuse_for_topic(self, *others: str) -> None:
        """A topic says by itself what lies in it.

        Raises:
            DatasetError: options of a folder were given.
        """
        changed = [each for each in fields(self) if each.name != "threads" and getattr(self, each.name) != each.default]
        names = [_NAMES.get(each.name, f"--{each.name.replace('_', '-')}") for each in changed]
        if named := [*names, *others]:
            raise DatasetError(
                ", ".join(named),
                remedy=f"Remove {' and '.join(named)}",
                message=f"{' and '.join(named)} cannot be given for a topic, which has its own description.",
            )


NOTHING_GIVEN: Final = RawArguments()


def _fields(texts: list[str] | None) -> dict[str, str]:
    """What --field says: names of fields by what they hold."""
    pairs = [text.partition("=") for text in texts or []]
    if wrong := [text for text, (name, _, field) in zip(texts or [], pairs, strict=True) if not (name and field)]:
        raise DatasetError(
            "--field", expected="WHAT=NAME", found=wrong[0], remedy="Write for example --field image=img"
        )
    return {name: field for name, _, field in pairs}


def _mapping(texts: list[str]) -> dict[int, int]:
    """What --map says: new ids by old ones."""
    pairs = dict(map(_pair, texts))
    if len(pairs) != len(texts):
        raise DatasetError(
            "--map", expected="every old id once", found=", ".join(texts), remedy="Remove one of the two"
        )
    return pairs


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
