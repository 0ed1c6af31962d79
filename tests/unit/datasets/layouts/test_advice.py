from __future__ import annotations

import numpy as np
import pytest
from support.layouts import notes, words
from support.miniatures import gray, make_image, write

from penstock.datasets import LayoutOptions, inspect


@pytest.mark.parametrize(
    ("name", "end", "remedy"),
    [
        ("data{}.zip", ".zip", "Unpack the archive, and name the folder in it"),
        ("cat/{}.cr2", ".cr2", "Convert the files to JPEG, PNG or TIFF"),
    ],
)
def test_files_of_an_unknown_type_are_named_by_their_type(tmp_path, name, end, remedy):
    for number in range(3):
        write(tmp_path / name.format(number), b"x")
    write(tmp_path / "README.md", "what it is")

    assert words(tmp_path) == [f"{tmp_path}: no image of a known format was found, but 3 {end} files. {remedy}."]


def test_a_layout_that_is_asked_for_says_what_it_looks_like(tmp_path):
    write(tmp_path / "pictures/a.jpg", make_image())

    (found,) = words(tmp_path, LayoutOptions("voc"))
    assert found.endswith(
        " The layout voc has these files: JPEGImages/a.jpg  SegmentationClass/a.png  ImageSets/Segmentation/train.txt."
    )


def test_layouts_that_come_near_are_named_with_what_is_there(tmp_path):
    for number in range(3):
        write(tmp_path / f"{number}.jpg", make_image(seed=number))
    write(tmp_path / "0.txt", "0 0.5 0.5 0.2 0.2\n")
    write(tmp_path / "table.csv", "photo,kind\nmissing.jpg,cat\n")

    (found,) = words(tmp_path)
    assert found.partition(" These layouts come near:")[2].splitlines()[1:-1] == [
        "  yolo: 1 text file in the folder itself, 3 images in the folder itself. Expected: text files in labels/ with the "
        "names of the images in images/.",
        "  csv: table.csv with the columns photo, kind. Expected: columns file and label.",
        "  masks: 3 images in the folder itself. Expected: the images in images/, and masks of the same names in masks/.",
    ]


def test_of_images_alone_three_layouts_are_named(tmp_path):
    write(tmp_path / "a.jpg", make_image())
    write(tmp_path / "b.jpg", make_image(seed=1))

    (found,) = words(tmp_path)
    assert found.partition(" These layouts come near:")[2].splitlines()[1:-1] == [
        "  masks: 2 images in the folder itself. Expected: the images in images/, and masks of the same "
        "names in masks/.",
        "  named-masks: 2 images in the folder itself. Expected: a mask a_mask.png beside each image a.jpg.",
        "  folders: 2 images in the folder itself. Expected: a folder for each class, with its images in it.",
    ]


def test_a_table_that_names_images_says_how_its_classes_are_found(tmp_path):
    """Of the columns with several values and few empty cells, the one with the fewest values is the likely class."""
    for number in range(4):
        write(tmp_path / f"{number}.jpg", make_image(seed=number))
    rows = [f"{n + 1};{n}.jpg;{kind};Depot;{note}" for n, (kind, note) in enumerate(zip("abab", "xy  ", strict=True))]
    write(tmp_path / "list.csv", "\n".join(["No;Photo;Kind;Place;Remark", *rows]))
    (found,) = words(tmp_path)
    assert found == (
        f"{tmp_path}/list.csv: its column Photo names images, but no column has a known name for labels. It has the columns No, "
        "Photo, Kind, Place, Remark. If one of them is the class, name it, for example with --field image=Photo --field "
        "label=Kind. If not, describe the layout in a file of your own with --layout FILE.py:NAME (docs/layouts.md)."
    )
    assert words(tmp_path, LayoutOptions(fields={"image": "Photo", "label": "Kind"})) == []


def test_a_table_that_class_folders_do_not_read_is_a_problem_and_beside_masks_a_note(tmp_path):
    for number in range(4):
        write(tmp_path / f"c/{'ab'[number % 2]}/{number}.jpg", make_image(seed=number))
        write(tmp_path / f"m/images/{number}.jpg", make_image(seed=number))
        write(tmp_path / f"m/masks/{number}.png", gray(np.eye(24, 32, dtype=np.uint8)))
    for folder in "cm":
        write(
            tmp_path / folder / "about.csv",
            "photo,tags\n" + "".join(f"{number}.jpg,red {number}\n" for number in range(4)),
        )
    assert words(tmp_path / "c") == [
        "about.csv: expected a layout that reads it, as its column photo names images, found one folder per class. It has the "
        "columns photo, tags. If one of them is the class, name it, for example with --field image=photo --field label=tags. "
        "If not, describe the layout in a file of your own with --layout FILE.py:NAME (docs/layouts.md), or confirm the "
        "folders with --layout folders."
    ]
    assert words(tmp_path / "c", LayoutOptions("folders")) == []
    for folder, layout in (("c", "folders"), ("m", "")):
        assert notes(tmp_path / folder, layout) == [
            "about.csv: its column photo names images, but it is not read. It has the columns photo, tags."
        ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"images": [], "boxes": []}', "the keys images, boxes"),
        ('[{"file": "0.jpg", "box": [1, 2]}, {"file": "1.jpg"}]', "a list of 2 values with the keys file, box"),
        ("[1]", "a list of 1 value with other values"),
        ("7", "a single value"),
        ("{", "no JSON"),
    ],
)
def test_json_of_no_known_tool_is_described(tmp_path, content, said):
    for number in range(3):
        write(tmp_path / f"{number}.jpg", make_image(seed=number))
    write(tmp_path / "labels.json", content)

    (found,) = words(tmp_path)
    assert found.partition(" These layouts come near:")[2].splitlines()[1] == (
        "  1 JSON file in the folder itself, 3 images in the folder itself. labels.json holds "
        f"{said}. Expected: images, annotations, categories (coco); or size, objects (supervisely); or a list with data, "
        "annotations (label-studio); or a list with image, annotations (createml); or regions, filename (via); or "
        "version, shapes, imagePath (labelme)."
    )


def test_images_of_less_usual_names_are_images(tmp_path):
    write(tmp_path / "cat/a.jfif", make_image())
    write(tmp_path / "dog/b.JPE", make_image(seed=1))

    assert len(inspect(tmp_path).items) == 2


def test_volumes_are_no_archives(tmp_path):
    for name in ("a/ct.nii.gz", "a/seg.nii.gz"):
        write(tmp_path / name, b"x")

    assert words(tmp_path) == [
        f"{tmp_path}: no image of a known format was found, but 2 .nii.gz files. Put volumes into images/ and their labels "
        "into labels/, or call them CASE/CASE_t1 and CASE/CASE_seg."
    ]
