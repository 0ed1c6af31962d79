"""Images that belong together stay together."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from support import miniatures
from support.layouts import notes, words

from penstock.datasets import LayoutOptions, inspect

IDS = np.arange(24 * 32, dtype=np.uint8).reshape(24, 32) % 2


def image(root, name):
    miniatures.write(root / name, miniatures.make_image(seed=sum(map(ord, str(name)))))


@pytest.mark.parametrize("one", ["entrenamiento", "\u8bad\u7ec3\u96c6", "train_set"])
def test_folders_that_may_be_splits_are_named(tmp_path, one):
    for number, place in enumerate((one, one, "prueba", "prueba")):
        miniatures.write(tmp_path / f"{place}/images/{number}.png", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"{place}/masks/{number}.png", miniatures.gray(IDS))
    names = ", ".join(f"{name}/" for name in sorted([one, "prueba"]))
    said = f"{names}: all images are in train. If these folders are splits, call them train/, val/ or test/."
    assert said in notes(tmp_path)


def together(found, fraction=0.3):
    """What each split has of the folders, or of whatever names a group."""
    return {split: {each.item.group for each in items} for split, items in found.divided(fraction).splits.items()}


def check_apart(found, count):
    splits = together(found)
    assert len(splits["train"] | splits["val"]) == count
    assert splits["val"]
    assert not splits["train"] & splits["val"]


def test_folders_below_images_and_below_classes(tmp_path):
    for patient in "abcd":
        for number in range(3):
            image(tmp_path / "m", f"images/p{patient}/{patient}{number}.jpg")
            miniatures.write(tmp_path / f"m/masks/p{patient}/{patient}{number}.png", miniatures.gray(IDS))
            for name in ("ill", "well"):
                image(tmp_path / "c", f"{name}/p{patient}/{name}{patient}{number}.jpg")
            image(tmp_path / "y", f"images/p{patient}/{patient}{number}.jpg")
            miniatures.write(tmp_path / f"y/labels/p{patient}/{patient}{number}.txt", "0 0.5 0.5 0.2 0.3\n")
    for folder in "mcy":
        found = inspect(tmp_path / folder)
        assert found.fatal == []
        check_apart(found, 4)
        assert (
            "images of a group stay together when train is divided: 4 groups by folder or table" in found.layout.reasons
        )


def in_folders(root, layout):
    """Three images of each of four patients, each with its labels as a layout has them."""
    names = [f"p{patient}/{number}" for patient in "abcd" for number in range(3)]
    for name in names:
        image(root, f"{name}.jpg")
    objects = [{"id": n, "image_id": n, "category_id": 1 + n % 2, "bbox": [2, 3, 5, 6]} for n in range(12)]
    images = [{"id": n, "file_name": f"{name}.jpg", "height": 24, "width": 32} for n, name in enumerate(names)]
    classes = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
    if layout == "coco":
        tree = {"images": images, "annotations": objects, "categories": classes}
        miniatures.write(root / "train.json", json.dumps(tree))
    if layout == "csv":
        rows = "".join(f"{name}.jpg,{'cat' if n % 2 else 'dog'}\n" for n, name in enumerate(names))
        miniatures.write(root / "labels.csv", f"file,label\n{rows}")
    for n, name in enumerate(names):
        box = "<bndbox><xmin>2</xmin><ymin>3</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
        word = "cat" if n % 2 else "dog"
        if layout == "xml":
            tree = f"<annotation><object><name>{word}</name>{box}</object></annotation>"
            miniatures.write(root / f"{name}.xml", tree)
        if layout == "labelme":
            shape = {"label": word, "points": [[2, 3], [9, 9]], "shape_type": "rectangle"}
            tree = {"shapes": [shape], "imagePath": f"{name[3:]}.jpg", "imageHeight": 24, "imageWidth": 32}
            miniatures.write(root / f"{name}.json", json.dumps(tree))


@pytest.mark.parametrize("layout", ["coco", "csv", "xml", "labelme"])
def test_each_folder_is_a_group_in_every_layout(tmp_path, layout):
    in_folders(tmp_path, layout)
    check_apart(inspect(tmp_path), 4)


def test_folders_above_a_class_are_groups_under_a_pattern(tmp_path):
    for patient in "abcd":
        for name in ("ill", "well"):
            for number in range(2):
                image(tmp_path, f"p{patient}/{name}/{patient}{number}.jpg")
    found = inspect(tmp_path, how=LayoutOptions(pattern="(?P<label>[^/]+)/[^/]+$"))
    assert found.labels.classes == ("ill", "well")
    check_apart(found, 4)


def test_folders_of_one_image_each_belong_to_the_folder_above(tmp_path):
    for patient in "abcd":
        for day in range(3):
            image(tmp_path, f"images/p{patient}/day{day}/0.jpg")
            miniatures.write(tmp_path / f"masks/p{patient}/day{day}/0.png", miniatures.gray(IDS))
    check_apart(inspect(tmp_path), 4)


def test_folders_of_a_class_each_are_no_groups(tmp_path):
    """Boxes of breeds, as of Stanford Dogs: a group for each breed would leave a class out of train."""
    for name in ("beagle", "boxer", "pug"):
        for number in range(3):
            image(tmp_path, f"{name}/{name}{number}.jpg")
            box = "<bndbox><xmin>2</xmin><ymin>3</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
            tree = f"<annotation><object><name>{name}</name>{box}</object></annotation>"
            miniatures.write(tmp_path / f"{name}/{name}{number}.xml", tree)
    assert together(inspect(tmp_path)) == {"train": {""}, "val": {""}}


@pytest.mark.parametrize(("name", "form"), [("about.csv", "{0}.jpg,{1},3\n"), ("about.jsonl", None)])
def test_a_table_beside_other_labels_names_groups(tmp_path, name, form):
    rows = ["file_name,patient_id,age\n"] if form else []
    for number in range(12):
        image(tmp_path, f"images/{number}.jpg")
        miniatures.write(tmp_path / f"masks/{number}.png", miniatures.gray(IDS))
        row = {"file_name": f"{number}.jpg", "patient_id": f"g{number // 3}", "age": 3}
        rows.append(form.format(number, f"g{number // 3}") if form else json.dumps(row) + "\n")
    miniatures.write(tmp_path / name, "".join(rows))
    found = inspect(tmp_path)
    check_apart(found, 4)
    said = f"groups are those of column patient_id of {name}, of which age is not read"
    assert said in found.layout.reasons
    assert not any("is not read" in problem.message for problem in found.problems)


@pytest.mark.parametrize("name", ["labels.csv", "labels.json"])
def test_the_table_of_the_labels_names_groups_whatever_column_has_its_images(tmp_path, name):
    rows = []
    for number in range(12):
        image(tmp_path, f"{number}.jpg")
        rows.append(
            {
                "first": f"{(number + 3) % 12}.jpg",
                "image": f"{number}.jpg",
                "label": "ab"[number % 2],
                "case": f"g{number // 3}",
            }
        )
    lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    if name == "labels.json":
        rows = [{key: value for key, value in row.items() if key != "first"} for row in rows]
    miniatures.write(tmp_path / name, json.dumps(rows) if name == "labels.json" else "\n".join(lines))
    found = inspect(tmp_path, how=LayoutOptions(fields={"image": "image"} if name == "labels.csv" else {}))
    assert {each.item.name: each.item.group for each in found.items} == {str(n): f"g{n // 3}" for n in range(12)}


def test_images_that_no_table_names_are_in_the_group_of_their_folder(tmp_path):
    in_folders(tmp_path, "xml")
    miniatures.write(tmp_path / "about.csv", "image,patient\npa/0.jpg,x\npb/0.jpg,x\n")
    groups = {each.item.image.relative_to(tmp_path).as_posix(): each.item.group for each in inspect(tmp_path).items}
    assert {groups["pa/0.jpg"], groups["pb/0.jpg"]} == {"x"}
    assert {groups["pa/1.jpg"], groups["pa/2.jpg"]} == {"pa"}
    assert groups["pc/0.jpg"] == "pc"


def test_a_table_of_run_lengths_names_groups(tmp_path):
    rows = "".join(f"{number}.jpg,{33 + number} 5,g{number // 3}\n" for number in range(12))
    for number in range(12):
        image(tmp_path, f"{number}.jpg")
    miniatures.write(tmp_path / "train.csv", f"ImageId,EncodedPixels,patient_id\n{rows}")
    check_apart(inspect(tmp_path), 4)


def test_a_table_that_says_more_than_groups_is_not_passed_over(tmp_path):
    rows = "".join(f"{number}.jpg,g{number // 3},{'ab'[number % 3 > 0]}\n" for number in range(12))
    for number in range(12):
        image(tmp_path, f"{('cat', 'dog')[number % 2]}/{number}.jpg")
    miniatures.write(tmp_path / "about.csv", f"image,patient_id,note\n{rows}")
    assert [problem.kind for problem in inspect(tmp_path).fatal] == ["table that is not read"]
    miniatures.write(tmp_path / "about.csv", re.sub(",[^,]+\n", "\n", f"image,patient_id,note\n{rows}"))
    found = inspect(tmp_path)
    assert found.fatal == []
    check_apart(found, 4)


@pytest.mark.parametrize("column", ["group", "patient_id", "Case", "video"])
@pytest.mark.parametrize("boxes", ["", ",xmin,ymin,xmax,ymax"])
def test_a_column_of_a_table(tmp_path, column, boxes):
    rows = [f"file,label,{column}{boxes}"]
    for number in range(12):
        image(tmp_path, f"images/{number}.jpg")
        rows.append(f"{number}.jpg,{('cat', 'dog')[number % 2]},g{number // 3}{',2,3,9,9' if boxes else ''}")
    miniatures.write(tmp_path / "labels.csv", "\n".join(rows) + "\n")
    check_apart(inspect(tmp_path), 4)


def test_an_expression_finds_them_in_names(tmp_path):
    for patient in "abcd":
        for number in range(3):
            image(tmp_path, f"images/case-{patient}-{number}.jpg")
            ids = np.random.default_rng(ord(patient) + number).integers(0, 2, (24, 32), np.uint8)
            miniatures.write(tmp_path / f"masks/case-{patient}-{number}.png", miniatures.gray(ids))
    image(tmp_path, "images/other.jpg")
    miniatures.write(tmp_path / "masks/other.png", miniatures.gray(IDS))
    assert together(inspect(tmp_path))["train"] == {""}
    for pattern in ("case-[a-z]", "case-([a-z])", "(case)-(?P<group>[a-z])"):
        found = inspect(tmp_path, how=LayoutOptions(group=pattern))
        splits = together(found)
        assert not (splits["train"] & splits["val"]) - {""}
        assert [problem.message for problem in found.problems] == [
            f"images/other.jpg: --group {pattern} does not fit the names of 1 image. Each is by itself."
        ]
    assert words(tmp_path, LayoutOptions(group="(")) == [
        "--group (: expected a regular expression, found missing ), unterminated subpattern at position 0. Fix it."
    ]
    assert words(tmp_path, LayoutOptions(group="nobody")) == [
        "--group nobody: expected a regular expression that fits the names of images, found none that it fits, such as "
        "images/case-a-0.jpg. Write for example --group '(?P<group>patient\\d+)'."
    ]


def test_a_val_that_large_groups_make_large_is_noted(tmp_path):
    for year in ("2019", "2020"):
        for number in range(6):
            for name in ("cat", "dog"):
                image(tmp_path, f"{name}/{year}/{name}{year}{number}.jpg")

    def notes(found):
        return [each.message for each in found.divided(0.1).problems if each.kind == "large groups"]

    assert notes(inspect(tmp_path)) == [
        "val has 12 images instead of 2, as images of a group stay together and there are 2 groups. Smaller groups are "
        "found with --group REGEX; --group '.*' makes each image one."
    ]
    assert notes(inspect(tmp_path, how=LayoutOptions(group=".*"))) == []
