from __future__ import annotations

import json

import numpy as np
import pytest
from support import miniatures
from support.commands import call
from support.datasets import records
from support.layouts import words
from support.miniatures import make_image, write

from penstock.datasets import FolderDataset, LayoutOptions, inspect, pack
from penstock.datasets.layouts.recognition import recognise
from penstock.errors import DatasetError
from penstock.kinds import Box
from penstock.report.sheets import records_sheet

FACTS = {  # layout's name, task, classes, records by split
    "cifar10": ("CIFAR-10", "classification", 10, {"train": 30, "test": 6}),
    "cifar100": ("CIFAR-100", "classification", 100, {"train": 6, "test": 6}),
    "mnist": ("MNIST (IDX files)", "classification", 5, {"train": 5, "test": 5}),
    "cityscapes": ("Cityscapes", "segmentation", 19, {"train": 1, "val": 1}),
    "ade20k": ("ADE20K", "segmentation", 150, {"train": 2, "val": 2}),
    "camvid": ("CamVid", "segmentation", 11, {"train": 1, "val": 1, "test": 1}),
    "voc": ("Pascal VOC", "segmentation", 21, {"train": 2, "val": 1}),
    "coco": ("COCO", "detection", 2, {"train": 3, "val": 3}),
    "yolo": ("YOLO", "detection", 2, {"train": 2, "val": 2}),
    "csv": ("CSV", "classification", 2, {"train": 2, "val": 2}),
    "tfds": ("TensorFlow Datasets", "classification", 2, {"train": 6, "val": 1}),
    "tfds_boxes": ("TensorFlow Datasets", "detection", 2, {"train": 1}),
    "tfds_masks": ("TensorFlow Datasets", "segmentation", 3, {"test": 1}),
    "object_detection": ("Object Detection API's TFRecords", "detection", 2, {"val": 2}),
    "slim": ("slim's TFRecords", "classification", 2, {"train": 2}),
    "masks": ("image and mask folders", "segmentation", 3, {"train": 1, "val": 1}),
    "folders": ("one folder per class", "classification", 2, {"train": 2, "val": 2}),
}


@pytest.mark.parametrize("name", FACTS)
def test_each_is_recognised_from_the_folder_alone_packed_and_shown(name, tmp_path):
    miniatures.MINIATURES[name](tmp_path / "raw")
    title, task, classes, counts = FACTS[name]
    found = inspect(tmp_path / "raw", how=LayoutOptions(evaluate_only="train" not in counts))

    assert [problem.message for problem in found.fatal] == []
    assert (found.layout.name, found.layout.task, len(found.labels.classes)) == (title, task, classes)
    assert {split: len(items) for split, items in found.splits.items()} == counts
    dataset = pack(found, tmp_path / "data")
    assert {split: len(records(dataset, split)) for split in counts} == counts
    sheet = records_sheet(dataset, next(iter(counts)), 4)
    assert sheet.std() > 10


def test_bccd_and_fruits_are_packed_as_they_are(real_data, tmp_path):
    found = inspect(real_data("bccd_voc"))
    assert [problem.message.partition("found ")[2][:27] for problem in found.fatal] == [
        "180, 328 to 181, 329 (x, y)",
        "503, 336 to 504, 337 (x, y)",
    ]
    cells = pack(found.sound(), tmp_path / "cells").description
    fruits = pack(inspect(real_data("fruits_nuts_coco")), tmp_path / "fruits").description

    assert (cells.classes, [split.records for split in cells.splits.values()]) == (
        ("Platelets", "RBC", "WBC"),
        [204, 86, 72],
    )
    assert (fruits.classes, sum(fruits.splits["train"].per_class)) == (("date", "fig", "hazelnut"), 165)


def test_the_name_of_the_whole_folder_is_no_split(tmp_path):
    miniatures.write(tmp_path / "test/annotations.json", json.dumps(miniatures.coco_tree()))
    for number, image in enumerate(miniatures.coco_tree()["images"]):
        miniatures.write(tmp_path / "test" / image["file_name"], miniatures.make_image(seed=number))

    assert list(inspect(tmp_path / "test").splits) == ["train"]


def test_a_folder_without_any_label_may_need_another_layout(tmp_path, capsys):
    for split in ("train", "val"):
        miniatures.write(tmp_path / "images" / split / "a.jpg", miniatures.make_image())
    said = (
        "note: no image has a mask. If the folder is arranged in another way, name its layout: --layout NAME, or --layout "
        "FILE.py:NAME for one of your own\n"
    )
    assert said in call("inspect", tmp_path, capsys=capsys)[1]
    miniatures.write(tmp_path / "masks/train/a.png", miniatures.gray(np.zeros((24, 32), np.uint8)))
    assert said not in call("inspect", tmp_path, capsys=capsys)[1]


def test_a_folder_can_be_more_than_one_thing(tmp_path, capsys):
    miniatures.voc_(tmp_path / "raw")
    code, out, _ = call("pack", tmp_path / "raw", "-o", tmp_path / "data", "--task", "detection", capsys=capsys)

    assert code == 0
    assert FolderDataset.open(tmp_path / "data").description.task == "detection"
    assert inspect(tmp_path / "raw", how=LayoutOptions()).layout.task == "segmentation"
    assert "train: 2 records in 1 shard" in out
    assert Box(0, 1, 2, 3, 4).crowd is False


def test_data_of_another_task_than_the_one_that_was_named(raw):
    with pytest.raises(DatasetError) as caught:
        recognise(raw, LayoutOptions(task="detection"))
    assert str(caught.value) == (
        f"{raw}: expected data for detection, found data for segmentation (image and mask folders). Arrange the files as a "
        "row of docs/folders.md for detection does, describe the layout in a file of your own with --layout FILE.py:NAME, or "
        "leave --task out to pack for segmentation."
    )


def test_a_limit_takes_images_from_all_of_a_split(raw, tmp_path, capsys):
    every = [(each.item.split, each.item.name) for each in inspect(raw).items]
    kept = [(each.item.split, each.item.name) for each in inspect(raw, how=LayoutOptions(limit=3)).items]
    for split in ("train", "val"):
        names = [name for own, name in every if own == split]
        assert [name for own, name in kept if own == split] == [names[n * len(names) // 3] for n in range(3)]
    assert call("pack", raw, "-o", tmp_path / "data", "--limit", 3, capsys=capsys)[0] == 0
    assert FolderDataset.open(tmp_path / "data").split("train").records == 3
    assert [(each.item.split, each.item.name) for each in inspect(raw, how=LayoutOptions(limit=1000)).items] == every


@pytest.mark.parametrize("task", ["detection", "classification", "matting"])
def test_a_task_is_not_overruled_by_the_folders_that_are_named(tmp_path, task):
    miniatures.masks(tmp_path)
    said = words(tmp_path, LayoutOptions(images="images", masks="masks", task=task))

    assert said == [
        f"--task {task}: expected segmentation, by --images and --masks, found {task}. Remove one of the options."
    ]


def test_a_task_is_not_overruled_by_the_columns_that_are_named(tmp_path):
    for number in range(2):
        miniatures.write(tmp_path / f"{number}.png", miniatures.make_image(seed=number))
    miniatures.write(tmp_path / "t.csv", "pic,kind\n0.png,a\n1.png,b\n")
    said = words(tmp_path, LayoutOptions(fields={"image": "pic", "label": "kind"}, task="detection"))

    assert said == [
        "--task detection: expected classification, by --field, found detection. Remove one of the options."
    ]


def test_classes_are_not_proposed_where_boxes_lie(tmp_path):
    """Stanford Cars."""
    for number in range(2):
        miniatures.write(tmp_path / f"{number}.png", miniatures.make_image(seed=number))
    miniatures.write(tmp_path / "cars.csv", "fname,x1,y1,x2,y2,class\n0.png,1,1,9,9,a\n1.png,1,1,9,9,b\n")
    (said,) = words(tmp_path, LayoutOptions(task="classification"))

    assert said.startswith(f"{tmp_path}: expected data for classification, found data for detection (CSV).")


@pytest.mark.parametrize("name", ["releases/a.json", "annotations/all.xml", "train.jsonl"])
def test_images_beside_annotations_that_no_layout_reads_lack_no_masks(tmp_path, name):
    """What lies there is named, with what the layouts that come near look like."""
    for number in range(2):
        write(tmp_path / f"images/{number}.jpg", make_image(seed=number))
    write(tmp_path / name, '{"version": 2, "item": 1}')
    (said,) = words(tmp_path)

    assert said.startswith(
        f"{tmp_path}: expected a known layout, found {', '.join(sorted(['images/', name.split('/')[0] + '/' * ('/' in name)]))}."
    )
    assert "give --pattern if the class is in the name of the image" in said


def test_folders_that_the_user_names_lack_masks_whatever_lies_beside_them(tmp_path):
    for name in ("photos", "drawn"):
        write(tmp_path / f"{name}/{name}.jpg", make_image(seed=len(name)))
    write(tmp_path / "notes.json", '{"version": 2}')
    said = words(tmp_path, LayoutOptions(images="photos", masks="drawn"))

    assert said[0] == (
        "photos/photos.jpg: expected a mask drawn/photos.png, found none. Add the mask, or leave the image out with "
        "--skip-bad."
    )
