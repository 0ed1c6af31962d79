"""inspect, pack."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter, validators

from penstock import outputs
from penstock.cli.describing import SHOWN, describe, left_out, notes_on, taken_as, warn
from penstock.datasets import How, Labels, PackOptions, locate
from penstock.datasets import inspect as inspect_folder
from penstock.datasets import pack as pack_folder
from penstock.datasets.class_lists import check_names, names_in_file
from penstock.datasets.duplicates import pairs_of
from penstock.datasets.inspection import grouped
from penstock.datasets.layouts.legend import read as read_legend
from penstock.errors import DatasetError
from penstock.kinds import KINDS
from penstock.progress import Progress, counted

if TYPE_CHECKING:
    from penstock.datasets import Inspection
    from penstock.datasets.description import Description

_IGNORED: Final = 255
_DUPLICATES = "penstock inspect --draw-duplicates"
_PAIRS = 24  # of near-duplicates in a drawing

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


def inspect(
    folder: Annotated[str, Parameter(help="A folder of raw images, or a topic: kafka://HOST:PORT/TOPIC.")], /, *,
    classes: Classes = "", ignore: Ignore = _IGNORED, mapping: Map | None = None,
    images: Images = "", masks: Masks = "", palette: Palette = False, rater: Rater = "", group: Group = "",
    mask_threshold: MaskThreshold = 0, colors: Colors | None = None, layout: LayoutName = "", task: Task = "",
    pattern: Pattern = "", boxes: Boxes | None = None, clip_boxes: ClipBoxes = False,
    trust_image_size: TrustImageSize = False,
    evaluate_only: EvaluateOnly = False, limit: LimitEach = 0, max_side: MaxSide = 0,
    value_range: ValueRange | None = None, quality: Quality = 0, seekable: Seekable = False,
    field: FieldNames | None = None,
    validation: Validation = 0.0, skip_bad: SkipBad = False,
    draw_duplicates: Annotated[
        Path | None, Parameter(help="PNG file to draw images outside train in that look nearly like training images.")
    ] = None,
    threads: Threads = 4,
) -> int:  # fmt: skip
    """Report the contents and the problems of a folder of raw images.

    Exits with 1 where packing would be refused.
    """
    if locate(folder).remote:
        from penstock.cli.topics import describe as describe_topic

        _refuse_for_topic(
            {"--classes": classes, "--ignore": ignore != _IGNORED, "--map": mapping,
             "--images": images, "--masks": masks, "--palette": palette, "--rater": rater, "--group": group,
             "--mask-threshold": mask_threshold,
             "--colors": colors, "--layout": layout, "--task": task, "--pattern": pattern, "--boxes": boxes,
             "--clip-boxes": clip_boxes, "--trust-image-size": trust_image_size,
             "--evaluate-only": evaluate_only, "--limit": limit, "--field": field,
             "--max-side": max_side, "--value-range": value_range, "--quality": quality,
             "--seekable": seekable, "--draw-duplicates": draw_duplicates,
             "--validation": validation, "--skip-bad": skip_bad}
        )  # fmt: skip
        print(describe_topic(folder))
        return 0
    how = How(
        layout, task, pattern, boxes or "", evaluate_only, limit, _fields(field), max_side, value_range,
        quality, seekable, images=images, masks=masks, group=group, rater=rater,
    )  # fmt: skip
    labels = _labels(classes, ignore, mapping, colors, mask_threshold, palette=palette)
    if draw_duplicates:
        outputs.check(draw_duplicates, _DUPLICATES, (".png",))
    found = _inspect(Path(folder), replace(labels, clip_boxes=clip_boxes, trust_size=trust_image_size), how, threads)
    found = _parted(found, validation, skip_bad=skip_bad)
    print(describe(found))
    if draw_duplicates:
        print(_drawn_duplicates(found, draw_duplicates))
    if skip_bad and not found.items:
        print("nothing is left to pack")
        return 1
    return 1 if found.fatal else 0


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


def _drawn_duplicates(found: Inspection, output: Path) -> str:
    pairs = pairs_of(found.items)
    if not pairs:
        return "no image outside train looks nearly like a training image: nothing is drawn"
    from penstock.report.sheets import duplicates_sheet, encode

    outputs.write(output, encode(duplicates_sheet(pairs, found.folder, _PAIRS)), _DUPLICATES)
    return f"drawn {output} ({min(len(pairs), _PAIRS)} of {counted(len(pairs), 'pair')})"


def pack(
    folder: Annotated[Path, Parameter(help="A folder of raw images.")], /, *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Folder to fill.")], classes: Classes = "",
    ignore: Ignore = _IGNORED, mapping: Map | None = None,
    images: Images = "", masks: Masks = "", palette: Palette = False, rater: Rater = "", group: Group = "",
    mask_threshold: MaskThreshold = 0, colors: Colors | None = None, layout: LayoutName = "", task: Task = "",
    pattern: Pattern = "", boxes: Boxes | None = None, clip_boxes: ClipBoxes = False,
    trust_image_size: TrustImageSize = False,
    evaluate_only: EvaluateOnly = False, limit: LimitEach = 0, max_side: MaxSide = 0,
    value_range: ValueRange | None = None, quality: Quality = 0, seekable: Seekable = False,
    field: FieldNames | None = None,
    validation: Validation = 0.0, skip_bad: SkipBad = False,
    shard_size: Annotated[int, Parameter(validator=Some, help="Approximate size of a shard in MiB.")] = 64,
    threads: Threads = 4,
) -> None:  # fmt: skip
    """Pack a folder of raw images into TFRecord shards.

    Refuses data with problems. Packing the same data again writes nothing; a pack that was killed goes on.
    """
    how = How(
        layout, task, pattern, boxes or "", evaluate_only, limit, _fields(field), max_side, value_range,
        quality, seekable, images=images, masks=masks, group=group, rater=rater,
    )  # fmt: skip
    labels = _labels(classes, ignore, mapping, colors, mask_threshold, palette=palette)
    found = _inspect(folder, replace(labels, clip_boxes=clip_boxes, trust_size=trust_image_size), how, threads)
    found = _parted(found, validation, skip_bad=skip_bad)
    print(taken_as(found))
    read = found.layout.reasons[1:] if found.layout.kind.shows_boxes_read else ()  # how boxes were read
    notes = [*(f"note: {reason}" for reason in read), *left_out(found.layout), *notes_on(found)]
    notes += grouped([problem for problem in found.problems if not problem.fatal], SHOWN)
    if found.items and notes:
        print(*notes, sep="\n")
    with Progress("pack", "records") as progress:
        options = PackOptions(shard_bytes=shard_size << 20, threads=threads)
        dataset = pack_folder(found, output, options, progress=progress)
    described = dataset.description
    for name, split in described.splits.items():
        print(f"{name}: {counted(split.records, 'record')} in {counted(len(split.shards), 'shard')}")
    if validation:
        print(_set_aside(described))
    ignored = f"ignore label {described.ignore_label}, " if described.kind.ignores else ""
    print(f"{counted(len(described.classes), 'class')}, {ignored}fingerprint {described.content}")
    print(f"dataset {output}")


def _set_aside(described: Description) -> str:
    """How much of each class is in val, of many classes the first ones."""
    counts = dict(zip(described.classes, described.splits["val"].per_class, strict=True))
    shown = [f"{name} {count:,}" for name, count in counts.items()][:SHOWN]
    more = ", ..." if len(counts) > SHOWN else ""
    missing = sum(count == 0 for count in counts.values())
    none = f". Nothing in it is of {counted(missing, 'class')}" if missing else ""
    return f"in val, {counted(2, described.kind.unit).split()[1]} by class: {', '.join(shown)}{more}{none}"


def _parted(found: Inspection, validation: float, *, skip_bad: bool) -> Inspection:
    """The inspection without what has problems, and with a split val, where that is wanted."""
    if skip_bad and found.fatal:
        found = _without_bad(found)
    return found.divided(validation) if validation else found


def _without_bad(found: Inspection) -> Inspection:
    """The inspection without what has problems, once that is named."""
    sound = found.sound()
    single = [problem for problem in found.fatal if not problem.whole]
    for problem in single:
        print(f"skipped: {problem.file} ({problem.kind})")
    known = found.files
    others = sum(problem.file not in known for problem in single)
    more = f", and {counted(others, 'other entry')}" if others else ""
    print(f"skipped {len(found.items) - len(sound.items)} of {counted(len(found.items), 'image')}{more}")
    for split, items in found.splits.items():
        if sound.items and split not in sound.splits:
            print(f"note: nothing is left of {split}, which had {counted(len(items), 'image')} with problems")
    return sound


def _inspect(folder: Path, labels: Labels, how: How, threads: int) -> Inspection:
    with Progress("inspect", "images") as progress:
        return inspect_folder(folder, labels, how=how, threads=threads, progress=progress, on_layout=warn)


def _refuse_for_topic(given: dict[str, object]) -> None:
    """A topic says by itself what lies in it."""
    if named := [option for option, value in given.items() if value]:
        raise DatasetError(
            ", ".join(named),
            expected="a folder",
            found="a topic",
            remedy=f"Remove {' and '.join(named)}",
            message=f"{' and '.join(named)} cannot be given for a topic, which has its own description. "
            f"Remove {' and '.join(named)}.",
        )


def _labels(
    classes: str, ignore: int, mapping: list[str] | None, colors: Path | None, threshold: int, *, palette: bool
) -> Labels:
    names_file = bool(classes) and os.path.isfile(classes)  # noqa: PTH113 - a long list is no name that a Path would take
    if names_file:
        names = names_in_file(Path(classes))
    else:
        names = check_names([name.strip() for name in classes.split(",")], "--classes") if classes else ()
    elsewhere = Path(classes).suffix in {".txt", ".csv", ".names"} if "," not in classes else False
    if elsewhere and not names_file:
        raise DatasetError(classes, expected="a file of class names", found="no such file", remedy="Check the path")
    pairs = dict(_pair(text) for text in mapping or [])
    if len(pairs) != len(mapping or []):
        raise DatasetError(
            "--map", expected="every old id once", found=", ".join(mapping or []), remedy="Remove one of the two"
        )
    stated = _legend(colors) if colors else Labels()
    return Labels(names, ignore, pairs, palette=palette, threshold=threshold).over(stated)


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
