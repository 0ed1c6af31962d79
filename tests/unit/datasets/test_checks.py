from __future__ import annotations

import io
import json

import numpy as np
import pytest
from PIL import Image
from support import annotations, miniatures
from support.commands import call
from support.layouts import words

from penstock.datasets import inspect
from penstock.datasets.class_lists import check_names
from penstock.errors import DatasetError


@pytest.mark.parametrize(("split", "found"), [("../../evil", "'../../evil'"), ("a/b", "'a/b'")])
def test_a_split_is_no_path(tmp_path, split, found):
    miniatures.csv_labels(tmp_path)
    path = tmp_path / "labels.csv"
    path.write_text(path.read_text().replace("train", split))

    assert words(tmp_path) == [
        f"{path}: expected a split with a plain name: letters, digits, - and _, found {found}. Call it train, val or test."
    ]


def test_splits_are_named_as_folders_are(tmp_path):
    miniatures.csv_labels(tmp_path)
    path = tmp_path / "labels.csv"
    path.write_text(path.read_text().replace("train", "Training").replace("val", "Validation"))

    assert set(inspect(tmp_path).splits) == {"train", "val"}


@pytest.mark.parametrize("layout", ["folders", "csv", "cifar10", "coco"])
def test_classes_that_the_data_names_cannot_be_renamed(tmp_path, layout, capsys):
    miniatures.MINIATURES[layout](tmp_path)
    code, _, errors = call("inspect", tmp_path, "--classes", "x,y", capsys=capsys)

    assert code == 2
    assert "error: --classes has no effect, as the data names its classes: " in errors


def test_a_label_without_a_name_is_a_problem_and_not_a_crash(tmp_path):
    miniatures.mnist(tmp_path, zipped=False)
    (tmp_path / "classes.txt").write_text("zero\none\n")
    found = words(tmp_path)

    assert found[0] == (
        "train-images-idx3-ubyte#2: expected a class from 0 to 1, found 2. Name all classes, in the order of their ids."
    )
    assert len(found) == 6


@pytest.mark.parametrize("layout", ["folders", "csv"])
def test_there_may_be_more_classes_than_a_byte_holds(tmp_path, layout):
    for number in range(300):
        buffer = io.BytesIO()
        Image.fromarray(np.full((4, 4, 3), (number % 256, number // 256, 0), np.uint8)).save(buffer, "PNG")
        name = f"train/c{number:03d}/p.png" if layout == "folders" else f"p{number:03d}.png"
        miniatures.write(tmp_path / name, buffer.getvalue())
    if layout == "csv":
        miniatures.write(tmp_path / "l.csv", "file,label\n" + "".join(f"p{n:03d}.png,c{n:03d}\n" for n in range(300)))

    assert words(tmp_path) == []
    assert len(inspect(tmp_path).labels.classes) == 300


def test_thousands_of_classes_are_taken_and_one_that_is_named_twice_is_found():
    names = [f"class {number}" for number in range(200_000)]
    assert check_names(names, "x") == tuple(names)
    with pytest.raises(DatasetError, match="found 'class 7' for the ids 7 and 200000"):
        check_names([*names, "class 7"], "x")


def _told(folder, how=None):
    return [(problem.message, problem.fatal) for problem in inspect(folder, **({"how": how} if how else {})).problems]


def test_a_copy_of_an_image_with_another_mask_is_named(tmp_path):
    """The mask's classes have as many pixels as the first one's, in other places."""
    ids = np.random.default_rng(1).integers(0, 3, (24, 32), np.uint8)
    for number in range(30):
        miniatures.write(tmp_path / f"images/{number:02d}.jpg", miniatures.make_image(seed=min(number, 28)))
        own = ids if number == 28 else ids[::-1] if number == 29 else np.roll(ids, number + 1)
        miniatures.write(tmp_path / f"masks/{number:02d}.png", miniatures.gray(own))

    message = (
        "images/29.jpg: expected an image with one label, found the same bytes as images/28.jpg with another label. Remove "
        "the wrong one."
    )
    assert (message, False) in _told(tmp_path)
    miniatures.write(tmp_path / "masks/29.png", miniatures.gray(ids))
    assert not [line for line, _ in _told(tmp_path) if "another label" in line]


def test_a_file_that_an_export_names_twice_has_one_label(tmp_path):
    annotations.createml(tmp_path)
    path = tmp_path / "train/_annotations.createml.json"
    entries = json.loads(path.read_text())
    path.write_text(json.dumps([*entries, {**entries[0], "annotations": entries[0]["annotations"][:1]}]))

    name = f"train/{entries[0]['image']}"
    assert (
        f"{name}: expected an image with one label, found it again with another label. Remove the wrong one.",
        True,
    ) in _told(tmp_path)


def test_masks_of_equal_pixels_are_noted(tmp_path):
    for number in range(11):
        miniatures.write(tmp_path / f"images/{number:02d}.jpg", miniatures.make_image(seed=number))
        ids = np.random.default_rng(number % 9).integers(0, 3, (24, 32), np.uint8)
        miniatures.write(tmp_path / f"masks/{number:02d}.png", miniatures.gray(ids))

    message = (
        "masks/09.png: it has the same pixels as masks/00.png, the mask of another image, and so it is with 1 more mask. "
        "Check that each image has its own mask."
    )
    assert (message, False) in _told(tmp_path)
    for number in (9, 10):
        miniatures.write(tmp_path / f"images/{number:02d}.jpg", miniatures.make_image(seed=number - 9))
    assert not [line for line, _ in _told(tmp_path) if "has the same pixels" in line]


def test_a_box_of_two_classes_is_noted(tmp_path):
    miniatures.csv_boxes(tmp_path, more="p.jpg,dog,2,3,12,20\n")
    found = [line for line, fatal in _told(tmp_path) if "another class" in line and not fatal]

    assert found == ["images/p.jpg: box 2 is box 1 again, of another class. If an object has one class, remove one."]
