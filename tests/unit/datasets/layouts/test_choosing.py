"""Which layout is taken of several that fit, and what is said of the others."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support import annotations as tools
from support import miniatures
from support.commands import call
from support.layouts import words
from support.miniatures import gray, make_image, write

from penstock.datasets import LayoutOptions, inspect

XML = "<annotation><object><name>dog</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></object></annotation>"


def two_of_one(root, *, trained, both):
    """Images with XML in train, and YOLO text in train and, perhaps, val."""
    for name in trained + both:
        split = "val" if name in both else "train"
        write(root / f"images/{split}/{name}.jpg", make_image(seed=ord(name)))
        write(root / f"labels/{split}/{name}.txt", "0 0.5 0.5 0.25 0.25\n")
    write(root / f"annotations/{trained[0]}.xml", XML)
    write(root / "data.yaml", "names: [dog]\n")


def test_what_has_train_and_val_is_taken_and_the_other_named(tmp_path, capsys):
    two_of_one(tmp_path, trained="ab", both="c")
    found = inspect(tmp_path)
    assert (found.layout.name, {item.item.split for item in found.items}) == ("YOLO", {"train", "val"})
    out = call("inspect", tmp_path, capsys=capsys)[1]
    assert ("note: --layout labelimg takes it for detection: Pascal VOC XML, 1 image with labels\n") in out
    assert inspect(tmp_path, how=LayoutOptions("labelimg")).layout.name == "Pascal VOC XML"


def test_what_explains_more_than_twice_as_many_images_is_taken(tmp_path):
    two_of_one(tmp_path, trained="ab", both="")
    assert inspect(tmp_path, how=LayoutOptions(task="detection")).layout.name == "Pascal VOC XML"
    for name in "cd":
        write(tmp_path / f"images/train/{name}.jpg", make_image(seed=ord(name)))
        write(tmp_path / f"labels/train/{name}.txt", "0 0.5 0.5 0.25 0.25\n")
    assert inspect(tmp_path, how=LayoutOptions(task="detection")).layout.name == "YOLO"


def test_the_same_outlines_for_another_task_are_named_with_their_option(tmp_path, capsys):
    tools.labelme(tmp_path)
    out = call("inspect", tmp_path, capsys=capsys)[1]
    assert (
        "note: --task detection takes it for detection: LabelMe, 3 images with labels\n"
        "note: --task instances takes it for instances: LabelMe, 3 images with labels\n"
    ) in out
    for task in ("detection", "instances"):
        assert inspect(tmp_path, how=LayoutOptions(task=task)).layout.kind.name == task


def test_the_option_of_another_task_chooses_the_layout_that_is_named(tmp_path):
    """Two layouts of another task: the one that --task alone takes is named so, the other one by its name."""
    two_of_one(tmp_path, trained="ab", both="c")
    for split, name in (("train", "a"), ("train", "b"), ("val", "c")):
        write(tmp_path / f"masks/{split}/{name}.png", gray(np.eye(24, 32, dtype=np.uint8)))
    found = inspect(tmp_path, how=LayoutOptions("masks")).layout
    others = inspect(tmp_path).layout.others

    assert found.kind.name == "segmentation"
    assert [(each.name, each.option) for each in others] == [
        ("Pascal VOC XML", "--layout labelimg"),
        ("image and mask folders", "--task segmentation"),
    ]
    assert inspect(tmp_path, how=LayoutOptions(task="segmentation")).layout.name == found.name


@pytest.mark.parametrize("name", ["cityscapes", "ade20k", "camvid", "voc"])
def test_a_published_data_set_is_never_taken_for_another_layout(tmp_path, name):
    miniatures.MINIATURES[name](tmp_path)
    expected = inspect(tmp_path, how=LayoutOptions(name)).layout.name
    assert inspect(tmp_path).layout.name == expected


def test_a_damaged_file_of_a_later_layout_does_not_matter(tmp_path):
    two_of_one(tmp_path, trained="ab", both="c")
    write(tmp_path / "labels.csv", b"file,label\n\xff\xfe,\n")
    assert words(tmp_path) == []
    assert words(tmp_path, LayoutOptions("csv"))[0].startswith(f"{tmp_path}/labels.csv: expected CSV in UTF-8, found ")


def test_files_of_one_name_in_several_folders_are_listed(tmp_path):
    for number, place in enumerate(("one", "two")):
        write(tmp_path / place / "a.jpg", make_image(seed=number))
    write(tmp_path / "b.jpg", make_image(seed=5))
    tree = {
        "images": [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "b.jpg"}],
        "annotations": [{"id": 1, "image_id": 2, "category_id": 1, "bbox": [1, 2, 3, 4]}],
        "categories": [{"id": 1, "name": "dog"}],
    }
    write(tmp_path / "annotations/instances_train2017.json", json.dumps(tree))
    assert words(tmp_path) == [
        "annotations/instances_train2017.json: expected the image a.jpg that it names, found 2 files of that name (one/a.jpg, "
        "two/a.jpg). Add it, or remove its entry."
    ]


def test_an_image_in_a_subfolder_is_found(tmp_path):
    write(tmp_path / "deep/down/a.jpg", make_image())
    tree = {
        "images": [{"id": 1, "file_name": "a.jpg"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}],
        "categories": [{"id": 1, "name": "dog"}],
    }
    write(tmp_path / "annotations/instances_train2017.json", json.dumps(tree))
    (item,) = inspect(tmp_path).items
    assert item.item.image == tmp_path / "deep/down/a.jpg"


class TestTablesOfSplits:
    def test_of_their_own_name(self, tmp_path):
        for number, (split, name) in enumerate((("train", "a"), ("train", "b"), ("val", "a"))):
            write(tmp_path / f"{split}/{name}.jpg", make_image(seed=number))
        write(tmp_path / "train.csv", "file,label\na.jpg,dog\nb.jpg,cat\n")
        write(tmp_path / "valid_labels.csv", "file,label\na.jpg,cat\n")
        found = inspect(tmp_path)
        assert (found.problems, found.labels.classes) == ((), ("cat", "dog"))
        assert [(i.item.split, i.item.label, i.item.image) for i in found.items] == [
            ("train", 1, tmp_path / "train/a.jpg"),
            ("train", 0, tmp_path / "train/b.jpg"),
            ("val", 0, tmp_path / "val/a.jpg"),
        ]

    def test_beside_the_images_of_each(self, tmp_path):
        for number, split in enumerate(("train", "valid", "test")):
            write(tmp_path / f"{split}/a.jpg", make_image(seed=number))
            row = f"a.jpg,32,24,dog,{number},2,9,9"
            write(tmp_path / f"{split}/_annotations.csv", f"filename,width,height,class,xmin,ymin,xmax,ymax\n{row}\n")
        found = inspect(tmp_path)
        assert found.problems == ()
        assert [(i.item.split, i.item.image.parent.name, i.item.label[0].left) for i in found.items] == [
            ("train", "train", 0),
            ("val", "valid", 1),
            ("test", "test", 2),
        ]

    def test_of_one_hot_columns(self, tmp_path):
        for number, split in enumerate(("train", "valid")):
            write(tmp_path / f"{split}/a.jpg", make_image(seed=number))
            write(tmp_path / f"{split}/_classes.csv", f"filename, cat, dog\na.jpg, {number}, {1 - number}\n")
        found = inspect(tmp_path)
        assert (found.problems, found.labels.classes) == ((), ("cat", "dog"))
        assert [(i.item.split, i.item.label) for i in found.items] == [("train", 1), ("val", 0)]


def test_a_list_of_words_beside_masks_is_a_choice(tmp_path):
    for number in range(4):
        write(tmp_path / f"images/{number}.jpg", make_image(seed=number))
        write(tmp_path / f"masks/{number}.png", gray(np.arange(24 * 32, dtype=np.uint8).reshape(24, 32) % 2))
    write(tmp_path / "source.txt", "".join(f"{number}.jpg site{number % 2}\n" for number in range(4)))
    assert words(tmp_path) == [
        "source.txt: expected one kind of labels, found words of a list and masks of the same images (image and mask "
        "folders). Choose with --task classification or --task segmentation."
    ]
    for task in ("classification", "segmentation"):
        assert words(tmp_path, LayoutOptions(task=task)) == []
