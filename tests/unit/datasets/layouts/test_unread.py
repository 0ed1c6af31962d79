"""Lists, arrays and archives beside the data that no layout reads."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
from support.layouts import notes, words
from support.miniatures import gray, make_image, write

from penstock.datasets import inspect

IDS = np.arange(24 * 32, dtype=np.uint8).reshape(24, 32) % 3


def classes(root):
    for number in range(6):
        write(root / f"{('cat', 'dog')[number % 2]}/p{number}.jpg", make_image(seed=number))


def masks(root):
    for number in range(6):
        write(root / f"images/p{number}.png", make_image(seed=number))
        write(root / f"masks/p{number}.png", gray(IDS))


@pytest.mark.parametrize("layout", [classes, masks])
@pytest.mark.parametrize("file", ["exclude.txt", "corrupted_images.txt", "blacklist.lst", "lists/bad.csv", "part1.txt"])
def test_a_list_of_some_images_is_a_problem(tmp_path, layout, file):
    layout(tmp_path)
    write(tmp_path / file, "p0\np3\n")
    assert words(tmp_path) == [
        f"{file}: expected lists that are read, found one that names 2 of 6 images and is not called as a split. If these "
        "images are to be left out, move them out of the folder; if they are a split, call the list train.txt, val.txt or "
        "test.txt; if neither, move the list away."
    ]


def test_what_the_message_of_a_list_says_works(tmp_path):
    classes(tmp_path)
    write(tmp_path / "exclude.txt", "cat/p0.jpg\ndog/p3.jpg\n")
    for name in ("cat/p0.jpg", "dog/p3.jpg"):
        (tmp_path / name).unlink()
    assert words(tmp_path) == []
    assert len(inspect(tmp_path).items) == 4


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("images.txt", "".join(f"p{number}.jpg\n" for number in range(6))),
        ("notes.txt", "p0.jpg is of 2019\nall others are new\nand larger\n"),
        ("captions.txt", "p0.jpg,a cat\np0.jpg,a gray cat\np1.jpg,a dog\n"),
        ("README.txt", "p0.jpg\n"),
        ("val.txt", "p0.jpg\np1.jpg\n"),
        ("notes/old/exclude.txt", "p0.jpg\np1.jpg\n"),
    ],
)
def test_what_is_no_list_of_some_images_is_no_problem(tmp_path, file, text):
    classes(tmp_path)
    write(tmp_path / file, text)
    assert words(tmp_path) == []


@pytest.mark.parametrize("file", ["train_idx.npy", "val_ids.npy", "splits.pkl", "setid.mat", "folds/../split_5.npz"])
def test_splits_in_forms_of_programs_are_a_problem(tmp_path, file):
    masks(tmp_path)
    (tmp_path / "folds").mkdir()
    write(tmp_path / file, b"\x93NUMPY")
    name = file.rpartition("/")[2]
    assert words(tmp_path) == [
        f"{name}: expected a list of names in text, found a file that is called as one of splits and is not read. Write the "
        "names of the images to train.txt, val.txt and test.txt, a line each, or move the file away."
    ]


def test_arrays_of_something_else_are_no_lists(tmp_path):
    masks(tmp_path)
    for name in ("features.npy", "train_features.npy", "model.pth"):
        write(tmp_path / name, b"\x93NUMPY")
    assert words(tmp_path) == []


def test_a_list_of_classes_by_numbers_is_no_list_of_images(tmp_path):
    for number in range(6):
        write(tmp_path / f"images/{number}.png", make_image(seed=number))
        write(tmp_path / f"masks/{number}.png", gray(IDS))
    write(tmp_path / "names.txt", "0 cup\n1 disc\n2 rim\n")
    assert words(tmp_path) == []


def test_a_folder_that_is_no_part_of_the_layout_is_named(tmp_path):
    masks(tmp_path)
    write(tmp_path / "held_out/p9.jpg", make_image(seed=9))
    write(tmp_path / "held_out/more/p8.jpg", make_image(seed=8))
    assert "held_out/: 2 images, such as held_out/more/p8.jpg, are no part of the layout. They are left out." in notes(
        tmp_path
    )


def test_a_table_in_another_encoding_is_named(tmp_path):
    classes(tmp_path)
    write(tmp_path / "data.csv", "Datei,Art\np0.jpg,L\xf6we\n".encode("latin-1"))
    assert [note for note in notes(tmp_path) if "data.csv: expected CSV in UTF-8" in note]


@pytest.mark.parametrize("layout", [classes, masks])
def test_an_archive_is_named(tmp_path, layout):
    layout(tmp_path)
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        archive.writestr("cat/p9.jpg", b"")
    found = "more.zip: it is an archive, whose files are not read. Unpack it if they belong to the data."
    assert [note for note in notes(tmp_path) if note.startswith("more.zip")] == [found]


@pytest.mark.parametrize("file", ["exclude.txt", "train.txt", "val.csv"])
def test_a_list_that_is_a_link_to_nothing_is_none(tmp_path, file):
    classes(tmp_path)
    (tmp_path / file).symlink_to("gone")
    assert [word for word in words(tmp_path) if "list" in word] == []
