"""COCO JSON as Roboflow exports it: with a category of id 0 that only stands for all others."""

from __future__ import annotations

import json

import pytest
from support import miniatures
from support.commands import call

from penstock.datasets import FolderDataset, inspect
from penstock.errors import DatasetError


def export(root, categories, used, splits=("train", "valid")):
    for split in splits:
        images = [{"id": n, "file_name": f"{split}{n}.jpg", "height": 24, "width": 32} for n in range(2)]
        for image in images:
            miniatures.write(
                root / split / image["file_name"], miniatures.make_image(seed=image["id"] + 10 * splits.index(split))
            )
        boxes = [
            {"id": n, "image_id": n % 2, "category_id": label, "bbox": [2, 2, 10, 10], "area": 100, "iscrowd": 0}
            for n, label in enumerate(used[split])
        ]
        tree = {"images": images, "annotations": boxes, "categories": categories}
        miniatures.write(root / split / "_annotations.coco.json", json.dumps(tree))


def category(number, name, above="fish"):
    return {"id": number, "name": name, "supercategory": above}


@pytest.mark.parametrize("names", [("fish", "shark"), ("cod", "shark")])
def test_the_super_category_is_left_out_whatever_it_is_called(tmp_path, capsys, names):
    categories = [category(0, "fish", "none"), *(category(n, name) for n, name in enumerate(names, 1))]
    export(tmp_path / "raw", categories, {"train": [1, 2], "valid": [1, 1]})
    code, out, _ = call("pack", tmp_path / "raw", "-o", tmp_path / "data", capsys=capsys)
    described = FolderDataset.open(tmp_path / "data").description

    assert code == 0
    assert described.classes == names
    assert described.splits["train"].per_class == (1, 1)
    assert described.splits["val"].per_class == (2, 0)
    assert (
        "category 0 ('fish') is only the supercategory of others, and nothing is annotated with it. It is left out."
        in out
    )


def test_one_that_is_annotated_anywhere_is_a_class(tmp_path):
    categories = [category(0, "animal", "none"), category(1, "cod", "animal")]
    export(tmp_path, categories, {"train": [1, 1], "valid": [0, 1]})

    assert inspect(tmp_path).labels.classes == ("animal", "cod")


def test_one_that_nobody_names_as_above_itself_is_a_class_though_it_is_empty(tmp_path):
    categories = [category(0, "cod", "cod"), category(1, "shark", "none"), category(2, "eel", None)]
    export(tmp_path, categories, {"train": [1, 1], "valid": [2, 1]})

    assert inspect(tmp_path).labels.classes == ("cod", "shark", "eel")


def test_two_categories_of_one_name_are_refused_still(tmp_path):
    export(tmp_path, [category(1, "cod"), category(2, "cod")], {"train": [1, 2], "valid": [1, 1]})
    with pytest.raises(DatasetError, match="expected a class name for every id, each of them once"):
        inspect(tmp_path)
