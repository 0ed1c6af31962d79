from __future__ import annotations

import json

import numpy as np
import pytest
from support import miniatures
from support.layouts import words

from penstock.datasets import inspect, listing


@pytest.mark.parametrize(
    ("layout", "file"),
    [
        ("yolo", "labels/train/a.txt"), ("yolo", "data.yaml"), ("voc", "ImageSets/Segmentation/train.txt"),
        ("ade20k", "objectInfo150.txt"), ("cifar10", "batches.meta.txt"),
    ],
)  # fmt: skip
def test_text_that_is_no_utf8_is_named(tmp_path, layout, file):
    miniatures.MINIATURES[layout](tmp_path)
    (tmp_path / file).write_bytes(b"caf\xe9\n")

    assert words(tmp_path)[0].startswith(f"{tmp_path / file}: expected text in UTF-8, found ")


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    miniatures.voc_(tmp_path)
    path = tmp_path / "ImageSets/Segmentation/val.txt"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())

    assert words(tmp_path) == []


def test_lists_of_whole_paths_are_read(tmp_path):
    miniatures.voc_(tmp_path)
    (tmp_path / "ImageSets/Segmentation/val.txt").write_text(
        "/JPEGImages/2007_000003.jpg /SegmentationClass/2007_000003.png\n"
    )

    assert words(tmp_path) == []


class TestAccents:
    """Names in either form of Unicode are one name, in files, in lists and in annotations."""

    NFC, NFD = "caf\u00e9", "cafe\u0301"

    @pytest.fixture(params=[(NFC, NFD), (NFD, NFC)])
    def forms(self, request):
        return request.param

    def image(self, path):
        miniatures.write(path, miniatures.make_image(seed=sum(map(ord, path.as_posix()))))

    def check(self, folder, classes, counts):
        found = inspect(folder)
        assert found.fatal == []
        assert found.labels.classes == classes
        assert {split: len(items) for split, items in found.splits.items()} == counts
        assert [each.item.name for each in found.items] == [listing.composed(each.item.name) for each in found.items]
        notes = [problem for problem in found.problems if problem.kind == "name in decomposed Unicode"]
        assert len(notes) == 1

    def test_class_folders(self, tmp_path, forms):
        for split, name in zip(("train", "val"), forms, strict=True):
            for each in (name, "tea"):
                self.image(tmp_path / split / each / "a.jpg")
        self.check(tmp_path, (self.NFC, "tea"), {"train": 2, "val": 2})

    def test_masks_and_lists(self, tmp_path, forms):
        one, other = forms
        for number in range(4):
            self.image(tmp_path / f"images/{one}{number}.jpg")
            miniatures.write(tmp_path / f"masks/{other}{number}.png", miniatures.gray(np.eye(24, 32, dtype=np.uint8)))
        if one == self.NFC:
            (tmp_path / f"images/{self.NFC}0.jpg").rename(tmp_path / f"images/{self.NFD}0.jpg")
        miniatures.write(tmp_path / "train.txt", "".join(f"{other}{number}\n" for number in range(3)))
        miniatures.write(tmp_path / "val.txt", f"images/{other}3.jpg\n")
        self.check(tmp_path, ("class0", "class1"), {"train": 3, "val": 1})

    def test_tables(self, tmp_path):
        self.image(tmp_path / f"images/{self.NFD}.jpg")
        self.image(tmp_path / "images/b.jpg")
        miniatures.write(tmp_path / "labels.csv", f"file,label\n{self.NFC}.jpg,{self.NFD}\nb.jpg,{self.NFC}\n")
        self.check(tmp_path, (self.NFC,), {"train": 2})

    def test_coco(self, tmp_path):
        for split, name in (("train", self.NFC), ("val", self.NFD)):
            self.image(tmp_path / split / f"{self.NFD}.jpg")
            tree = {
                "images": [{"id": 1, "file_name": f"{self.NFC}.jpg", "width": 32, "height": 24}],
                "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 9, 8]}],
                "categories": [{"id": 1, "name": name}],
            }
            miniatures.write(tmp_path / f"annotations/instances_{split}.json", json.dumps(tree))
        self.check(tmp_path, (self.NFC,), {"train": 1, "val": 1})

    def test_yolo(self, tmp_path):
        self.image(tmp_path / f"images/{self.NFD}.jpg")
        miniatures.write(tmp_path / f"labels/{self.NFC}.txt", "0 0.5 0.5 0.2 0.3\n")
        miniatures.write(tmp_path / "data.yaml", f"names: [{self.NFD}]\n")
        self.check(tmp_path, (self.NFC,), {"train": 1})
        assert len(inspect(tmp_path).items[0].item.label) == 1

    def test_xml(self, tmp_path):
        self.image(tmp_path / f"images/{self.NFD}.jpg")
        box = "<bndbox><xmin>2</xmin><ymin>2</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
        text = f"<annotation><object><name>{self.NFD}</name>{box}</object></annotation>"
        miniatures.write(tmp_path / f"annotations/{self.NFC}.xml", text)
        self.check(tmp_path, (self.NFC,), {"train": 1})
