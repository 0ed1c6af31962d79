"""A value of another type, anywhere in what an annotation tool wrote, costs the image that it is about, and no other."""

from __future__ import annotations

import pytest
from support import annotations as tools
from support.errors import refused
from support.hostile import changed
from support.layouts import pack_skipping, words

from penstock.datasets import FolderDataset, inspect

PROJECT, TASK = "project-1.json", "project-1.json (task 0)"
REGIONS, SAMPLES = "train/via_region_data.json", "samples.json"
SUPERVISELY, CREATEML = "train/ann/a.jpg.json", "train/_annotations.createml.json"
HUGE = 10**400


@pytest.mark.parametrize(
    ("make", "file", "place", "value", "expected", "found"),
    [
        (tools.label_studio, PROJECT, "0.annotations", 7, TASK + ": expected Label Studio's annotations", "`int` instead of `array | null` in annotations"),
        (tools.label_studio, PROJECT, "0.annotations.0.result", 7, TASK + ": expected Label Studio's result", "`int` instead of `array | null` in result"),
        (tools.label_studio, PROJECT, "0.annotations.0.result.0.value", [1], TASK + ": expected Label Studio's value", "`array` instead of `object | null` in value"),
        (tools.label_studio, PROJECT, "0.annotations.0.result.0.value.points.0", [HUGE, 1], TASK + ", shape 1", "a number out of range in points[0][0]"),
        (tools.brushes, PROJECT, "0.annotations.0.result.0.original_width", None, TASK + ", shape 1", "no original_width"),
        (tools.brushes, PROJECT, "0.annotations.0.result.0.original_width", "", TASK + ", shape 1", "`str` instead of `int` in original_width"),
        (tools.brushes, PROJECT, "0.annotations.0.result.0.original_height", ..., TASK + ", shape 1", "no original_height"),
        (tools.brushes, PROJECT, "0.annotations.0.result.0.original_height", 1 << 27, TASK + ", shape 1: expected a brush's pixels", "an image of 134217728 x 32"),
        (tools.brushes, PROJECT, "0.annotations.0.result.0.value.rle.3", 2**70, TASK + ", shape 1", "no `int` <= 255 in rle[3]"),
        (tools.supervisely, SUPERVISELY, "objects", None, SUPERVISELY + ": expected an image's objects and size", "no objects"),
        (tools.supervisely, SUPERVISELY, "tags", 7, SUPERVISELY + ": expected an image's objects and size", "`int` instead of `array | null` in tags"),
        (tools.supervisely, SUPERVISELY, "size", [], SUPERVISELY + ": expected an image's objects and size", "`array` instead of `object`"),
        (tools.supervisely, SUPERVISELY, "objects.1.bitmap.data", None, SUPERVISELY + ", shape 2", "no data"),
        (tools.supervisely, SUPERVISELY, "objects.1.bitmap.data", "é", SUPERVISELY + ", shape 2: expected a bitmap in zlib and base 64", "string argument should contain only ASCII characters"),
        (tools.supervisely, SUPERVISELY, "objects.1.bitmap.origin.0", HUGE, SUPERVISELY + ", shape 2", "a number out of range in origin[0]"),
        (tools.fiftyone_samples, SAMPLES, "samples.0.ground_truth.detections.0.bounding_box.0", 1e308, "samples.json (data/a.jpg), shape 1", "no `float` <= 2.0 in bounding_box[0]"),
        (tools.fiftyone_samples, SAMPLES, "samples.0.ground_truth.detections.0.mask", {"a": 1}, "samples.json (data/a.jpg), shape 1: expected a mask of FiftyOne", "ValueError: no base64"),
        (tools.fiftyone, "train/labels.json", "labels.a", {}, "train/labels.json (a): expected FiftyOne's label", "`object` instead of `int | float | str` in label"),
        (tools.labelme, "train/a.json", "shapes", 7, "train/a.json: expected LabelMe's shapes", "`int` instead of `array | null` in shapes"),
        (tools.labelme, "train/a.json", "shapes.0.label", "\x00", "train/a.json, shape 1", "the label '\\x00'"),
        (tools.via, REGIONS, "*.regions", 7, REGIONS + " (a.jpg): expected VGG Image Annotator's regions", "`int` instead of `object | array | null` in regions"),
        (tools.via, REGIONS, "*", 7, REGIONS + ", image 1: expected VGG Image Annotator's filename", "`int` instead of `object`"),
        (tools.via, REGIONS, "*.regions.0.shape_attributes", 7, REGIONS + " (a.jpg), shape 1", "`int` instead of `object` in shape_attributes"),
        (tools.createml, CREATEML, "0.annotations", 7, CREATEML + " (a.jpg): expected Create ML's annotations", "`int` instead of `array | null` in annotations"),
        (tools.createml, CREATEML, "0", 7, CREATEML + ", image 1: expected Create ML's image", "`int` instead of `object`"),
        (tools.createml, CREATEML, "0.annotations.0.coordinates.x", "x", CREATEML + " (a.jpg), shape 1", "`str` instead of `float` in x"),
        (tools.hugging_face, "train/metadata.jsonl", "objects", 7, "train/metadata.jsonl, line 1: expected Hugging Face imagefolder's objects", "`int` instead of `object | array | null` in objects"),
        (tools.hugging_face, "train/metadata.jsonl", "objects.bbox.0", 7, "train/metadata.jsonl, line 1, shape 1", "`int` instead of `array` in bbox"),
    ],
)  # fmt: skip
def test_the_image_is_named_and_the_others_are_packed(tmp_path, capsys, make, file, place, value, expected, found):
    make(tmp_path / "raw")
    changed(tmp_path / "raw" / file, place, value)
    before = expected if ": " in expected else f"{expected}: expected a label and its points"
    fix = (
        "Draw it again, or export as COCO"
        if "brush" in before
        else "Export it again"
        if "bitmap" in before
        else "Fix it, or remove it"
    )
    fix = "Export the dataset again" if "mask" in before else fix
    assert words(tmp_path / "raw") == [f"{before}, found {found}. {fix}."]

    pack_skipping(tmp_path, capsys)
    splits = FolderDataset.open(tmp_path / "data").description.splits
    assert sum(split.records for split in splits.values()) == len(tools.every()) - 1


@pytest.mark.parametrize(
    ("make", "file", "expected", "again"),
    [
        (tools.supervisely, "meta.json", "a project's classes, found `int` instead of `array | null`", "project"),
        (tools.fiftyone, "train/labels.json", "FiftyOne's classes, found `int` instead of `array | null`", "dataset"),
    ],
)
def test_classes_of_all_images_are_named(tmp_path, make, file, expected, again):
    make(tmp_path)
    changed(tmp_path / file, "classes", 7)
    message = f"{tmp_path / file}: expected {expected} in classes. Export the {again} again."
    refused(inspect, tmp_path, message=message)


def test_of_an_address_that_is_none_the_name_is_taken(tmp_path):
    tools.label_studio(tmp_path)
    changed(tmp_path / PROJECT, "0.data.image", "http://[/a.jpg")
    found = inspect(tmp_path)
    assert (found.fatal, len(found.items)) == ([], len(tools.every()))
