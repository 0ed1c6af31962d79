from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from support import miniatures
from support.commands import call
from support.datasets import records
from support.layouts import boxes, names_of, notes, pack_skipping, words

from penstock.datasets import LayoutOptions, inspect, pack
from penstock.errors import DatasetError
from penstock.kinds.fields import decode_classification, decode_detection, decode_segmentation


def test_rows_of_a_table(tmp_path, capsys):
    raw = tmp_path / "raw"
    miniatures.csv_labels(raw)
    path = raw / "labels.csv"
    path.write_text(path.read_text() + ",cat,train\np3.jpg,,val\ngone.jpg,cat,train\n")

    assert words(raw) == [
        "labels.csv, line 6: the column 'filename' is empty in the row ',cat,train'. Fill it in, or remove the row.",
        "labels.csv, line 7: the column 'label' is empty in the row 'p3.jpg,,val'. Fill it in, or remove the row.",
        "labels.csv: expected the image gone.jpg that it names, found nothing. Add it, or remove its rows.",
    ]
    out = pack_skipping(tmp_path, capsys)
    assert "skipped: labels.csv, line 6 (row without a label)\n" in out
    assert "skipped 1 of 4 images, and 2 other entries\n" in out
    assert names_of(tmp_path, decode_classification) == ["p0", "p1"]
    assert names_of(tmp_path, decode_classification, "val") == ["p2"]


def test_two_columns_of_one_name_are_refused(tmp_path):
    miniatures.csv_labels(tmp_path)
    path = tmp_path / "labels.csv"
    path.write_text(path.read_text().replace("split", "Label"))

    assert words(tmp_path) == [
        f"{path}, line 1: expected columns of different names, found the column label 2 times. Rename or remove all but one "
        "of them."
    ]


@pytest.mark.parametrize("text", ["name;note\ncaf\xe9;x\n", "name,note\n" + "x" * 200_000 + ",y\n", 'a,b\n"x\n'])
def test_tables_of_something_else_do_no_harm(tmp_path, text):
    miniatures.masks(tmp_path)
    (tmp_path / "notes.csv").write_bytes(text.encode("latin-1"))

    assert inspect(tmp_path).layout.task == "segmentation"
    assert words(tmp_path) == []


def test_tables_that_cannot_be_read_are_named(tmp_path):
    miniatures.csv_labels(tmp_path)
    path = tmp_path / "labels.csv"
    text = path.read_text()
    path.write_text(text + "x" * 200_000 + ",cat,train\n")
    assert words(tmp_path) == [
        f"{path}: expected CSV, found field larger than field limit (131072). Fix the file, or remove it."
    ]
    path.write_bytes(text.encode() + b"caf\xe9.jpg,cat,train\n")
    (message,) = words(tmp_path)
    assert message.startswith(f"{path}: expected CSV in UTF-8, found ")
    assert message.endswith(". Save the file in UTF-8.")


def test_what_may_be_either_is_neither(tmp_path, capsys):
    """An image with two labels, with two masks, and two images of one mask."""
    raw = tmp_path / "table" / "raw"
    miniatures.csv_labels(raw)
    (raw / "labels.csv").write_text((raw / "labels.csv").read_text() + "p0.jpg,cat,train\n")
    pack_skipping(raw.parent, capsys)
    assert names_of(raw.parent, decode_classification) == ["p1"]

    raw = tmp_path / "masks" / "raw"
    ids = np.random.default_rng(0).integers(0, 3, (24, 32), np.uint8)
    for number, name in enumerate(("a.jpg", "b.jpg", "c.jpg", "c.png")):
        miniatures.write(raw / f"images/{name}", miniatures.make_image(seed=number))
    for name in ("a.png", "b.png", "b.jpg", "c.png"):
        miniatures.write(raw / f"masks/{name}", miniatures.gray(ids))
    out = pack_skipping(raw.parent, capsys)
    for name in ("c.jpg", "c.png"):
        assert f"skipped: images/{name} (two images of one name)\n" in out
    assert "skipped 2 of 3 images, and 2 other entries\n" in out
    assert names_of(raw.parent, decode_segmentation) == ["a"]


def test_a_image_with_a_row_that_is_no_box_goes_with_all_its_boxes(tmp_path, capsys):
    raw = tmp_path / "raw"
    miniatures.csv_boxes(raw, more="q.jpg,cat,1,2,3,4\nq.jpg,cat,1,2,,x\n")

    assert words(raw) == [
        "boxes.csv, line 4: expected four numbers in xmin, ymin, xmax, ymax, found 1, 2, x. Fix the row, or remove it."
    ]
    pack_skipping(tmp_path, capsys)
    assert names_of(tmp_path, decode_detection) == ["p"]


def test_a_table_of_nothing_but_gone_images_says_which(tmp_path):
    miniatures.csv_labels(tmp_path)
    shutil.rmtree(tmp_path / "images")

    assert words(tmp_path) == [
        f"{tmp_path}: the layout is CSV, but no usable image was found. There are 4 problems. The first is: "
        "labels.csv: expected the image p0.jpg that it names, found nothing. Add it, or remove its rows."
    ]


@pytest.mark.parametrize("name", ["./p0.jpg", "images\\p0.jpg", ".\\p0.jpg"])
def test_one_image_under_two_names_has_two_labels(tmp_path, name):
    miniatures.csv_labels(tmp_path)
    path = tmp_path / "labels.csv"
    path.write_text(path.read_text() + f"{name},cat,train\n")

    assert len(words(tmp_path)) == 1


def test_boxes_of_a_table_may_be_shares(tmp_path, capsys):
    miniatures.csv_boxes(tmp_path / "raw", box="0.25,0.25,0.75,1.0")
    assert (
        "boxes are read as corners (left, top, right, bottom): their columns say so; as none of them is beyond 1, they are "
        "fractions of the image's size"
    ) in call("inspect", tmp_path / "raw", capsys=capsys)[1]
    (record,) = map(decode_detection, records(pack(inspect(tmp_path / "raw"), tmp_path / "data"), "train"))
    (box,) = record.objects

    assert (box.left, box.top, box.right, box.bottom) == (8, 6, 24, 24)


def test_labels_that_have_no_name(tmp_path, capsys):
    raw = tmp_path / "raw"
    miniatures.csv_labels(raw)
    (raw / "classes.txt").write_text("dog\n")

    assert words(raw)[0] == (
        "labels.csv, line 3: expected a label that classes.txt names, found cat. Add it there, or remove the row."
    )
    pack_skipping(tmp_path, capsys)
    assert names_of(tmp_path, decode_classification) == ["p0"]


def test_nan_of_pandas_is_an_empty_cell(tmp_path):
    miniatures.csv_labels(tmp_path)
    path = tmp_path / "labels.csv"
    path.write_text(path.read_text().replace("dog", "NaN"))

    found = inspect(tmp_path)
    assert found.labels.classes == ("cat",)
    assert (
        "labels.csv, line 2: the column 'label' is empty in the row 'p0.jpg,,train'. Fill it in, or remove the row."
        in [problem.message for problem in found.problems]
    )


def test_an_image_whose_box_is_nan_has_no_objects(tmp_path):
    miniatures.csv_boxes(tmp_path)
    path = tmp_path / "boxes.csv"
    header, *_ = path.read_text().splitlines()
    path.write_text(f"{header}\np.jpg,nan,nan,nan,nan,nan\n")
    miniatures.write(tmp_path / "images/q.jpg", miniatures.make_image(seed=3))
    path.write_text(path.read_text() + "q.jpg,cat,1,2,9,10\n")

    found = inspect(tmp_path)
    assert found.fatal == []
    assert {each.item.name: len(each.item.label) for each in found.items} == {"p": 0, "q": 1}


def test_measurements_as_labels_are_noted(tmp_path):
    miniatures.csv_labels(tmp_path)
    path = tmp_path / "labels.csv"
    path.write_text(path.read_text().replace("dog", "1.5").replace("cat", "2.0"))

    assert [problem.message for problem in inspect(tmp_path).problems if problem.kind == "numbers as classes"] == [
        "labels.csv: 1 class with names such as 1.5. Each different number is a class of its own; regression needs a "
        "custom task."
    ]


@pytest.mark.parametrize("name", ["sub/../images/p0.jpg", "{root}/images/p0.jpg"])
def test_one_image_by_two_paths_has_two_labels(tmp_path, monkeypatch, name):
    miniatures.csv_labels(tmp_path / "raw")
    (tmp_path / "raw/sub").mkdir()
    path = tmp_path / "raw/labels.csv"
    path.write_text(path.read_text() + f"{name.format(root=tmp_path / 'raw')},cat,train\n")
    monkeypatch.chdir(tmp_path)

    assert [problem.kind for problem in inspect(Path("raw")).fatal] == ["two labels"]


@pytest.mark.parametrize("name", ["labels.csv", "train.json", "data.yaml"])
def test_a_pipe_with_the_name_of_a_table_stops_nobody(tmp_path, name):
    miniatures.folders(tmp_path)
    os.mkfifo(tmp_path / name)

    assert inspect(tmp_path).layout.name == "one folder per class"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("p.jpg,cat,0.1,0.1,0.5,0.5\n", "images/p.jpg: expected box 2 in pixels, found 0.1, 0.1 to 0.5, 0.5 (x, y), which is smaller than one. Write all boxes in pixels, or all in fractions of their image's size."),
        ("p.jpg,cat,32,2,33,10\n", "images/p.jpg: expected box 2 inside the image of 24 x 32 (height x width), found 32, 2 to 33, 10 (x, y). Fix it, or leave the image out with --skip-bad."),
        ("p.jpg,cat,1,2,3,4,5\n", "boxes.csv, line 3: expected no more cells than columns, found 5 behind them. Quote cells that hold commas."),
        ('p.jpg,"cat,1,2,3,4\n', "{root}/boxes.csv: expected CSV, found unexpected end of data. Fix the file, or remove it."),
    ],
)  # fmt: skip
def test_rows_that_would_be_taken_for_others(tmp_path, rows, message):
    miniatures.csv_boxes(tmp_path)
    path = tmp_path / "boxes.csv"
    path.write_text(path.read_text() + rows)

    assert words(tmp_path) == [message.format(root=tmp_path)]


def test_lines_of_a_table_are_counted_as_editors_do(tmp_path):
    miniatures.csv_labels(tmp_path)
    path = tmp_path / "labels.csv"
    path.write_text(path.read_text().replace("p2.jpg,dog,val", "\n\np2.jpg,,val"))

    assert words(tmp_path)[0].startswith("labels.csv, line 6: the column 'label' is empty in the row 'p2.jpg,,val'.")


def test_two_tables_and_names_that_cannot_be(tmp_path):
    miniatures.csv_labels(tmp_path)
    miniatures.write(tmp_path / "val.csv", f"filename,label\n{'x' * 5000}.jpg,cat\n")
    assert words(tmp_path) == [
        "val.csv: expected one table, found labels.csv too, which is read. Join them, with a column split."
    ]
    (tmp_path / "labels.csv").unlink()
    assert "expected the image xxxx" in words(tmp_path)[0]


def test_what_is_said_of_boxes_is_said_when_packing_too(tmp_path, capsys):
    miniatures.csv_boxes(tmp_path / "raw", box="0.25,0.25,0.75,1.0")

    assert (
        "note: boxes are read as corners (left, top, right, bottom): their columns say so; as none of them is"
        in pack_skipping(tmp_path, capsys)
    )


class TestBoxes:
    """Corners, or a corner and a size: told from the numbers, by the columns' names, or said."""

    def table(self, root, rows):
        for number in range(len(rows)):
            miniatures.write(root / f"{number}.png", cv2.imencode(".png", np.zeros((60, 80, 3), np.uint8))[1].tobytes())
        lines = [f'{number}.png,cat,"{row}"' for number, row in enumerate(rows)]
        miniatures.write(root / "boxes.csv", "\n".join(["file,class,bbox", *lines]) + "\n")

    def edges(self, root, boxes):
        found = inspect(root, how=LayoutOptions(boxes=boxes))
        assert not found.fatal, found.fatal
        order = sorted(found.items, key=lambda each: int(each.item.name))
        return [(b.left, b.top, b.right, b.bottom) for each in order for b in each.item.label], found.layout.reasons[1]

    def test_of_a_table_as_people_say(self, tmp_path):
        self.table(tmp_path, ["1 2 30 40", "25 6 60 30"])
        assert self.edges(tmp_path, "") == (
            [(1, 2, 30, 40), (25, 6, 60, 30)],
            "boxes are read as corners (left, top, right, bottom): the third or fourth number is never below the first "
            "or second",
        )
        self.table(tmp_path, ["1 2 30 40", "5 6 20 30"])  # which lie in their images either way
        (problem,) = inspect(tmp_path).fatal
        assert problem.message == (
            "boxes.csv: expected boxes that can be read in one way, found 2 boxes in column bbox that lie inside their "
            "images as corners (left, top, right, bottom) and as a corner and a size (left, top, width, height). Say "
            "which they are with --boxes xyxy or --boxes xywh, or name the column bbox_xyxy or bbox_xywh."
        )
        assert self.edges(tmp_path, "xyxy")[0] == [(1, 2, 30, 40), (5, 6, 20, 30)]
        assert self.edges(tmp_path, "xywh") == (
            [(1, 2, 31, 42), (5, 6, 25, 36)],
            "boxes are read as a corner and a size (left, top, width, height): --boxes says so",
        )

    def test_what_cannot_be_told_can_be_said(self, tmp_path):
        self.table(tmp_path, ["1 2 30 40"] * 29 + ["30 20 10 20"])
        (problem,) = [each for each in inspect(tmp_path).fatal if each.whole]
        assert problem.message.endswith(
            "Say which they are with --boxes xyxy or --boxes xywh, or name the column bbox_xyxy or bbox_xywh."
        )
        assert self.edges(tmp_path, "xywh")[0][-1] == (30, 20, 40, 40)


def test_a_table_may_name_them_so(tmp_path):
    miniatures.csv_labels(tmp_path)
    table = tmp_path / "labels.csv"
    table.write_text(table.read_text().replace(",val", ",Val2017"))

    assert list(inspect(tmp_path).splits) == ["train", "val"]


class TestTables:
    def test_images_in_no_row_are_told_of(self, tmp_path):
        miniatures.csv_labels(tmp_path)
        miniatures.write(tmp_path / "test/q.jpg", miniatures.make_image(seed=9))

        assert notes(tmp_path) == ["test/q.jpg: no row of labels.csv names it: it is left out."]

    def test_images_of_other_columns_are_not(self, tmp_path):
        miniatures.csv_labels(tmp_path)
        miniatures.write(tmp_path / "outlines/q.png", miniatures.make_image(seed=9))
        table = tmp_path / "labels.csv"
        head, *rows = table.read_text().splitlines()
        table.write_text("\n".join([f"{head},outline", *(f"{row},outlines/q.png" for row in rows)]) + "\n")

        left = "outlines/: 1 image, such as outlines/q.png, are no part of the layout. They are left out."
        assert notes(tmp_path) == [left]

    def test_letters_may_be_classes(self, tmp_path):
        miniatures.csv_labels(tmp_path)
        table = tmp_path / "labels.csv"
        table.write_text(table.read_text().replace("dog", "A").replace("cat", "a"))

        assert notes(tmp_path) == []

    def test_a_row_of_a_file_alone_is_a_image_without_objects(self, tmp_path):
        raw = tmp_path / "raw"
        miniatures.csv_boxes(raw, more="q.jpg,,,,,\n")
        pack(inspect(raw), tmp_path / "data")

        assert boxes(tmp_path) == {"p": [(0, 2, 3, 12, 20)], "q": []}

    def test_of_labels_it_is_a_row_without_one(self, tmp_path):
        miniatures.csv_labels(tmp_path)
        table = tmp_path / "labels.csv"
        table.write_text(table.read_text().replace("p3.jpg,cat", "p3.jpg,"))
        found = [problem.message for problem in inspect(tmp_path).fatal]

        assert found == [
            "labels.csv, line 5: the column 'label' is empty in the row 'p3.jpg,,val'. Fill it in, or remove the row."
        ]

    def test_a_few_boxes_inside_out_among_many_leave_it_uncertain_what_all_are(self, tmp_path):
        miniatures.csv_boxes(tmp_path, "bbox", "2,3,12,20")
        table = tmp_path / "boxes.csv"
        table.write_text(table.read_text() + 'p.jpg,cat,"9,3,12,21"\n' * 18 + 'p.jpg,cat,"12,3,2,20"\n')
        found = inspect(tmp_path)

        assert found.layout.reasons[1] == (
            "boxes are read as corners (left, top, right, bottom): the third or fourth number is below the first "
            "or second in 1 of 20 only"
        )
        assert [problem.message for problem in found.fatal if problem.whole] == [
            "boxes.csv: expected corners or sizes in column bbox, found 1 of 20 boxes whose third or fourth number is below "
            "the first or second: too many for corners, too few for sizes. Say which they are with --boxes "
            "xyxy or --boxes xywh, or name the column bbox_xyxy or bbox_xywh."
        ]

    def test_more_of_them_have_a_size_for_a_corner(self, tmp_path):
        miniatures.csv_boxes(tmp_path, "bbox", "2,3,12,20")
        table = tmp_path / "boxes.csv"
        table.write_text(table.read_text() + 'p.jpg,cat,"9,3,12,20"\n' * 17 + 'p.jpg,cat,"12,3,2,20"\n')

        assert inspect(tmp_path).layout.reasons[1].startswith("boxes are read as a corner and a size")

    def test_two_labels_are_named_by_their_lines(self, tmp_path):
        miniatures.csv_labels(tmp_path)
        table = tmp_path / "labels.csv"
        table.write_text(table.read_text() + "p0.jpg,cat,train\n" * 6)

        assert [problem.message for problem in inspect(tmp_path).fatal] == [
            "images/p0.jpg: expected one row in labels.csv, found lines 2, 6, 7, 8, 9, .... Leave one, so that its class "
            "is certain."
        ]


@pytest.mark.parametrize("comma", [";", "\t"])
def test_tables_may_be_parted_by_other_marks(tmp_path, comma):
    miniatures.csv_labels(tmp_path)
    path = tmp_path / "labels.csv"
    path.write_text(path.read_text().replace(",", comma))
    found = inspect(tmp_path)

    assert (found.layout.name, len(found.items), found.fatal) == ("CSV", 4, [])


def test_a_table_without_names_of_columns_is_named(tmp_path):
    miniatures.csv_labels(tmp_path)
    path = tmp_path / "labels.csv"
    path.write_text("\n".join(path.read_text().splitlines()[1:]))
    with pytest.raises(DatasetError) as caught:
        inspect(tmp_path)

    assert str(caught.value) == (
        f"{path}, line 1: expected the names of the columns, such as file,label,split, found p0.jpg, dog, train. Write them "
        "above it, for example file,label,split."
    )


def test_columns_are_named_in_the_order_of_the_cells(tmp_path):
    """AutoML's tables have no names: a split, a place in the cloud, a class, and corners with gaps between them."""
    lines = [
        f"{split},gs://b/{n}.jpg,cat,0.1,0.2,,,0.5,0.6,," for n, split in enumerate(("TRAIN", "TRAIN", "VALIDATION"))
    ]
    for number in range(3):
        miniatures.write(tmp_path / f"{number}.jpg", miniatures.make_image(seed=number))
    miniatures.write(tmp_path / "automl.csv", "\n".join(lines))
    with pytest.raises(DatasetError) as caught:
        inspect(tmp_path)
    first = "split,file,label,xmin,ymin,,,xmax,ymax,,"
    assert caught.value.remedy == f"Write them above it, for example {first}"
    miniatures.write(tmp_path / "automl.csv", "\n".join([first, *lines]))
    found = inspect(tmp_path)
    assert ({split: len(items) for split, items in found.splits.items()}, found.fatal) == ({"train": 2, "val": 1}, [])
    (box,) = found.items[0].item.label
    assert [box.left, box.top, box.right, box.bottom] == pytest.approx([3.2, 4.8, 16, 14.4])


def test_a_table_and_folders_that_name_other_classes_are_a_problem(tmp_path):
    rows = "".join(
        f"{name}{n}.jpg,{'dog' if name == 'cat' and n == 2 else name}\n" for name in ("cat", "dog") for n in range(3)
    )
    for name in ("cat", "dog"):
        for n in range(3):
            miniatures.write(
                tmp_path / f"{name}/{name}{n}.jpg", miniatures.make_image(seed=n + len(rows) * (name == "cat"))
            )
    miniatures.write(tmp_path / "labels.csv", f"file,label\n{rows}")
    assert words(tmp_path) == [
        "labels.csv: expected the classes that the folders of the images are called as, found another for 1 image, such as "
        "dog for cat/cat2.jpg. Correct the table or move the images; or move the table away, so that the folders count."
    ]
    miniatures.write(tmp_path / "labels.csv", f"file,label\n{rows.replace('cat2.jpg,dog', 'cat2.jpg,cat')}")
    assert words(tmp_path) == []


@pytest.mark.parametrize("form", ["{}", "{}.0", "{:02}"])
def test_numbers_may_have_lost_zeros(tmp_path, form):
    for number in range(4):
        miniatures.write(tmp_path / f"images/{number:04}.jpg", miniatures.make_image(seed=number))
    rows = "".join(f"{form.format(number)},{'ab'[number % 2]}\n" for number in range(4))
    miniatures.write(tmp_path / "labels.csv", f"id,label\n{rows}")
    found = inspect(tmp_path)
    assert found.fatal == []
    assert {each.item.image.name: each.item.label for each in found.items} == {f"000{n}.jpg": n % 2 for n in range(4)}


def test_one_image_in_tables_of_two_splits_is_named_once(tmp_path):
    for number in range(4):
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.make_image(seed=number))
    miniatures.write(tmp_path / "train.csv", "file,label\n0.jpg,a\n1.jpg,b\n2.jpg,a\n")
    miniatures.write(tmp_path / "val.csv", "file,label\n2.jpg,a\n3.jpg,b\n")
    assert words(tmp_path) == [
        "images/2.jpg: expected an image that is in one split only, found it in train and val. Leave it in one of the lists "
        "or tables that name it, because scores on training images mean nothing."
    ]


@pytest.mark.parametrize(
    ("columns", "box", "expected", "how"),
    [
        ("bbox_xyxy", "2,3,12,20", [2, 3, 12, 20], "corners (left, top, right, bottom): their columns say so"),
        ("bbox_xywh", "2,3,12,20", [2, 3, 14, 23], "a corner and a size (left, top, width, height): their columns say so"),
        ("xmin,ymin,xmax,ymax", "2,3,12,20", [2, 3, 12, 20], "corners (left, top, right, bottom): their columns say so"),
        ("x,y,w,h", "2,3,12,20", [2, 3, 14, 23], "a corner and a size (left, top, width, height): their columns say so"),
        (
            "bbox", "[2, 3, 12, 20]", [2, 3, 12, 20],
            "corners (left, top, right, bottom): the third or fourth number is never below the first or second",
        ),
        (
            "bbox", "[12, 3, 10, 20]", [12, 3, 22, 23],
            "a corner and a size (left, top, width, height): the third or fourth number is below the first or second in 1",
        ),
    ],
)  # fmt: skip
def test_how_boxes_of_a_table_are_read_is_told_and_said(tmp_path, columns, box, expected, how):
    miniatures.csv_boxes(tmp_path, columns, box)
    found = inspect(tmp_path)
    (edges,) = found.items[0].item.label

    assert [edges.left, edges.top, edges.right, edges.bottom] == expected
    assert found.layout.reasons[1] == f"boxes are read as {how}"


def test_a_table_beside_masks_is_not_in_their_way(tmp_path):
    miniatures.masks(tmp_path)
    miniatures.write(tmp_path / "train.csv", "images/train/a.jpg,masks/train/a.png\n")

    assert inspect(tmp_path).layout.name == "image and mask folders"


class TestLists:
    """Lines `IMAGE LABEL`, as Caffe, MMPreTrain and ImageNet have them."""

    @pytest.fixture(autouse=True)
    def images(self, tmp_path):
        for number in range(4):
            miniatures.write(tmp_path / f"images/{'ab'[number % 2]}/{number} x.jpg", miniatures.make_image(seed=number))

    @pytest.mark.parametrize("place", ["", "meta/"])
    @pytest.mark.parametrize(
        ("labels", "names", "classes"),
        [
            ((0, 1, 0, 1), "zebra\ncat\n", ("zebra", "cat")),
            ((1, 2, 1, 2), "zebra\ncat\n", ("zebra", "cat")),
            (("zebra", "cat", "zebra", "cat"), "", ("cat", "zebra")),
            ((7, 3, 7, 3), "", ("a", "b")),
            ((7, 3, 3, 7), "", ("3", "7")),
        ],
    )
    def test_each_image_has_the_label_of_its_line(self, tmp_path, place, labels, names, classes):
        lines = [f"{'ab'[n % 2]}/{n} x.jpg {label}\n" for n, label in enumerate(labels)]
        miniatures.write(tmp_path / f"{place}train.txt", "".join(lines[:2]))
        miniatures.write(tmp_path / f"{place}val.txt", "".join(lines[2:]))
        if names:
            miniatures.write(tmp_path / "synsets.txt", names)
        found = inspect(tmp_path)
        name_of = dict(zip(labels, ("zebra", "cat") if names else ("a", "b") if classes == ("a", "b") else map(str, labels), strict=False))  # fmt: skip

        assert words(tmp_path) == []
        assert found.labels.classes == classes
        assert {each.item.image.stem: (each.item.split, classes[each.item.label]) for each in found.items} == {
            f"{n} x": ("train" if n < 2 else "val", name_of[label]) for n, label in enumerate(labels)
        }

    def test_a_list_may_be_called_labels(self, tmp_path):
        miniatures.write(
            tmp_path / "labels.txt", "".join(f"images/{'ab'[n % 2]}/{n} x.jpg {n % 2}\n" for n in range(4))
        )
        found = inspect(tmp_path)

        assert (found.layout.name, [each.item.label for each in found.items]) == (
            "lists of labels",
            [0, 1, 0, 1],
        )

    def test_a_line_without_a_label_is_a_problem(self, tmp_path):
        miniatures.write(tmp_path / "train.txt", "0 x.jpg 1\n1 x.jpg 0\n2 x.jpg 1\n3\n")

        assert words(tmp_path) == [
            "train.txt, line 4: the column 'label' is empty in the row '3,'. Fill it in, or remove the row."
        ]


def test_folders_of_images_without_labels_may_be_classes(tmp_path, capsys):
    """Food-101: images/pie/1.jpg, and lists of train and test."""
    for name in ("pie", "soup"):
        for number in range(3):
            miniatures.write(
                tmp_path / f"images/{name}/{number}.jpg", miniatures.make_image(seed=number + 10 * len(name))
            )
    miniatures.write(tmp_path / "meta/train.txt", "pie/0\nsoup/0\npie/1\nsoup/1\n")
    miniatures.write(tmp_path / "meta/test.txt", "pie/2\nsoup/2\n")
    out = call("inspect", tmp_path, capsys=capsys)[1]
    pattern = "(?P<label>[^/]+)/[^/]+$"

    assert f"If the folders pie, soup are classes, use --pattern '{pattern}'. " in out
    found = inspect(tmp_path, how=LayoutOptions(pattern=pattern))
    assert (found.fatal, found.labels.classes) == ([], ("pie", "soup"))
    assert {split: len(each) for split, each in found.splits.items()} == {"train": 4, "test": 2}


def test_boxes_without_classes_are_objects(tmp_path):
    """Global wheat detection: image_id, width, height, bbox, source; an image without boxes has a row without one."""
    for number in range(3):
        miniatures.write(tmp_path / f"train/{number}.jpg", miniatures.make_image(seed=number))
    miniatures.write(tmp_path / "sample_submission.csv", "image_id,PredictionString\n0,1.0 0 0 50 50\n")
    rows = ['0,32,24,"[1, 2, 9, 9]",a', '0,32,24,"[12, 3, 8, 6]",a', '1,32,24,"[20, 4, 9, 3]",b', "2,32,24,,b"]
    miniatures.write(tmp_path / "train.csv", "image_id,width,height,bbox,source\n" + "\n".join(rows) + "\n")
    found = inspect(tmp_path)

    assert (found.fatal, found.labels.classes, found.layout.kind.name) == ([], ("object",), "detection")
    assert [len(each.item.label) for each in found.items] == [2, 1, 0]
    assert found.layout.reasons[-1] == "no column has classes: every box is an object"


def test_a_table_beside_those_of_the_splits_is_noted(tmp_path):
    """GTSRB: Train.csv and Test.csv, and Meta.csv of the signs."""
    for split in ("Train", "Test", "Meta"):
        for number in range(2):
            miniatures.write(tmp_path / f"{split}/{number}.png", miniatures.make_image(seed=number + 10 * len(split)))
        rows = "".join(f"{split}/{number}.png,c{number}\n" for number in range(2))
        miniatures.write(tmp_path / f"{split}.csv", f"Path,Class\n{rows}")
    found = inspect(tmp_path)

    assert found.fatal == []
    assert {split: sorted(each.item.image.parent.name for each in items) for split, items in found.splits.items()} == {
        "train": ["Train"] * 2,
        "test": ["Test"] * 2,
    }
    assert "Meta.csv: its column Path names images, but it is not read. It has the columns Path, Class." in [
        problem.message for problem in found.problems
    ]


def test_boxes_go_before_classes_and_nothing_is_no_class(tmp_path):
    """RSNA's pneumonia challenge: boxes and Target in one table, finer classes in another; VinBigData's No finding."""
    for number in range(3):
        miniatures.write(tmp_path / f"images/p{number}.jpg", miniatures.make_image(seed=number))
    rows = "p0,,,,,0\np1,2,3,9,9,1\np1,12,3,8,6,1\np2,4,4,5,5,1\n"
    miniatures.write(tmp_path / "stage_2_train_labels.csv", f"patientId,x,y,width,height,Target\n{rows}")
    rows = "p0,Normal\np1,Lung Opacity\np1,Lung Opacity\np2,Lung Opacity\n"
    miniatures.write(tmp_path / "stage_2_detailed_class_info.csv", f"patientId,class\n{rows}")
    found = inspect(tmp_path)

    assert (found.fatal, found.layout.kind.name) == ([], "detection")
    assert [len(each.item.label) for each in found.items] == [0, 2, 1]
    assert [problem.message for problem in found.problems] == [
        "stage_2_detailed_class_info.csv: its column patientId names images, but it is not read. It has the columns "
        "patientId, class."
    ]


def test_a_table_whose_name_ends_that_of_the_one_that_is_read_is_noted(tmp_path):
    miniatures.write(tmp_path / "a.jpg", miniatures.make_image())
    miniatures.write(tmp_path / "b.jpg", miniatures.make_image(seed=1))
    miniatures.write(tmp_path / "my_labels.csv", "file,label\na.jpg,cat\nb.jpg,dog\n")
    miniatures.write(tmp_path / "labels.csv", "file,age\na.jpg,3\nb.jpg,4\n")

    assert notes(tmp_path) == [
        "labels.csv: its column file names images, but it is not read. It has the columns file, age."
    ]


@pytest.mark.parametrize(
    ("columns", "cells", "expected"),
    [
        ("x0,y0,x1,y1", "10,2,30,20", (10, 2, 30, 20)),
        ("bbox_x,bbox_y,bbox_w,bbox_h", "10,2,20,18", (10, 2, 30, 20)),
        ("cx,cy,w,h", "20,11,20,18", (10, 2, 30, 20)),
        ("x_center,y_center,width,height", "0.5,0.5,0.25,0.5", (12, 6, 20, 18)),
    ],
)
def test_columns_of_boxes_have_many_names(tmp_path, columns, cells, expected):
    for number in range(4):
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.make_image(seed=number))
    rows = [f"{number}.jpg,{'car' if number % 2 else 'bus'},{cells}" for number in range(4)]
    (tmp_path / "b.csv").write_text("\n".join([f"filename,label,{columns}", *rows]))
    found = inspect(tmp_path)

    assert (found.layout.kind.name, found.fatal) == ("detection", [])
    assert [(box.left, box.top, box.right, box.bottom) for item in found.items for box in item.item.label] == [
        expected
    ] * 4


@pytest.mark.parametrize(
    ("column", "cells", "splits"),
    [
        ("is_train", ("1", "1", "0"), {"train": 2, "val": 1}),
        ("Validation", ("False", "False", "True"), {"train": 2, "val": 1}),
        ("is_test", ("no", "yes", "no"), {"train": 2, "test": 1}),
        ("Usage", ("Training", "PublicTest", "PrivateTest"), {"train": 1, "test": 2}),
        ("fold_name", ("train", "valid", "train"), {"train": 2, "val": 1}),
        ("train", ("1", "0", "0"), {"train": 3}),  # as much a class as a split
        ("valid", ("1", "0", "1"), {"train": 3}),
        ("sex", ("m", "f", "m"), {"train": 3}),
    ],
)
def test_a_column_of_splits_is_known_by_what_is_in_it(tmp_path, column, cells, splits):
    for number in range(3):
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.make_image(seed=number))
    rows = [f"images/{number}.jpg,{'ab'[number % 2]},{cell}" for number, cell in enumerate(cells)]
    (tmp_path / "meta.csv").write_text("\n".join([f"filepath,label,{column}", *rows]))
    found = inspect(tmp_path)

    assert {name: len(items) for name, items in found.splits.items()} == splits
    reason = f"the splits are those of column {column}"
    assert (reason in found.layout.reasons) == (len(splits) > 1)


def test_an_example_of_a_submission_is_no_table_of_labels(tmp_path):
    for number in range(4):
        miniatures.write(tmp_path / f"train/cat.{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"train/dog.{number}.jpg", miniatures.make_image(seed=10 + number))
        miniatures.write(tmp_path / f"test1/{number + 1}.jpg", miniatures.make_image(seed=20 + number))
    (tmp_path / "sampleSubmission.csv").write_text("id,label\n1,0\n2,0\n")
    with pytest.raises(DatasetError) as caught:
        inspect(tmp_path)

    assert "sampleSubmission" not in str(caught.value).partition("expected")[0]


def test_a_table_without_names_of_columns_is_not_offered_its_first_row_as_names(tmp_path):
    for number in range(4):
        miniatures.write(tmp_path / f"pics/{number}.jpg", miniatures.make_image(seed=number))
    (tmp_path / "labels.csv").write_text("".join(f"pics/{n}.jpg,{'cat' if n % 2 else 'dog'}\n" for n in range(4)))

    assert words(tmp_path)[-1] == (
        "labels.csv: expected a layout that reads it, as its column pics/0.jpg names images, found one folder per class. Its "
        "first line, pics/0.jpg, dog, has no names of columns. Write them above it, such as file,label, or confirm the folders "
        "with --layout folders."
    )
    text = (tmp_path / "labels.csv").read_text()
    (tmp_path / "labels.csv").write_text(f"file,label\n{text}")
    assert len(inspect(tmp_path).items) == 4


def test_a_row_without_a_split_is_named(tmp_path):
    for number in range(4):
        miniatures.write(tmp_path / f"{number}.jpg", miniatures.make_image(seed=number))
    miniatures.write(tmp_path / "labels.csv", "file,label,split\n0.jpg,a,train\n1.jpg,b,train\n2.jpg,a,val\n3.jpg,b,\n")
    assert words(tmp_path) == [
        "labels.csv, line 5: expected a split in the column split, found nothing. Write train, val or test, or leave the "
        "row out with --skip-bad."
    ]


def test_numbers_that_are_written_in_two_ways_are_refused(tmp_path):
    for split in ("train", "val"):
        for number in range(4):
            miniatures.write(
                tmp_path / f"{split}/{number}.jpg", miniatures.make_image(seed=number + 4 * (split == "val"))
            )
        end = ".0" if split == "val" else ""
        rows = (f"{number}.jpg,{number % 2}{end}\n" for number in range(4))
        miniatures.write(tmp_path / f"{split}.csv", "file,label\n" + "".join(rows))
    messages = words(tmp_path)
    for label in (0, 1):
        assert f"classes '{label}' and '{label}.0' are one number: write it in the same way everywhere." in messages


def test_numbers_with_a_point_have_the_order_of_numbers(tmp_path):
    for number in range(12):
        miniatures.write(tmp_path / f"{number}.jpg", miniatures.make_image(seed=number))
    rows = (f"{number}.jpg,{number}.0\n" for number in range(12))
    miniatures.write(tmp_path / "labels.csv", "file,label\n" + "".join(rows))
    assert inspect(tmp_path).labels.classes == tuple(f"{number}.0" for number in range(12))


def test_labels_may_be_the_ids_of_named_classes(tmp_path):
    for number in range(4):
        miniatures.write(tmp_path / f"{number}.jpg", miniatures.make_image(seed=number))
    miniatures.write(tmp_path / "labels.csv", "file,label\n0.jpg,1\n1.jpg,0\n2.jpg,1\n3.jpg,0\n")
    miniatures.write(tmp_path / "classes.txt", "dog\ncat\n")
    found = inspect(tmp_path)
    assert (found.fatal, found.labels.classes) == ([], ("dog", "cat"))
    assert [each.item.label for each in found.items] == [1, 0, 1, 0]


class TestColumns:
    def make(self, folder, text, images=4):
        for number in range(images):
            miniatures.write(folder / f"{number}.jpg", miniatures.make_image(seed=number))
        (folder / "labels.csv").write_text(text)

    def test_columns_that_are_not_read_are_named(self, tmp_path):
        self.make(tmp_path, "image,label,fold,width\n0.jpg,a,0,3\n1.jpg,b,1,3\n2.jpg,a,2,3\n3.jpg,b,3,3\n")

        assert inspect(tmp_path).layout.reasons == (
            "labels.csv with columns image, label, fold, width, of which fold, width are not read",
        )

    def test_two_columns_that_say_the_same_classes_are_one(self, tmp_path):
        self.make(tmp_path, "image,target,species\n0.jpg,1,cat\n1.jpg,0,dog\n2.jpg,1,cat\n3.jpg,0,dog\n")
        found = inspect(tmp_path)

        assert found.labels.classes == ("cat", "dog")
        assert [each.item.label for each in found.items] == [0, 1, 0, 1]
        assert words(tmp_path) == []

    def test_two_columns_of_different_classes_are_refused_until_one_is_chosen(self, tmp_path):
        self.make(tmp_path, "image,species,target\n0.jpg,cat,0\n1.jpg,cat,1\n2.jpg,dog,0\n3.jpg,dog,1\n")

        assert words(tmp_path) == [
            "labels.csv: expected one column of classes, found species and target, which divide the images otherwise. "
            "Choose one, for example with --field label=target."
        ]
        assert inspect(tmp_path, how=LayoutOptions(fields={"label": "target"})).labels.classes == ("0", "1")
        assert inspect(tmp_path, how=LayoutOptions(fields={"label": "species"})).labels.classes == ("cat", "dog")

    def test_pairs_of_images_are_refused_until_one_is_chosen(self, tmp_path):
        self.make(tmp_path, "left_image,right_image,label\n0.jpg,1.jpg,a\n2.jpg,3.jpg,b\n")

        assert words(tmp_path) == [
            "labels.csv: expected one column of images, found left_image and right_image. Choose one, for example with "
            "--field image=left_image. Pairs of images have no task."
        ]
        found = inspect(tmp_path, how=LayoutOptions(fields={"image": "right_image"}))
        assert [each.item.name for each in found.items] == ["1", "3"]
        self.make(tmp_path, "image1,image2,label\n0.jpg,1.jpg,a\n1.jpg,2.jpg,b\n2.jpg,3.jpg,a\n3.jpg,0.jpg,a\n")
        assert words(tmp_path)[0].startswith("labels.csv: expected one column of images, found image1 and image2.")

    def test_two_images_of_a_row_may_be_the_same_ones(self, tmp_path):
        self.make(tmp_path, "photo,copy_of,label\n0.jpg,0.jpg,a\n1.jpg,0.jpg,b\n2.jpg,2.jpg,a\n3.jpg,1.jpg,b\n")

        assert words(tmp_path) == []


def test_names_of_a_table_of_unlabelled_images_are_not_those_of_train(tmp_path):
    for number in range(6):
        miniatures.write(
            tmp_path / ("train" if number < 4 else "test") / f"{number % 4}.jpg", miniatures.make_image(seed=number)
        )
    (tmp_path / "train.csv").write_text("id,label\n" + "".join(f"{n}.jpg,{'ab'[n % 2]}\n" for n in range(4)))
    (tmp_path / "test.csv").write_text("id\n0.jpg\n1.jpg\n")
    found = inspect(tmp_path)

    assert [(each.item.split, each.item.name) for each in found.items] == [("train", str(n)) for n in range(4)]
    assert words(tmp_path) == []
    assert "test: no labels for it in test.csv: all of this split is left out." in notes(tmp_path)


@pytest.mark.parametrize(
    ("columns", "numbers"),
    [
        ("x_min,y_min,width,height", "2,3,10,8"),
        ("xmin,ymin,bbox_width,bbox_height", "2,3,10,8"),
        ("x1,y1,w,h", "2,3,10,8"),
        ("start_x,start_y,end_x,end_y", "2,3,12,11"),
        ("tl_x,tl_y,br_x,br_y", "2,3,12,11"),
        ("x,y,x2,y2", "2,3,12,11"),
        ("cx,cy,bbox_w,bbox_h", "7,7,10,8"),
    ],
)
def test_corners_and_sizes_have_names_of_every_tool(tmp_path, columns, numbers):
    for number in range(3):
        miniatures.write(tmp_path / f"raw/{number}.jpg", miniatures.make_image(seed=number))
    rows = "".join(f"{number}.jpg,{numbers},cat\n" for number in range(3))
    miniatures.write(tmp_path / "raw/labels.csv", f"image,{columns},class\n{rows}")
    pack(inspect(tmp_path / "raw"), tmp_path / "data")
    assert boxes(tmp_path) == {str(number): [(0, 2, 3, 12, 11)] for number in range(3)}


def test_columns_that_may_be_boxes_are_no_classes(tmp_path):
    miniatures.write(tmp_path / "0.jpg", miniatures.make_image())
    miniatures.write(tmp_path / "labels.csv", "image,x_left,y_left,x_right,y_right,class\n0.jpg,1,2,3,4,cat\n")
    assert words(tmp_path)[0] == (
        "labels.csv: expected columns of boxes with known names, found x_left, y_left, x_right, y_right. Rename them to "
        "xmin, ymin, xmax, ymax or x, y, width, height, or name the corners with --field xmin=COLUMN --field ymin=COLUMN "
        "--field xmax=COLUMN --field ymax=COLUMN. If they are no boxes, rename or remove them."
    )


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("bbox_yxyx", "[2, 1, 4, 3]"),
        ("region", "1 2 3 4"),
        ("outline", "[[1, 2], [3, 4], [5, 6]]"),
        ("rect", "{'x': 1, 'y': 2, 'width': 3, 'height': 4}"),
    ],
)
def test_a_column_of_numbers_may_be_boxes(tmp_path, column, cell):
    miniatures.write(tmp_path / "0.jpg", miniatures.make_image())
    quoted = f'"{cell}"'
    miniatures.write(tmp_path / "labels.csv", f"image,{column},class\n0.jpg,{quoted},cat\n")
    assert words(tmp_path)[0] == (
        f"labels.csv: expected boxes in a column with a known name, found {column}, whose cells hold numbers such as "
        f"{cell[:40]}. If they are boxes, write them as four numbers in a column bbox_xyxy (left, top, right, bottom) or "
        "bbox_xywh (left, top, width, height). If the images are to be classified without them, remove the column."
    )


@pytest.mark.parametrize("cell", ["2019 10", "[1, 2]", "{'iso': 100, 'f': 2.8, 'time': 0.01, 'zoom': 3}", "1 2 3 4 5"])
def test_a_column_of_other_numbers_is_no_box(tmp_path, cell):
    for number in range(2):
        miniatures.write(tmp_path / f"{number}.jpg", miniatures.make_image(seed=number))
    miniatures.write(tmp_path / "labels.csv", f'image,about,class\n0.jpg,"{cell}",cat\n1.jpg,"{cell}",dog\n')
    assert words(tmp_path) == []


@pytest.mark.parametrize("file", ["labels.tsv", "labels.csv"])
def test_a_table_has_tabs_or_names_its_separator(tmp_path, file):
    """The first line `sep=;` is Excel's."""
    for number in range(4):
        miniatures.write(tmp_path / f"{number}.jpg", miniatures.make_image(seed=number))
    sign, first = ("\t", "") if file.endswith("tsv") else (";", "sep=;\n")
    rows = [("file", "label"), *((f"{number}.jpg", "cat, big" if number % 2 else "dog") for number in range(4))]
    miniatures.write(tmp_path / file, first + "".join(sign.join(row) + "\n" for row in rows))
    found = inspect(tmp_path)
    assert (found.fatal, found.labels.classes) == ([], ("cat, big", "dog"))


def test_a_column_of_splits_tells_images_of_one_name_apart(tmp_path):
    for split, seed in (("train", 1), ("val", 2)):
        miniatures.write(tmp_path / f"{split}/0.jpg", miniatures.make_image(seed=seed))
    miniatures.write(tmp_path / "labels.csv", "file,label,split\n0.jpg,cat,train\n0.jpg,dog,val\n")
    found = inspect(tmp_path)
    assert found.fatal == []
    assert {each.item.image.parent.name: found.labels.classes[each.item.label] for each in found.items} == {
        "train": "cat",
        "val": "dog",
    }


@pytest.mark.parametrize("column", ["Patient ID", "patient-id", "lesion_id"])
def test_a_group_is_kept_together_whatever_its_column_is_called(tmp_path, column):
    for number in range(6):
        miniatures.write(tmp_path / f"{number}.jpg", miniatures.make_image(seed=number))
    rows = "".join(f"{n}.jpg,{'cat' if n % 2 else 'dog'},P{n // 2}\n" for n in range(6))
    miniatures.write(tmp_path / "labels.csv", f"file,label,{column}\n{rows}")
    assert [each.item.group for each in inspect(tmp_path).items] == ["P0", "P0", "P1", "P1", "P2", "P2"]


def test_a_test_split_of_other_classes_is_a_problem(tmp_path):
    for number in range(8):
        miniatures.write(tmp_path / f"{number}.jpg", miniatures.make_image(seed=number))
    for split, names, numbers in (("train", ("cat", "dog"), range(4)), ("test", ("0", "1"), range(4, 8))):
        rows = "".join(f"{number}.jpg,{names[number % 2]}\n" for number in numbers)
        miniatures.write(tmp_path / f"{split}.csv", f"file,label\n{rows}")
    assert words(tmp_path) == [
        f"{tmp_path}: expected the classes of train in test, found cat, dog in train and 0, 1 in test. Name them alike."
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_a_table_in_utf_16_is_read(tmp_path, encoding):
    """As Excel writes Unicode text: with a byte order mark, and tabs."""
    for number in range(2):
        miniatures.write(tmp_path / f"{number}.jpg", miniatures.make_image(seed=number))
    text = "\ufeff" * (encoding == "utf-16-be") + "image\tlabel\n0.jpg\tFüchse\n1.jpg\tIgel\n"
    miniatures.write(tmp_path / "labels.csv", text.encode(encoding))
    found = inspect(tmp_path)
    assert (found.fatal, found.labels.classes) == ([], ("Füchse", "Igel"))


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        (",filename,label", ["0,{}.jpg,{}"]),
        ("filename,label,", ["{}.jpg,{},"]),
        (",Filename,Label,ClassName", ["0,{}.jpg,7,{}"]),
    ],
)
def test_a_column_without_a_name_is_no_split(tmp_path, header, rows):
    """As pandas writes its index."""
    for number in range(4):
        miniatures.write(tmp_path / f"{number}.jpg", miniatures.make_image(seed=number))
    lines = [rows[0].format(number, ("cat", "dog")[number % 2]) for number in range(4)]
    if "7" in rows[0]:
        lines = [line.replace(",7,", f",{number % 2},") for number, line in enumerate(lines)]
    miniatures.write(tmp_path / "labels.csv", "\n".join([header, *lines]) + "\n")
    found = inspect(tmp_path)
    assert (found.fatal, found.labels.classes, [*found.splits]) == ([], ("cat", "dog"), ["train"])


def test_a_column_that_says_splits_is_not_called_unread(tmp_path):
    for number in range(4):
        miniatures.write(tmp_path / f"{number}.jpg", miniatures.make_image(seed=number))
    for column, train, val in (("subset", "train", "val"), ("partition", "0", "1"), ("is_train", "1", "0")):
        rows = "".join(f"{n}.jpg,{'cat' if n % 2 else 'dog'},{train if n < 2 else val}\n" for n in range(4))
        miniatures.write(tmp_path / "labels.csv", f"filename,label,{column}\n{rows}")
        found = inspect(tmp_path)
        assert {split: len(items) for split, items in found.splits.items()} == {"train": 2, "val": 2}
        assert found.layout.reasons[0] == f"labels.csv with columns filename, label, {column}"


def test_a_table_of_gigabytes_is_named_and_not_read(tmp_path):
    miniatures.csv_labels(tmp_path)
    with (tmp_path / "labels.csv").open("ab") as handle:
        handle.truncate(6 << 30)
    assert words(tmp_path) == [
        f"{tmp_path}/labels.csv: expected a table of at most 1,073,741,824 bytes, found 6,442,450,944. Divide it, for "
        "example by splits."
    ]


@pytest.mark.parametrize(
    ("ids", "labels", "note"),
    [((1, 2, 3), (0, 1, 2), False), ((0, 1, 2), (0, 1, 2), False), ((1, 2, 1), (1, 2, 1), True)],
)
def test_ids_of_named_classes_may_be_counted_from_1(tmp_path, ids, labels, note):
    miniatures.write(tmp_path / "classes.txt", "car\ntree\nbus\n")
    miniatures.write(
        tmp_path / "labels.csv", "image,label\n" + "".join(f"{n}.png,{each}\n" for n, each in enumerate(ids))
    )
    for number in range(3):
        miniatures.write(tmp_path / f"{number}.png", miniatures.make_image(seed=number))
    found = inspect(tmp_path)
    said = [each.message for each in found.problems if each.kind == "id 0 is not used"]

    assert tuple(each.item.label for each in found.items) == labels
    sentence = (
        "labels.csv: no row has the id 0, car. If ids are counted from 1, every row has the name of the next class: subtract 1 "
        "from the ids."
    )
    assert said == ([sentence] if note else [])


@pytest.mark.parametrize(("folder", "file"), [("", "{}.jpg"), ("", "{}"), ("_images", "{}.jpg"), ("_images", "{}")])
def test_a_table_of_a_split_means_the_images_of_its_folder(tmp_path, folder, file):
    """Kaggle: train.csv beside train/ and test/, which are both numbered from 0 on."""
    for number in range(4):
        for split in ("train", "test"):
            place = tmp_path / f"{split}{folder}/{number}.jpg"
            miniatures.write(place, miniatures.make_image(seed=number + 10 * len(split)))
    rows = "".join(f"{file.format(number)},{'ab'[number % 2]}\n" for number in range(4))
    miniatures.write(tmp_path / "train.csv", f"id,label\n{rows}")
    found = inspect(tmp_path)

    assert found.fatal == []
    assert [(each.item.split, each.item.image) for each in found.items] == [
        ("train", tmp_path / f"train{folder}/{number}.jpg") for number in range(4)
    ]


def test_a_path_in_a_table_may_begin_above_it(tmp_path):
    """VisA: candle/anno.csv names candle/a/0.jpg."""
    for seed, (name, number) in enumerate((name, number) for name in "ab" for number in range(3)):
        miniatures.write(tmp_path / f"candle/{name}/{number}.jpg", miniatures.make_image(seed=seed))
    rows = "".join(f"candle/{name}/{number}.jpg,{name}\n" for name in "ab" for number in range(3))
    miniatures.write(tmp_path / "candle/anno.csv", f"image,label\n{rows}")

    for root in (tmp_path, tmp_path / "candle"):
        found = inspect(root)
        assert found.fatal == []
        assert [found.labels.classes[each.item.label] for each in found.items] == [*"aaabbb"]


def test_a_table_below_that_names_the_images_is_not_passed_over(tmp_path):
    """CheXpert: folders of patients, and a table of several findings."""
    rows = []
    for number in range(6):
        name = f"CheXpert/train/patient{number}/study1/view1.jpg"
        miniatures.write(tmp_path / name, miniatures.make_image(seed=number))
        rows.append(f"{name},Male,{number % 2}\n")
    miniatures.write(tmp_path / "CheXpert/train.csv", f"Path,Sex,Edema\n{''.join(rows)}")
    expected = "expected a layout that reads it, as its column Path names images, found one folder per class."

    assert any(each.startswith(f"train.csv: {expected}") for each in words(tmp_path / "CheXpert"))
    assert any(each.startswith(f"CheXpert/train.csv: {expected}") for each in words(tmp_path))


def test_a_table_of_too_many_columns_is_refused(tmp_path):
    miniatures.write(tmp_path / "0.jpg", miniatures.make_image())
    columns = [f"c{number}" for number in range(20_000)]
    miniatures.write(tmp_path / "labels.csv", f"image,{','.join(columns)}\n0.jpg,1{',0' * 19_999}\n")

    assert words(tmp_path) == [
        f"{tmp_path}/labels.csv: expected a table of at most 10,000 columns, found 20,001. Move it away, or leave columns out."
    ]


def test_labels_of_a_list_may_hold_spaces(tmp_path):
    """FGVC-Aircraft: lines such as `0001000 A310 series`."""
    for number in range(4):
        miniatures.write(tmp_path / f"images/{number:07}.jpg", miniatures.make_image(seed=number))
    names = ("A310 series", "Boeing 737-200")
    for split, numbers in (("train", (0, 1, 2)), ("val", (3,))):
        lines = "".join(f"{number:07} {names[number % 2]}\n" for number in numbers)
        miniatures.write(tmp_path / f"images_variant_{split}.txt", lines)
    found = inspect(tmp_path)

    assert found.problems == ()
    assert [(each.item.split, found.labels.classes[each.item.label]) for each in found.items] == [
        ("train", names[0]), ("train", names[1]), ("train", names[0]), ("val", names[1]),
    ]  # fmt: skip


def test_numbers_of_a_list_have_the_names_of_the_folders_that_hold_one_each(tmp_path):
    """Places365: training images in folders of classes, those of val in one folder; TrashNet names no folders."""
    lines = {"train": [], "val": []}
    for number in range(6):
        label, name = number % 3, ("airfield", "barn", "canyon")[number % 3]
        miniatures.write(tmp_path / f"train/{name}/{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"val/v{number}.jpg", miniatures.make_image(seed=number + 10))
        lines["train"].append(f"{number}.jpg {label}\n")
        lines["val"].append(f"v{number}.jpg {label}\n")
    for split, text in lines.items():
        miniatures.write(tmp_path / f"{split}.txt", "".join(text))
    found = inspect(tmp_path)

    assert found.labels.classes == ("airfield", "barn", "canyon")
    assert all(each.item.label == int(each.item.image.stem.strip("v")) % 3 for each in found.items)


def test_two_sets_of_labels_are_a_problem_whatever_they_hold(tmp_path):
    for number in range(4):
        miniatures.write(tmp_path / f"images/{number:07}.jpg", miniatures.make_image(seed=number))
    for kind, names in (("maker", ("Airbus", "Boeing")), ("variant", ("A310 series", "B 737"))):
        lines = "".join(f"{number:07} {names[number % 2]}\n" for number in range(4))
        miniatures.write(tmp_path / f"images_{kind}.txt", lines)

    assert words(tmp_path) == [
        "images_variant.txt: expected one table, found images_maker.txt too, which is read. Join them, with a column split."
    ]


def test_numbers_of_a_box_are_not_proposed_as_a_class(tmp_path):
    for number in range(4):
        miniatures.write(tmp_path / f"{number}.jpg", miniatures.make_image(seed=number))
    cells = ("1 2 3 4;5 6 7 8", "no_box", "1 2 3 4", "5 6 9 9")
    rows = "".join(f"{number}.jpg,{cell},{'xy'[number % 2]}\n" for number, cell in enumerate(cells))
    miniatures.write(tmp_path / "t.csv", f"image_name,BoxesString,domain\n{rows}")

    assert "--field image=image_name --field label=domain" in words(tmp_path)[0]


class TestClassesOfBoxes:
    def table(self, root, columns, *rows):
        for number in range(3):
            miniatures.write(root / f"images/{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(root / "labels.csv", "\n".join([columns, *rows]) + "\n")

    @pytest.mark.parametrize(
        "column",
        ["label_name", "class_label", "objectName", "cls", "type", "name", "region_label", "class_id", "defect"],
    )
    def test_the_column_may_be_called_in_many_ways(self, tmp_path, column):
        rows = [f"{number}.jpg,{name},1,2,11,12" for number, name in enumerate(("dog", "cat", "dog"))]
        self.table(tmp_path, f"image_name,{column},xmin,ymin,xmax,ymax", *rows)
        found = inspect(tmp_path)

        assert (found.labels.classes, found.fatal) == (("cat", "dog"), [])
        assert [box.label for each in found.items for box in each.item.label] == [1, 0, 1]
        assert f"images are named by the column image_name, classes by {column.lower()}" in found.layout.reasons

    def test_words_are_read_rather_than_numbers(self, tmp_path):
        rows = [
            f"{n}.jpg,1,2,11,12,0.9,{label},{name}" for n, label, name in ((0, 7, "cat"), (1, 2, "dog"), (2, 7, "cat"))
        ]
        self.table(tmp_path, "filename,xmin,ymin,xmax,ymax,confidence,class,name", *rows)

        assert inspect(tmp_path).labels.classes == ("cat", "dog")

    @pytest.mark.parametrize("column", ["source", "name"])
    def test_another_column_has_no_classes(self, tmp_path, column):
        """Of the wheat heads `source` says whose field it is; a name that each box has for itself is none of a class."""
        self.table(tmp_path, f"filename,xmin,ymin,xmax,ymax,{column}", "0.jpg,1,2,11,12,a", "1.jpg,1,2,11,12,b")
        found = inspect(tmp_path)

        assert found.labels.classes == ("object",)
        assert "no column has classes: every box is an object" in found.layout.reasons

    def test_the_size_of_an_image_is_not_that_of_its_box(self, tmp_path):
        self.table(tmp_path, "filename,width,height,class,x,y,bbox_width,bbox_height", "0.jpg,32,24,cat,1,2,10,11")
        (box,) = inspect(tmp_path).items[0].item.label

        assert (box.left, box.top, box.right, box.bottom) == (1, 2, 11, 13)


def test_classes_of_a_one_hot_table_that_no_image_is_of_stay(tmp_path):
    for number in range(3):
        miniatures.write(tmp_path / f"{number}.jpg", miniatures.make_image(seed=number))
    miniatures.write(tmp_path / "_classes.csv", "filename,ant,bee,cat\n0.jpg,1,0,0\n1.jpg,0,0,1\n2.jpg,1,1,0\n")
    found = inspect(tmp_path)

    assert found.labels.classes == ("ant", "bee", "cat")
    assert [each.item.label for each in found.items] == [0, 2]
    assert [problem.kind for problem in found.problems] == ["row without one class"]


def test_classes_of_words_may_have_blanks_beside_lists_that_are_not_read(tmp_path):
    """As FGVC-Aircraft has them, beside a list of boxes; CelebA has one of attributes."""
    names = ("A300 B4", "707-320", "A300 B4")
    for number in range(3):
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.make_image(seed=number))
    miniatures.write(tmp_path / "variants.txt", "".join(f"{n} {name}\n" for n, name in enumerate(names)))
    miniatures.write(tmp_path / "boxes.txt", "".join(f"{n} 1 1 9 9\n" for n in range(3)))

    assert [message for message in notes(tmp_path) if "boxes" in message] == [
        "boxes.txt: its lines name images, but it is not read. Their classes are those of another list."
    ]
    assert inspect(tmp_path).labels.classes == ("707-320", "A300 B4")


def test_names_of_files_may_be_written_in_another_case(tmp_path):
    miniatures.csv_labels(tmp_path)
    path = tmp_path / "labels.csv"
    path.write_text(path.read_text().replace(".jpg", ".JPG"))

    assert words(tmp_path) == []


@pytest.mark.parametrize(
    ("tree", "splits"),
    [
        ([{"image": f"{n}.jpg", "label": name} for n, name in enumerate(("dog", "cat", "dog"))], ["train"] * 3),
        ({"0.jpg": "dog", "images/1.jpg": "cat", "2.jpg": "dog"}, ["train"] * 3),
        ({"training": [{"image": f"images/{n}.jpg", "label": ("cat", "dog")[1 - n]} for n in range(2)],
          "validation": [{"image": "2.jpg", "label": "dog"}]}, ["train", "train", "val"]),
        ([{"file_name": "https://host/2.jpg?token=a", "class": "dog"}, {"file_name": "1.jpg", "class": "cat"},
          {"file_name": "0.jpg", "class": "dog"}], ["train"] * 3),
    ],
)  # fmt: skip
def test_json_may_be_a_table(tmp_path, tree, splits):
    for number in range(3):
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.make_image(seed=number))
    (tmp_path / "labels.json").write_text(json.dumps(tree))
    found = inspect(tmp_path)
    of_image = {each.item.image.stem: (each.item.split, found.labels.classes[each.item.label]) for each in found.items}

    assert found.fatal == []
    assert of_image == {str(n): (splits[n], ("dog", "cat", "dog")[n]) for n in range(3)}


@pytest.mark.parametrize(
    "tree",
    [
        {"0": "cat", "1": "dog"},
        [{"image": "images/0.jpg", "label": "masks/0.png"}],
        [{"image": "0.jpg", "box": [1]}],
        [1],
    ],
)
def test_json_of_something_else_is_no_table(tmp_path, tree):
    miniatures.csv_labels(tmp_path)
    (tmp_path / "more.json").write_text(json.dumps(tree))

    assert words(tmp_path) == []
    assert inspect(tmp_path).labels.classes == ("cat", "dog")


@pytest.mark.parametrize("names", ["width,height", "image_width,image_height", "img_w,img_h"])
def test_images_of_another_size_than_their_rows_state_are_refused(tmp_path, names):
    for number in range(2):
        miniatures.write(tmp_path / f"{number}.jpg", miniatures.make_image(seed=number))
    rows = f"0.jpg,32,24,cat,2,3,12,20\n1.jpg,{'64,48'},cat,2,3,12,20\n"
    (tmp_path / "boxes.csv").write_text(f"filename,{names},class,xmin,ymin,xmax,ymax\n{rows}")
    assert words(tmp_path) == [
        "1.jpg: expected an image of 48 x 64 (height x width), which its annotations were made for, found 24 x 32, as viewers "
        "show it (EXIF orientation counts). The annotations are of an image 2 times as large. Use that image."
    ]


@pytest.mark.parametrize(
    ("names", "row"),
    [("x,y,width,height", "2,3,12,20"), ("xmin,ymin,xmax,ymax,width,height", "2,3,12,20,10,17"),
     ("xmin,ymin,xmax,ymax,w,h", "2,3,12,20,1,1")],
)  # fmt: skip
def test_width_and_height_of_a_box_are_none_of_the_image(tmp_path, names, row):
    miniatures.write(tmp_path / "0.jpg", miniatures.make_image())
    (tmp_path / "boxes.csv").write_text(f"filename,class,{names}\n0.jpg,cat,{row}\n")
    assert words(tmp_path) == []


def test_boxes_of_several_raters_are_a_problem(tmp_path):
    miniatures.write(tmp_path / "0.jpg", miniatures.make_image())
    rows = [f"0.jpg,cat,R{reader},2,3,12,20\n" for reader in (8, 9)]
    (tmp_path / "boxes.csv").write_text(f"filename,class,rad_id,xmin,ymin,xmax,ymax\n{''.join(rows)}")
    assert words(tmp_path) == [
        "boxes.csv: expected the boxes of one person for each image, found several in the column rad_id for 1 image, such as "
        "0.jpg: an object may have a box of each. Leave the rows of one there, or merge them."
    ]
    (tmp_path / "boxes.csv").write_text(f"filename,class,rad_id,xmin,ymin,xmax,ymax\n{rows[0]}{rows[0]}")
    assert words(tmp_path) == []


def test_names_of_ids_from_1_on_are_those_of_their_ids(tmp_path):
    """No class is made up for id 0, and no note says that ids are to be subtracted."""
    for number in range(6):
        miniatures.write(tmp_path / f"p{number}.jpg", miniatures.make_image(seed=number))
    (tmp_path / "classes.csv").write_text("id,name\n1,zebra\n2,ant\n3,mole\n")
    (tmp_path / "labels.csv").write_text("file,label\n" + "".join(f"p{n}.jpg,{n % 3 + 1}\n" for n in range(6)))
    found = inspect(tmp_path)
    assert (found.labels.classes, notes(tmp_path)) == (("zebra", "ant", "mole"), [])
    assert [each.item.label for each in found.items] == [0, 1, 2, 0, 1, 2]
    (tmp_path / "labels.csv").write_text("file,label\n" + "".join(f"p{n}.jpg,{n % 4}\n" for n in range(6)))
    assert inspect(tmp_path).labels.classes == ("class0", "zebra", "ant", "mole")
