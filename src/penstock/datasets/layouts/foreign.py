"""Formats of annotations that no layout reads: they are called by their name, and not by that of another format."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.errors import DatasetError

_HEAD: Final = 1 << 16  # bytes of a file that show its format
_OPENED: Final = 200  # files
_BY_NAMES: Final = {
    "one folder per class": "folders",
    "image and mask folders": "masks",
    "images and masks in one folder": "named-masks",
    "CSV": "csv",
    "lists of labels": "csv",
}
"""Layouts that may come about beside annotations of another format, and what --layout calls them."""
_CUSTOM: Final = "describe the layout in a file of your own with --layout FILE.py:NAME (docs/layouts.md)"
_EXPORT: Final = f"Export the data as COCO from the tool that has written it, or {_CUSTOM}"


class _Format(NamedTuple):
    """A format by its files.

    Attributes:
        name: as people call it.
        files: of paths below the folder.
        begins: of what such a file begins with.
        remedy: a sentence without its full stop.
        beside: the only layout beside which it is called by its name; "" for all, and for none.
    """

    name: str
    files: re.Pattern[str]
    begins: re.Pattern[bytes]
    remedy: str
    beside: str = ""


def _format(name: str, files: str, begins: bytes, remedy: str, beside: str = "") -> _Format:
    return _Format(name, re.compile(files, re.IGNORECASE), re.compile(begins, re.DOTALL), remedy, beside)


_NUMBER: Final = rb"-?\d+(\.\d+)?"
_FRACTION: Final = rb"([01]|[01]?\.\d+(e-\d+)?)"
_FORMATS: Final = (
    _format("Datumaro's JSON", r"\.json$", rb'.*"dm_format_version"|(?=.*"info").*"categories".*"items"', _EXPORT),
    _format("V7 Darwin's JSON", r"\.json$", rb'(?=.*"item").*"slots"', _EXPORT),
    _format("BDD100K's JSON", r"\.json$", rb'(?=.*"labels").*"box2d"', _EXPORT),
    _format("SageMaker Ground Truth's manifest", r"\.(manifest|jsonl)$", rb'.*"source-ref"', _EXPORT),
    _format("Labelbox's export", r"\.(ndjson|jsonl?)$", rb'.*"data_row"', _EXPORT),
    _format("Azure's labels", r"\.jsonl?$", rb'.*"(image_url|coco_url|absolute_url)"\s*:\s*"AmlDatastore', _EXPORT),
    _format("DeepFashion2's JSON", r"\.json$", rb'(?=.*"item1").*"category_name"', _EXPORT),
    _format("TT100K's JSON", r"\.json$", rb'(?=.*"imgs").*"objects"', _EXPORT),
    _format("SuperAnnotate's JSON", r"\.json$", rb'(?=.*"instances").*"(className|classId)"', _EXPORT),
    _format("Hasty's JSON", r"\.json$", rb'(?=.*"project_name").*"label_classes"', _EXPORT),
    _format("the tables of nuScenes", r"\.json$", rb'.*"(sample_data_token|sample_token)"', _EXPORT),
    _format("CrowdHuman's .odgt", r"\.odgt$", rb'.*"gtboxes"', _EXPORT),
    _format("COCO's panoptic JSON", r"\.json$", rb'.*"segments_info"', _EXPORT),
    _format(
        "KITTI's boxes",
        r"\.txt$",
        rb"(?=[^\n]*[^\d\s.-])[^\n]{1,256}?( " + _NUMBER + rb"){14,15}\s*(\n|$)",
        f"Convert them to COCO or YOLO, or {_CUSTOM}",
    ),
    _format(
        "DOTA's rotated boxes",
        r"(^|/)labeltxt[^/]*/[^/]+\.txt$",
        rb"",
        f"Boxes that are turned have no task. Write upright ones as COCO or YOLO, or {_CUSTOM}",
    ),
    _format(
        "VisDrone's boxes",
        r"(^|/)annotations/[^/]+\.txt$",
        rb"\d+,\d+,\d+,\d+,[01],\d+,-?\d+,-?\d+,?\s*(\n|$)",
        f"Write the boxes as COCO or YOLO, or {_CUSTOM}",
    ),
    _format(
        "the CSV of VGG Image Annotator",
        r"\.csv$",
        rb'"?#?filename"?,"?file_size.*region_shape_attributes',
        f"Export the annotations as JSON there, or {_CUSTOM}",
    ),
    _format(
        "Label Studio's CSV of boxes or outlines",
        r"\.(csv|tsv)$",
        rb"(?=[^\n]*\bannotation_id\b).*(rectangle|polygon|brush|ellipse|keypoint)labels",
        f"Export the annotations as JSON there, or {_CUSTOM}",
    ),
    _format(
        "CVAT's XML of videos",
        r"\.xml$",
        rb"(?=.*<annotations>).*<track\b",
        f"Export it as 'CVAT for images' there, which comes with the frames, or {_CUSTOM}",
    ),
    _format("the XML of LabelMe's website", r"\.xml$", rb"\s*<annotation>.*<(polygon|LM_filename)\b", _EXPORT),
    _format(
        "the list of Tiny ImageNet's validation images",
        r"(^|/)val_annotations\.txt$",
        rb"[^\t\n]+\tn\d+\t",
        "Move each validation image into val/CLASS/images/, as the list says, and give "
        "--pattern '(?P<split>train|val)/(?P<label>[^/]+)/images/' --skip-bad, which leaves out images without a class",
    ),
    _format(
        "a text file of YOLO's boxes",
        r"^(?!(.*/)?labels/).*\.txt$",
        rb"\d+( " + _FRACTION + rb"){4,}\s*(\n|$)",
        "Put the images into images/ and the text files, by the same names, into labels/",
        "one folder per class",
    ),
    _format(
        "a list of boxes, as keras-yolo3 has them",
        r"\.txt$",
        rb"\S+\.\w{3,4}( \d+,\d+,\d+,\d+,\d+)+\s*(\n|$)",
        f"Write them as a table with the columns file, xmin, ymin, xmax, ymax and label, or {_CUSTOM}",
    ),
    _format(
        "ICDAR's words as quadrilaterals",
        r"(^|/)gt_[^/]+\.txt$",
        rb"(\xef\xbb\xbf)?(-?\d+,\s*){8}",
        f"Boxes that are turned have no task. Write upright ones as COCO or YOLO, or {_CUSTOM}",
    ),
    _format(
        "MOTChallenge's tracks",
        r"(^|/)(gt|det)\.txt$",
        rb"\d+,\s*-?\d+(,\s*" + _NUMBER + rb"){5,8}\s*(\n|$)",
        f"Tracks have no task. Write the boxes of each frame as COCO or YOLO, or {_CUSTOM}",
    ),
    _format(
        "WIDER FACE", r"(^|/)wider_face_[^/]*_bbx_gt\.txt$", rb"", f"Write the boxes as COCO or YOLO, or {_CUSTOM}"
    ),
    _format("masks of Open Images", r"\.csv$", rb"MaskPath,ImageID,LabelName", f"Write them as COCO, or {_CUSTOM}"),
    _format(
        "CIFAR's pickles, which can hold code",
        r"(^|/)[^/.]+$|\.meta$",
        rb"\x80[\x02-\x05].*(fine_label|labels|label_names)",
        "Download the binary version (cifar-10-binary.tar.gz), or write the images to a folder for each class",
    ),
    _format(
        "a table of pixels, as MNIST is passed on in CSV",
        r"\.csv$",
        rb"[^,\n]*(,[^,\n]{1,14}){700,}",
        "Write the images to a folder for each class",
    ),
    _format(
        "Pascal VOC's lists of the images of a class",
        r"(^|/)imagesets/main/[^/]+_(train|val|trainval|test)\.txt$",
        rb"[^\s]+ +-?[01]\s*(\n|$)",
        f"Images may have several of these classes, which has no task. Write a table of one class each, or {_CUSTOM}",
    ),
)


def refusal(folder: Path, found: Layout | None) -> DatasetError | None:
    """The error for annotations that no layout reads, beside data that has no layout or one by names alone."""
    if found is not None and found.items and found.name not in _BY_NAMES:
        return None
    likely = ((path, formats) for path in listing.files(folder) if (formats := _likely(folder, path)))
    for path, formats in islice(likely, _OPENED):
        with path.open("rb") as handle:
            head = handle.read(_HEAD)
        for each in formats:
            if each.beside in {"", found.name if found else ""} and each.begins.match(head):
                return _error(path, each, found if found is not None and _is_sound(found) else None)
    return None


def _is_sound(found: Layout) -> bool:
    """Whether a layout says something of the images, and nothing speaks against it."""
    return any(item.label is not None for item in found.items) and not any(each.fatal for each in found.problems)


def _likely(folder: Path, path: Path) -> list[_Format]:
    inside = path.relative_to(folder).as_posix()
    return [] if listing.is_image(path) else [each for each in _FORMATS if each.files.search(inside)]


def _error(path: Path, known: _Format, found: Layout | None) -> DatasetError:
    remedy = known.remedy
    if found is not None:
        remedy += f". If the folder is to be packed without it, as {found.name}, use --layout {_BY_NAMES[found.name]}"
    return DatasetError(
        str(path),
        expected="annotations of a format that a layout reads",
        found=known.name,
        remedy=remedy,
        message=f"{path}: this is {known.name}, which no layout reads.",
    )
