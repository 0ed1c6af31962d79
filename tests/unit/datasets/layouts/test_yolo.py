from __future__ import annotations

import numpy as np
import pytest
from support import miniatures
from support.commands import call
from support.datasets import records
from support.layouts import names_of, notes, pack_miniature, pack_skipping, words

from penstock.datasets import FolderDataset, LayoutOptions, inspect, pack
from penstock.errors import DatasetError
from penstock.kinds.fields import decode_detection


def test_yolo_boxes_are_middles_and_shares(tmp_path):
    dataset = pack_miniature("yolo", tmp_path)
    found = {r.name: r for r in map(decode_detection, records(dataset, "train"))}
    date, fig = found["a"].objects

    assert (date.text, fig.text) == ("date", "fig")
    assert [date.left, date.top, date.right, date.bottom] == pytest.approx([12, 6, 20, 18], abs=1e-5)
    assert [fig.left, fig.top, fig.right, fig.bottom] == pytest.approx([0, 0, 16, 12], abs=1e-5)
    assert found["nothing"].objects == ()


@pytest.mark.parametrize("number", ["nan", "1e20", "-inf", "1000"])
@pytest.mark.parametrize("line", ["0 {} 0.5 0.25 0.5", "0 {} 0.1 0.5 0.1 0.5 0.5"])
def test_numbers_that_are_no_coordinates_are_named(tmp_path, number, line):
    miniatures.yolo(tmp_path)
    path = tmp_path / "labels/val/a.txt"
    path.write_text(line.format(number) + "\n")

    for task in ("detection", "segmentation"):
        if task == "segmentation":
            (tmp_path / "labels/train/a.txt").write_text("0 0.1 0.1 0.5 0.1 0.5 0.5\n")
        assert words(tmp_path, LayoutOptions(task=task))[0] == (
            f"{path}, line 1: expected a class and four numbers: the middle (x, y), the width and the height of a box, or "
            f"the points of an outline, found {line.format(number)}. Fix the line."
        )


def test_two_images_of_one_text_file_are_named(tmp_path):
    miniatures.yolo(tmp_path)
    miniatures.write(tmp_path / "images/train/a.png", miniatures.make_image(seed=9))

    assert words(tmp_path) == [
        "images/train/a.png: expected one image of this name, found images/train/a.jpg too. Rename or remove one of them.",
        "images/train/a.jpg: expected one image of this name, found images/train/a.png too. Rename or remove one of them.",
    ] or words(tmp_path) == [
        "images/train/a.jpg: expected one image of this name, found images/train/a.png too. Rename or remove one of them.",
        "images/train/a.png: expected one image of this name, found images/train/a.jpg too. Rename or remove one of them.",
    ]


@pytest.mark.parametrize("parted", [False, True])
def test_yolo_names_may_lie_with_the_labels(tmp_path, parted):
    """LabelImg writes classes.txt there."""
    for split in ("train", "val") if parted else ("",):
        miniatures.write(tmp_path / split / "images/a.jpg", miniatures.make_image(seed=len(split)))
        miniatures.write(tmp_path / split / "labels/a.txt", "1 0.5 0.5 0.25 0.5\n")
        miniatures.write(tmp_path / split / "labels/classes.txt", "fig\ndate\n")
    found = inspect(tmp_path)

    assert (found.layout.name, found.labels.classes, found.fatal) == ("YOLO", ("fig", "date"), [])


def test_a_list_of_names_alone_is_no_yolo(tmp_path):
    for number in range(3):
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"labels/{number}.png", miniatures.gray(np.full((24, 32), number % 2, np.uint8)))
    miniatures.write(tmp_path / "labels/classes.txt", "fig\ndate\n")

    assert inspect(tmp_path).layout.task == "segmentation"


def test_a_yolo_line_that_is_no_box_is_named(tmp_path):
    miniatures.yolo(tmp_path)
    path = tmp_path / "labels/val/a.txt"
    path.write_text("1 0.5 0.5 0.25 0.5\n0 0.25 x 0.5 0.5\n")
    (problem,) = inspect(tmp_path).fatal

    assert (problem.file, problem.message) == (
        "images/val/a.jpg",
        f"{path}, line 2: expected a class and four numbers: the middle (x, y), the width and the height of a box, "
        "or the points of an outline, found 0 0.25 x 0.5 0.5. Fix the line.",
    )


def test_yolo_outlines_become_the_boxes_around_them(tmp_path):
    miniatures.yolo(tmp_path / "raw")
    (tmp_path / "raw/labels/train/a.txt").write_text("1 0.25 0.5 0.5 0.25 0.75 0.75\n")
    found = inspect(tmp_path / "raw")
    dataset = pack(found, tmp_path / "data")
    assert found.layout.reasons[1] == "boxes are the upright ones around outlines"
    (box,) = next(r for r in map(decode_detection, records(dataset, "train")) if r.name == "a").objects

    assert [box.left, box.top, box.right, box.bottom] == pytest.approx([8, 6, 24, 18], abs=1e-5)


def test_yolo_poses_have_boxes_before_their_key_points(tmp_path):
    miniatures.yolo(tmp_path / "raw")
    names = (tmp_path / "raw/data.yaml").read_text()
    (tmp_path / "raw/data.yaml").write_text(names + "kpt_shape: [2, 2]\n")
    (tmp_path / "raw/labels/train/a.txt").write_text("1 0.5 0.5 0.25 0.5 0.45 0.45 0.55 0.55\n")
    found = inspect(tmp_path / "raw")
    dataset = pack(found, tmp_path / "data")
    assert found.layout.reasons[0].endswith("; key points, which have no task, are left out")
    (box,) = next(r for r in map(decode_detection, records(dataset, "train")) if r.name == "a").objects

    assert [box.left, box.top, box.right, box.bottom] == pytest.approx([12, 6, 20, 18], abs=1e-5)


def test_lines_of_yolo(tmp_path, capsys):
    raw = tmp_path / "raw"
    miniatures.yolo(raw)
    miniatures.write(raw / "images/train/b.jpg", miniatures.make_image(seed=9))
    (raw / "labels/train/b.txt").write_text("0 0.5 0.5\n")
    miniatures.write(raw / "images/train/c.jpg", miniatures.make_image(seed=8))
    (raw / "labels/train/c.txt").write_text("7 0.5 0.5 0.5 0.5\n")

    found = inspect(raw)
    assert [problem.file for problem in found.fatal] == ["images/train/b.jpg", "images/train/c.jpg"]
    assert [problem.message for problem in found.problems if not problem.fatal] == [
        f"images/{split}/nothing.jpg: no text file of the same name in labels/: it is taken as an image without objects."
        for split in ("train", "val")
    ]
    pack_skipping(tmp_path, capsys)
    assert names_of(tmp_path, decode_detection) == ["a", "nothing"]


def test_yolo_without_names_takes_them(tmp_path, capsys):
    raw = tmp_path / "raw"
    miniatures.yolo(raw)
    (raw / "data.yaml").unlink()

    assert "classes (2, inferred from the labels): class0, class1\n" in call("inspect", raw, capsys=capsys)[1]
    pack_skipping(tmp_path, capsys, "--classes", "fig,date")
    assert FolderDataset.open(tmp_path / "data").description.classes == ("fig", "date")


@pytest.mark.parametrize(
    ("text", "classes"),
    [("names: [no, yes]", ("no", "yes")), ("names: [2024-01-01, 007, 1e3]", ("2024-01-01", "007", "1e3"))],
)
def test_yolos_names_are_the_words_that_stand_there(tmp_path, text, classes):
    miniatures.yolo(tmp_path)
    (tmp_path / "data.yaml").write_text(text)

    assert inspect(tmp_path).labels.classes == classes


def test_names_that_grow_without_end_are_refused_at_once(tmp_path):
    miniatures.yolo(tmp_path)
    levels = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 30))
    (tmp_path / "data.yaml").write_text(f"l0: &l0 [x]\n{levels}\nnames: *l29\n")

    assert words(tmp_path)[0].startswith(f"{tmp_path / 'data.yaml'}: names: expected a list of names, ")


def test_text_files_of_yolo_that_are_links_to_nothing(tmp_path):
    miniatures.yolo(tmp_path)
    (tmp_path / "labels/train/nothing.txt").symlink_to(tmp_path / "gone")

    assert words(tmp_path) == [
        "labels/train/nothing.txt: expected a text file, found a link to nothing. Fix it, or leave the image out with "
        "--skip-bad."
    ]


@pytest.mark.parametrize(
    ("box", "shares"), [("0.1,0.1,0.5,1.0001", True), ("0.1,nan,0.5,0.9", True), ("0,0,1,2", False)]
)
def test_shares_may_be_a_little_beyond_the_image(tmp_path, box, shares):
    miniatures.csv_boxes(tmp_path, box="0.2,0.2,0.6,0.6")
    path = tmp_path / "boxes.csv"
    path.write_text(path.read_text() + f"p.jpg,cat,{box}\n")
    (each,) = inspect(tmp_path).items

    assert (each.item.label[0].right == pytest.approx(0.6 * 32)) == shares


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("{0: fig, 5: date}", "expected a list of names, or a table of them by the ids 0, 1, 2, ... without gaps, found {'0': 'fig', '5': 'date'}. List the names in the order of their ids, which count from 0 in the text files too."),
        ("fig", "expected a list of names, or a table of them by the ids 0, 1, 2, ... without gaps, found 'fig'. List the names in the order of their ids, which count from 0 in the text files too."),
        ("[fig, [date]]", "expected a list of names, or a table of them by the ids 0, 1, 2, ... without gaps, found ['fig', ['date']]. List the names in the order of their ids, which count from 0 in the text files too."),
    ],
)  # fmt: skip
def test_yolos_names_are_checked(tmp_path, names, message):
    miniatures.yolo(tmp_path)
    (tmp_path / "data.yaml").write_text(f"names: {names}\n")

    assert words(tmp_path) == [f"{tmp_path / 'data.yaml'}: names: {message}"]


def test_yolos_names_go_by_their_ids_and_may_lie_with_the_labels(tmp_path):
    miniatures.yolo(tmp_path)
    (tmp_path / "data.yaml").write_text("names:\n  1: date\n  0: fig\n")
    assert inspect(tmp_path).labels.classes == ("fig", "date")
    (tmp_path / "data.yaml").unlink()
    (tmp_path / "labels/classes.txt").write_text("a\nb\n")
    assert inspect(tmp_path).labels.classes == ("a", "b")


@pytest.mark.parametrize("label", ["400000000", "inf", "-1", "0.5"])
def test_yolos_classes_are_small_whole_numbers(tmp_path, label):
    miniatures.yolo(tmp_path)
    path = tmp_path / "labels/train/a.txt"
    path.write_text(f"{label} 0.5 0.5 0.2 0.2\n")

    assert words(tmp_path)[0].startswith(f"{path}, line 1: expected a class and four numbers")


def test_text_files_may_lie_beside_their_images(tmp_path):
    """Darknet's, as CVAT exports it: names in obj.names, splits in lists whose paths begin elsewhere."""
    for number in range(6):
        folder = "obj_val_data" if number > 3 else "obj_train_data"
        miniatures.write(tmp_path / f"{folder}/{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"{folder}/{number}.txt", f"{number % 2} 0.5 0.5 0.25 0.5\n" * (number > 0))
    miniatures.write(tmp_path / "obj.names", "zebra\napple\n")
    miniatures.write(
        tmp_path / "obj.data", "classes = 2\ntrain = data/train.txt\nval = data/val.txt\nnames = data/obj.names\n"
    )
    for split, numbers in (("train", range(4)), ("val", (4, 5))):
        lines = "".join(f"data/obj_{split}_data/{number}.jpg\n" for number in numbers)
        miniatures.write(tmp_path / f"{split}.txt", lines)
    found = inspect(tmp_path)

    assert (found.layout.task, found.fatal, found.labels.classes) == ("detection", [], ("zebra", "apple"))
    assert {
        split: [[box.label for box in each.item.label] for each in items] for split, items in found.splits.items()
    } == {
        "train": [[], [1], [0], [1]],
        "val": [[0], [1]],
    }


def test_numbers_beside_images_that_are_no_boxes_are_none(tmp_path):
    for number in range(3):
        miniatures.write(tmp_path / f"{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"{number}.txt", "a cat on a sofa\n")
    assert "expected a known layout" in words(tmp_path)[0]
    for number in range(3):
        miniatures.write(tmp_path / f"{number}.txt", b"a caf\xe9 by the sea\n")  # in Latin-1
    assert "expected a known layout" in words(tmp_path)[0]


def test_classes_may_lie_beside_images_and_labels_in_a_folder_below(tmp_path):
    """As labelImg leaves them."""
    for number in range(3):
        miniatures.write(tmp_path / f"Labels & images/{number} x.jpeg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"Labels & images/{number} x.txt", "1 0.5 0.5 0.2 0.2\n")
    miniatures.write(tmp_path / "Labels & images/classes.txt", "cat\ndog\n")
    found = inspect(tmp_path)

    assert (found.fatal, found.labels.classes) == ([], ("cat", "dog"))


@pytest.mark.parametrize("root", ["", "path: /home/me/data\n", "path: ../datasets/mine\n"])
def test_the_yaml_file_says_which_folder_is_which_split(tmp_path, root):
    """Whatever the folders are called, and wherever the data lay."""
    for number, part in enumerate(("part1", "part1", "holdout", "val", "spare")):
        miniatures.write(tmp_path / f"images/{part}/{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"labels/{part}/{number}.txt", "0 0.5 0.5 0.2 0.2\n")
    (tmp_path / "data.yaml").write_text(
        f"{root}train: [images/part1, images/val]\nval: ./images/holdout\nnames: [cat]\n"
    )
    found = inspect(tmp_path)

    assert {name: [item.item.name for item in items] for name, items in found.splits.items()} == {
        "train": ["part1/0", "part1/1", "val/3"],
        "val": ["holdout/2"],
    }
    assert notes(tmp_path) == ["images/spare/4.jpg: no split of the YAML file has its folder. It is left out."]


def test_the_yaml_file_decides_where_folders_are_called_otherwise(tmp_path):
    for number, part in enumerate(("train", "train", "val")):
        miniatures.write(tmp_path / f"images/{part}/{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"labels/{part}/{number}.txt", "0 0.5 0.5 0.2 0.2\n")
    (tmp_path / "data.yaml").write_text("train: images/val\nval: images/train\nnames: [cat]\n")
    found = inspect(tmp_path)

    assert {name: [item.item.name for item in items] for name, items in found.splits.items()} == {
        "val": ["0", "1"],
        "train": ["2"],
    }


def test_text_files_may_be_called_in_capitals(tmp_path):
    for number, end in enumerate((".txt", ".TXT")):
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"labels/{number}{end}", "0 0.5 0.5 0.2 0.2\n")

    assert [len(item.item.label) for item in inspect(tmp_path).items] == [1, 1]


def test_boxes_in_pixels_are_named_as_such(tmp_path):
    """Cut at the edges, each would be the whole image."""
    for number in range(2):
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"labels/{number}.txt", "0 10 12 30 40\n" if number else "0 0.5 0.5 0.2 0.2\n")

    assert words(tmp_path, LayoutOptions("yolo")) == [
        f"{tmp_path}/labels/1.txt, line 1: expected the middle, the width and the height of a box in fractions of the image's "
        "width and height, found 0 10 12 30 40. If the numbers are pixels, divide them by the image's width and height."
    ]


def named_twice(root, first, second, files):
    """Images and boxes in two splits, and a list of names in two files."""
    for number, split in enumerate(("train", "val")):
        miniatures.write(root / f"{split}/images/{split}.jpg", miniatures.make_image(seed=number))
        miniatures.write(root / f"{split}/labels/{split}.txt", "1 0.5 0.5 0.2 0.3\n")
    for file, names in zip(files, (first, second), strict=True):
        is_yaml = file.endswith("yaml")
        miniatures.write(root / file, f"names: [{', '.join(names)}]" if is_yaml else "\n".join(names) + "\n")


PLACES = [
    ("train/labels/classes.txt", "val/labels/classes.txt"), ("train/dataset.yaml", "val/dataset.yaml"),
    ("data.yaml", "dataset.yaml"), ("train/obj.names", "val/data.yaml"),
]  # fmt: skip


@pytest.mark.parametrize("files", PLACES)
def test_lists_of_names_that_contradict_each_other_are_refused(tmp_path, files):
    named_twice(tmp_path, ("cat", "dog"), ("dog", "cat"), files)
    with pytest.raises(DatasetError) as caught:
        inspect(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}/{files[1]}: expected the names of {files[0]}, as an id is one class in the whole dataset, found dog "
        "instead of cat for id 0. Number the classes alike in all text files, and keep one list of names."
    )


@pytest.mark.parametrize("files", PLACES)
def test_of_lists_that_begin_alike_the_longest_counts(tmp_path, files):
    named_twice(tmp_path, ("cat", "dog"), ("cat", "dog", "eel"), files)
    assert inspect(tmp_path).labels.classes == ("cat", "dog", "eel")


def test_a_dataset_without_any_object_is_refused(tmp_path):
    named_twice(tmp_path, ("cat", "dog"), ("cat", "dog"), PLACES[2])
    for path in tmp_path.glob("*/labels/*.txt"):
        path.write_text("")
    assert words(tmp_path) == [
        "train/images/train.jpg: expected an object in any image, found none. Check where the labels are, and how they "
        "were exported."
    ]


def test_ids_that_begin_at_1_are_noted(tmp_path):
    named_twice(tmp_path, ("cat", "dog"), ("cat", "dog"), PLACES[2])
    (note,) = (each for each in inspect(tmp_path).problems if each.kind == "id 0 is not used")
    assert (note.fatal, note.message) == (
        False,
        f"{tmp_path}: no box has the id 0, cat. If ids are counted from 1, every box has the name of the next class: "
        "subtract 1 from the ids.",
    )


def test_folders_of_splits_may_be_written_in_capitals(tmp_path):
    for number, split in enumerate(("Train", "Valid")):
        miniatures.write(tmp_path / f"{split}/Images/{split}.jpg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"{split}/Labels/{split}.txt", "0 0.5 0.5 0.2 0.3\n")
    found = inspect(tmp_path)
    assert (found.layout.name, found.fatal, [*found.splits]) == ("YOLO", [], ["train", "val"])


def test_many_outlines_of_one_number_of_points_may_be_key_points(tmp_path):
    miniatures.yolo(tmp_path)
    for split in ("train", "val"):
        (tmp_path / f"labels/{split}/a.txt").write_text("0 0.5 0.5 0.4 0.4 0.4 0.4 0.6 0.5 0.5 0.6\n" * 2)
    found = inspect(tmp_path)
    assert [problem.message for problem in found.fatal] == [
        f"{tmp_path}: all 4 outlines have 5 points, of which the first two are the middle and the size of a box around the "
        "others. If they are boxes with key points, write kpt_shape into data.yaml, so that the boxes are read."
    ]
    (tmp_path / "labels/train/a.txt").write_text("0 0.5 0.5 0.4 0.4 0.4 0.4 0.6 0.5 0.5 0.9\n" * 2)
    found = inspect(tmp_path)
    assert found.fatal == []
    assert [problem.message for problem in found.problems if problem.kind == "outlines of one length"] == [
        f"{tmp_path}: all 4 outlines have 5 points. If they are boxes with key points, write kpt_shape into data.yaml, so "
        "that the boxes are read."
    ]


@pytest.mark.parametrize("inside", [True, False])
def test_a_few_points_in_the_box_of_the_first_two_are_key_points(tmp_path, inside):
    miniatures.yolo(tmp_path)
    for split in ("train", "val"):
        (tmp_path / f"labels/{split}/a.txt").write_text(
            f"0 0.5 0.5 0.2 0.3 0.45 0.5 0.46 {0.5 if inside else 0.7}\n" * 2
        )
    found = inspect(tmp_path)
    assert found.fatal == []
    assert ("outlines of one length" in {problem.kind for problem in found.problems}) == inside


def test_lists_of_lists_name_no_folder(tmp_path):
    """Aliases of YAML make a list of a billion texts of a few bytes."""
    miniatures.yolo(tmp_path)
    rows = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * 9)}]\n" for n in range(10)]
    miniatures.write(tmp_path / "data.yaml", f"{''.join(rows)}train: *a9\nval: *a9\nnames: [cup, jar]\n")

    assert inspect(tmp_path).layout.name == "YOLO"


@pytest.mark.parametrize(
    "name",
    [
        "_darknet.labels",
        "coco.names",
        "labels.names",
        "names.txt",
        "obj_names.txt",
        "predefined_classes.txt",
        "label_list.txt",
    ],
)
def test_names_are_read_of_files_that_are_called_so(tmp_path, name):
    for number in range(2):
        miniatures.write(tmp_path / f"{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"{number}.txt", f"{number} 0.5 0.5 0.25 0.5\n")
    miniatures.write(tmp_path / name, "zebra\nant\nbus\n")

    assert inspect(tmp_path).labels.classes == ("zebra", "ant", "bus")


def test_a_split_may_have_several_folders(tmp_path):
    for number, place in enumerate("aabbc"):
        miniatures.write(tmp_path / f"{place}/images/{number % 2}.jpg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"{place}/labels/{number % 2}.txt", f"{number % 2} 0.5 0.5 0.25 0.5\n")
    tree = "train: [a/images, b/images]\nval: c/images\nnames: [cat, dog]\n"
    miniatures.write(tmp_path / "data.yaml", tree)
    found = inspect(tmp_path)

    assert found.fatal == []
    assert {split: sorted(each.item.name for each in items) for split, items in found.splits.items()} == {
        "train": ["a/images/0", "a/images/1", "b/images/0", "b/images/1"],
        "val": ["c/images/0"],
    }
    assert [box.label for each in found.items for box in each.item.label] == [0, 1, 0, 1, 0]


@pytest.mark.parametrize("text", ["a: 1\n---\nb: 2\n", "a: [\n"])
def test_yaml_of_other_data_need_not_be_readable(tmp_path, text):
    for number in range(4):
        miniatures.write(tmp_path / f"{('cat', 'dog')[number % 2]}/{number}.jpg", miniatures.make_image(seed=number))
    miniatures.write(tmp_path / "meta.yaml", text)

    assert words(tmp_path) == []
