from __future__ import annotations

import json

import cv2
import numpy as np
import pytest
from support.errors import refused
from support.miniatures import make_image, write

from penstock.datasets import class_lists, inspect
from penstock.datasets.class_lists import id_in, read_classes

NAMES = ("sky", "tree", "road")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("classes.json", ["sky", "tree", "road"]),
        ("id2label.json", {"2": "road", "0": "sky", "1": "tree"}),
        ("id2label.json", {"2": "road", "0": "sky", "1": "tree", "255": "nothing"}),
        ("label2id.json", {"tree": 1, "road": 2, "sky": 0}),
        ("label_map.json", {"tree": 1, "road": 2, "sky": 0, "void": 255}),
        ("classes.json", [{"id": 2, "name": "road"}, {"id": 0, "name": "sky"}, {"id": 1, "name": "tree"}]),
        ("notes.json", {"categories": [{"id": n, "name": name} for n, name in enumerate(NAMES)], "info": {}}),
    ],
)
def test_names_are_in_the_order_of_their_ids(tmp_path, name, content):
    (tmp_path / name).write_text(json.dumps(content))

    assert read_classes(tmp_path) == NAMES


@pytest.mark.parametrize("count", [255, 256, 257, 1000])
def test_many_are_all_there(tmp_path, count):
    names = [f"c{n}" for n in range(count)]
    (tmp_path / "classes.json").write_text(json.dumps(names))

    assert read_classes(tmp_path) == tuple(names)


def test_ten_and_more_are_ordered_as_numbers(tmp_path):
    (tmp_path / "id2label.json").write_text(json.dumps({str(n): f"c{n}" for n in sorted(range(13), key=str)}))

    assert read_classes(tmp_path) == tuple(f"c{n}" for n in range(13))


@pytest.mark.parametrize(
    "content",
    [
        {"a.jpg": 0, "b.jpg": 1},
        {"cat": 0, "dog": 0},
        {"cat": -1},
        {"cat": True},
        {"info": {}, "images": []},
        [1, 2],
        [["sky"]],
        "sky",
        {},
        [],
        None,
    ],
)
def test_json_of_another_form_is_passed_over(tmp_path, content):
    """As labels of images are, and annotations."""
    (tmp_path / "labels.json").write_text(json.dumps(content))
    (tmp_path / "label_map.json").write_text(json.dumps(list(NAMES)))

    assert read_classes(tmp_path) == NAMES


def test_ids_of_json_may_begin_with_1(tmp_path):
    (tmp_path / "classes.json").write_text(json.dumps({"1": "sky", "2": "tree"}))
    assert read_classes(tmp_path) == ("class0", "sky", "tree")


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "\x00", '["sky", "tree"]' + " " * (1 << 20)])
def test_what_cannot_be_read_is_passed_over(tmp_path, text):
    (tmp_path / "labels.json").write_text(text)

    assert read_classes(tmp_path) == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"1": "sky", "3": "tree"},
            "expected class names for the ids from 0 on, without gaps, found ids 1, 3. Name every id, or write "
            "classes.txt with a line for each.",
        ),
        (
            ["sky", "sky"],
            "expected a class name for every id, each of them once, found 'sky' for the ids 0 and 1. Give every class a "
            "name of its own.",
        ),
    ],
)
def test_names_that_do_not_fit_are_refused(tmp_path, content, message):
    path = tmp_path / "classes.json"
    path.write_text(json.dumps(content))

    refused(read_classes, tmp_path, message=f"{path}: {message}")


@pytest.mark.parametrize("name", ["label_names.txt", "id2label.json"])
def test_a_folder_of_masks_has_them(tmp_path, name):
    for kind in ("images", "masks"):
        (tmp_path / kind).mkdir()
    for number in range(4):
        cv2.imwrite(str(tmp_path / f"images/{number}.png"), np.full((8, 8, 3), 60 * number, np.uint8))
        cv2.imwrite(str(tmp_path / f"masks/{number}.png"), np.arange(64, dtype=np.uint8).reshape(8, 8) % 3)
    text = "\n".join(NAMES) if name.endswith("txt") else json.dumps(dict(enumerate(NAMES)))
    (tmp_path / name).write_text(text)

    report = inspect(tmp_path)

    assert report.labels.classes == NAMES
    assert [problem for problem in report.problems if name in problem.message] == []


def test_a_number_of_thousands_of_digits_is_no_id(tmp_path):
    for number in range(2):
        write(tmp_path / f"train/{number}.png", make_image(seed=number))
    write(tmp_path / "train/metadata.csv", "file_name,label\n0.png,2\n1.png,1" + "0" * 5000)

    assert inspect(tmp_path).labels.classes == ("1" + "0" * 5000, "2")
    assert [id_in(text) for text in ("7", "007", "-1", "x", "", "1" * 5000)] == [7, 7, -1, -1, -1, -1]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("codes.txt", "sky\ntree\nroad\n"),
        ("classes.txt", "0 sky\n1 tree\n2 road\n"),
        ("classes.txt", "0: sky\n1: tree\n2: road\n"),
        ("classes.txt", "0\tsky\n1\ttree\n2\troad\n"),
        ("classes.txt", "# id name\n0 sky\n1 tree\n2 road\n"),
        ("label_names.txt", "id name\n0 sky\n1 tree\n2 road\n"),
        ("labels.txt", "__ignore__\nsky\ntree\nroad\n"),
        ("classes.csv", "id,name\n2,road\n0,sky\n1,tree\n"),
        ("classes.csv", "name,id\nsky,0\ntree,1\nroad,2\n"),
        ("classes.csv", "name,id\nroad,2.0\nsky,0.0\ntree,1.0\n"),
        ("classes.csv", "name\nsky\ntree\nroad\n"),
        ("classes.txt", "road 2\nsky 0\ntree 1\n"),
        ("classes.txt", "sky: 0\nroad: 2\ntree: 1\n"),
        ("classes.txt", "# the classes\nsky\ntree\nroad\n"),
        ("classes.json", '{"classes": ["sky", "tree", "road"]}'),
        ("label_map.json", '{"road": "2", "sky": "0", "tree": "1"}'),
        ("train/_classes.csv", "Pixel Value, Class\n0, sky\n1, tree\n2, road\n"),
        ("classes.yaml", "names:\n  0: sky\n  1: tree\n  2: road\n"),
        ("classes.yml", "[sky, tree, road]"),
        ("label_num_to_disease_map.json", '{"0": "sky", "1": "tree", "2": "road"}'),
    ],
)
def test_names_are_read_in_every_form(tmp_path, name, text):
    write(tmp_path / name, text)
    assert read_classes(tmp_path) == NAMES


@pytest.mark.parametrize("text", ["name,r,g,b\nsky,0,0,0\ntree,1,1,1\n", "file,label\na.jpg,3\nb.jpg,4\n"])
def test_tables_of_something_else_name_no_classes(tmp_path, text):
    write(tmp_path / "classes.csv", text)
    assert read_classes(tmp_path) == ()


@pytest.mark.parametrize(
    "text", ["1 sky\n2 tree\n3 road\n", "id name\n1 sky\n2 tree\n3 road\n", "1,sky\n2,tree\n3,road"]
)
def test_ids_from_1_on_leave_id_0_without_a_name(tmp_path, text):
    write(tmp_path / ("classes.csv" if "," in text else "classes.txt"), text)
    assert read_classes(tmp_path) == ("class0", *NAMES)


def test_a_gap_in_the_ids_is_refused(tmp_path):
    write(tmp_path / "classes.txt", "0 sky\n2 tree\n3 road\n")
    refused(
        read_classes, tmp_path,
        message=f"{tmp_path}/classes.txt: expected class names for the ids from 0 on, without gaps, found ids 0, 2, 3. Name "
        "every id, or write classes.txt with a line for each.",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("classes.txt", "0 sky\n1 tree\n1 road\n", "expected a name for each id, found two of id 1. Correct the ids."),
        ("classes.csv", "id,name\n0,sky\n1,tree\n1,road\n", "expected a name for each id, found two of id 1. Correct the ids."),
        ("id2label.json", '{"0": "sky", "1": "tree", "1": "road"}', "expected names of classes, found '1' twice. Fix the file, or remove it."),
        ("classes.yaml", "0: sky\n1: tree\n1: road\n", "expected names of classes, found '1' twice. Fix the file, or remove it."),
        ("classes.json", '// classes\n["sky", "tree"]', "expected names of classes, found Expecting value: line 1 column 1 (char 0). Fix the file, or remove it."),
    ],
)  # fmt: skip
def test_lists_that_say_two_things_are_refused(tmp_path, name, text, message):
    write(tmp_path / name, text)
    refused(read_classes, tmp_path, message=f"{tmp_path}/{name}: {message}")


def test_lists_of_the_same_names_in_another_order_are_refused(tmp_path):
    write(tmp_path / "classes.txt", "sky\ntree\nroad\n")
    write(tmp_path / "id2label.json", '{"0": "sky", "1": "road", "2": "tree"}')
    refused(
        read_classes, tmp_path,
        message=f"{tmp_path}/id2label.json: expected the classes of classes.txt, sky, tree, road, in the same order, found "
        "sky, road, tree. Remove the list whose ids are not those of the labels.",
    )  # fmt: skip
    write(tmp_path / "id2label.json", '{"0": "Himmel", "1": "Baum", "2": "Weg"}')
    assert read_classes(tmp_path) == NAMES


@pytest.mark.parametrize(
    "text", ["type 1\ntype 2\ntype 3\n", "boeing 737\nairbus 320\n", "3 series\n5 series\n3 wheels\n"]
)
def test_names_with_numbers_are_names(tmp_path, text):
    write(tmp_path / "classes.txt", text)
    assert read_classes(tmp_path) == tuple(text.splitlines())


@pytest.mark.parametrize("text", ["101 dalmatians\n7 dwarfs\n", "7 up\n8 ball\n"])
def test_names_that_begin_with_numbers_are_names(tmp_path, text):
    write(tmp_path / "classes.txt", text)
    assert read_classes(tmp_path) == tuple(text.splitlines())


def test_notes_of_something_else_name_no_classes(tmp_path):
    (tmp_path / "notes.json").write_text('{"version": 2}')

    assert read_classes(tmp_path) == ()


def test_numbers_with_fractions_have_their_order():
    names = ["2.5", "dog", "10.0", "0.30000000000000004", "1.0", "cat", "3"]
    assert sorted(names, key=class_lists.by_number) == ["cat", "dog", "0.30000000000000004", "1.0", "2.5", "3", "10.0"]
