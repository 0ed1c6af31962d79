"""Labels in two versions, and images in two formats."""

from __future__ import annotations

import numpy as np
import pytest
from support.layouts import words
from support.miniatures import gray, make_image, write

from penstock.datasets import LayoutOptions

IDS = np.arange(24 * 32, dtype=np.uint8).reshape(24, 32) % 3


def masks(root, *folders):
    for number in range(6):
        write(root / f"images/{number}.jpg", make_image(seed=number))
        for turn, folder in enumerate(folders):
            write(root / f"{folder}/{number}.png", gray(np.roll(IDS, turn)))


def texts(root, images, label, *folders):
    for number in range(4):
        write(root / f"{images}/{number}.jpg", make_image(seed=number))
        for turn, folder in enumerate(folders):
            write(root / f"{folder}/{number}{label[0]}", label[1](turn))
    write(root / "data.yaml", "names: [cup]\n")


def xml(turn):
    return (
        f"<annotation><object><name>dog</name><bndbox><xmin>{turn + 1}</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax>"
        "</bndbox></object></annotation>"
    )


YOLO = ".txt", lambda turn: f"0 0.5 0.5 0.2 0.{turn + 3}\n"
XML = ".xml", xml


def two(one, other, choose="Move the one away that is not meant."):
    return f"{one}: expected one folder of labels, found {other} too, whose files have the same names and other content. {choose}"


@pytest.mark.parametrize("other", ["masks_v2", "masks2", "masks_corrected", "masks-old", "masks_pred", "predictions"])
def test_a_second_folder_of_masks_is_a_problem(tmp_path, other):
    masks(tmp_path, "masks", other)
    choose = "Choose it with --images and --masks, or move the other one away."
    (said,) = [message for message in words(tmp_path) if "one folder of labels" in message]
    assert said in (two(other, "masks", choose), two("masks", other, choose))
    for folder in ("masks", other):
        assert words(tmp_path, LayoutOptions(images="images", masks=folder)) == []


@pytest.mark.parametrize(
    ("images", "label", "folders"),
    [
        ("images", YOLO, ("labels", "labels_v2")),
        ("images", YOLO, ("labels", "images")),
        ("images", XML, ("annotations", "annotations_old")),
        ("images", XML, ("annotations", "images")),
    ],
)
def test_a_second_folder_of_annotations_is_a_problem(tmp_path, images, label, folders):
    texts(tmp_path, images, label, *folders)
    first, second = sorted(folders)
    assert words(tmp_path) == [two(second, first)]


def test_copies_and_drawings_are_none(tmp_path):
    masks(tmp_path, "masks")
    for number in range(6):
        write(tmp_path / f"masks_v2/{number}.png", (tmp_path / f"masks/{number}.png").read_bytes())
        write(tmp_path / f"masks_old/{number}.png", make_image(seed=number))
    assert words(tmp_path) == []


@pytest.mark.parametrize(
    ("one", "other", "more"),
    [("cat/{}.jpg", "cat/{}.png", "dog/{}.jpg"), ("PNG/images/{}.png", "JPG/images/{}.jpg", "")],
)
def test_images_in_two_formats_are_a_problem(tmp_path, one, other, more):
    for number in range(6):
        for place in filter(None, (one, other)):
            write(tmp_path / place.format(number), make_image(seed=number))
        for place in (
            each.replace("images", "masks").replace("jpg", "png") for each in (one, other) if "images" in each
        ):
            write(tmp_path / place.format(number), gray(IDS))
    for number in range(2 if more else 0):
        write(tmp_path / more.format(f"x{number}"), make_image(seed=50 + number))
    first, second = sorted((one.format(0), other.format(0)))
    assert [message for message in words(tmp_path) if "each image once" in message] == [
        f"{second}: expected each image once, found {first} too, as for 6 names of {8 if more else 6}. Move the files of one "
        "format away."
    ]


def test_folders_of_many_cases_are_none(tmp_path):
    """Nor does their number take time: a thousand of them make half a million pairs."""
    masks(tmp_path, *(f"masks/{'ab'[case % 2]}{case // 2}" for case in range(2)))
    for case in range(14):
        texts(tmp_path / f"case_v{case}", "images", YOLO, "labels")
    assert [message for message in words(tmp_path) if "one folder of labels" in message] == []
