"""What a layout leaves out, puts together or has doubts about is said, as notes that stop nobody."""

from __future__ import annotations

import shutil

import miniatures
import numpy as np
import pytest
from test_layout_mistakes import changed
from test_packing import records

from penstock.datasets import FolderDataset, How, inspect, pack
from penstock.records.schema import decode_detection


def notes(folder, layout=""):
    """The notes on a folder that has no problems."""
    found = inspect(folder, how=How(layout))
    assert not found.fatal, found.fatal
    return [problem.message for problem in found.problems]


def outside(name):
    return f"{name}: expected an image in train, val or test, found it outside. Move it there, or leave it out."


def boxes(root, split="train"):
    """Boxes by image, as they are in the records."""
    decoded = (decode_detection(record) for record in records(FolderDataset.open(root / "data"), split))
    return {
        each.name: [(box.label, *map(round, (box.left, box.top, box.right, box.bottom))) for box in each.objects]
        for each in decoded
    }


class TestSplits:
    def test_a_year_may_follow_their_name(self, tmp_path):
        miniatures.yolo(tmp_path)
        for place in ("images", "labels"):
            for split in ("train", "val"):
                (tmp_path / place / split).rename(tmp_path / place / f"{split}2017")
        found = inspect(tmp_path)

        assert (found.layout.name, list(found.splits)) == ("YOLO", ["train", "val"])
        assert [item.item.name for item in found.facts] == ["a", "nothing"] * 2

    def test_the_last_year_goes_before_others(self, tmp_path):
        miniatures.yolo(tmp_path)
        for place in ("images", "labels"):
            (tmp_path / place / "train").rename(tmp_path / place / "train_2017")
            shutil.copytree(tmp_path / place / "train_2017", tmp_path / place / "train_2014")

        assert outside("images/train_2014/a.jpg") in notes(tmp_path)
        assert not any("2017" in note for note in notes(tmp_path) if "outside" in note)

    def test_cocos_json_may_lie_in_them(self, tmp_path):
        miniatures.coco(tmp_path)
        for split in ("train2017", "val2017"):
            (tmp_path / f"annotations/instances_{split}.json").rename(tmp_path / split / "_annotations.coco.json")
        found = inspect(tmp_path)

        assert (found.layout.name, list(found.splits), found.fatal) == ("COCO", ["train", "val"], [])

    def test_a_table_may_name_them_so(self, tmp_path):
        miniatures.csv_labels(tmp_path)
        table = tmp_path / "labels.csv"
        table.write_text(table.read_text().replace(",val", ",Val2017"))

        assert list(inspect(tmp_path).splits) == ["train", "val"]

    def test_one_without_folders_of_its_own_has_no_labels(self, tmp_path):
        for split in ("train", "val"):
            miniatures.write(tmp_path / f"{split}/images/a.jpg", miniatures.picture(seed=len(split)))
            ids = np.random.default_rng(len(split)).integers(0, 3, (24, 32), np.uint8)
            miniatures.write(tmp_path / f"{split}/masks/a.png", miniatures.gray(ids))
        miniatures.write(tmp_path / "test/1.png", miniatures.picture(seed=9))

        assert notes(tmp_path) == ["test: no labels for it in test: all of this split is left out."]

    def test_the_plain_name_goes_before_a_year(self, tmp_path):
        miniatures.folders(tmp_path)
        shutil.copytree(tmp_path / "train", tmp_path / "train2014")

        assert notes(tmp_path) == [outside("train2014/cat/a.jpg"), outside("train2014/dog/a.jpg")]

    @pytest.mark.parametrize("name", ["train20170", "train7", "train_0001", "trainer", "2017train"])
    def test_other_names_are_classes(self, tmp_path, name):
        miniatures.write(tmp_path / name / "a.jpg", miniatures.picture())

        assert inspect(tmp_path).labels.classes == (name,)

    @pytest.mark.parametrize(("layout", "place"), [("yolo", "images/"), ("masks", "images/"), ("folders", "")])
    def test_pictures_outside_them_are_told_of(self, tmp_path, layout, place):
        getattr(miniatures, layout)(tmp_path)
        before = notes(tmp_path)
        for name in (f"{place}holdout/x/b.jpg", f"{place}c.jpg"):
            miniatures.write(tmp_path / name, miniatures.picture(seed=77))

        assert [note for note in notes(tmp_path) if note not in before] == [
            outside(f"{place}c.jpg"),
            outside(f"{place}holdout/x/b.jpg"),
        ]

    @pytest.mark.parametrize("inside", [True, False])
    def test_mattes_outside_them_are_told_of(self, tmp_path, inside):
        for number, split in enumerate(("train", "val")):
            for kind, data in (
                ("images", miniatures.picture(seed=number)),
                ("alphas", miniatures.gray(np.full((24, 32), 9 + number, np.uint8))),
            ):
                miniatures.write(tmp_path / (f"{kind}/{split}" if inside else f"{split}/{kind}") / "a.png", data)
        name = "images/rest/b.jpg" if inside else "rest/images/b.jpg"
        miniatures.write(tmp_path / name, miniatures.picture(seed=7))

        assert outside(name) in notes(tmp_path)


class TestClasses:
    def test_a_data_set_is_hardly_a_class(self, tmp_path):
        miniatures.masks(tmp_path / "camvid")
        miniatures.write(tmp_path / "other" / "a.jpg", miniatures.picture(seed=40))

        assert notes(tmp_path) == [
            "camvid: it is taken for a class, but holds images/ and masks/. If it is a data set by itself, inspect and "
            "pack that folder."
        ]

    def test_splits_are_hardly_a_class(self, tmp_path):
        for name in ("cat", "dog"):
            miniatures.write(tmp_path / f"{name}/train/a.jpg", miniatures.picture(seed=len(name)))
            miniatures.write(tmp_path / f"{name}/val/a.jpg", miniatures.picture(seed=9 + ord(name[0])))

        assert [note[:45] for note in notes(tmp_path)] == [
            f"{name}: it is taken for a class, but holds train" for name in ("cat", "dog")
        ]

    def test_a_class_may_keep_its_pictures_in_a_folder(self, tmp_path):
        for name in ("cat", "dog"):
            miniatures.write(tmp_path / f"{name}/images/a.jpg", miniatures.picture(seed=len(name) + ord(name[0])))

        assert notes(tmp_path) == []

    def test_a_gray_picture_makes_no_masks(self, tmp_path):
        for name in ("cat", "dog"):
            for number in range(3):
                miniatures.write(tmp_path / f"{name}/{number}.jpg", miniatures.picture(seed=number + ord(name[0])))
        miniatures.write(tmp_path / "cat/0.png", miniatures.gray(np.zeros((24, 32), np.uint8)))
        (tmp_path / "cat/0.jpg").unlink()

        assert notes(tmp_path) == []

    def test_masks_are_hardly_a_class(self, tmp_path):
        for number in range(2):
            miniatures.write(tmp_path / f"photos/{number}.jpg", miniatures.picture(seed=number))
            ids = np.full((24, 32), number, np.uint8)
            miniatures.write(tmp_path / f"outlines/{number}.png", miniatures.gray(ids))

        assert notes(tmp_path) == [
            "outlines: it and photos are taken for classes, but hold images of the same names, in one of them of one "
            "channel. If those are masks, call the folders images/ and masks/."
        ]

    def test_two_classes_whose_pictures_are_numbered_are_two_classes(self, tmp_path):
        for number in range(2):
            for seed, name in enumerate(("cat", "dog")):
                miniatures.write(tmp_path / f"{name}/{number}.jpg", miniatures.picture(seed=number + 5 * seed))

        assert notes(tmp_path) == []

    def test_names_that_differ_in_capitals_alone_are_told_of(self, tmp_path):
        miniatures.csv_labels(tmp_path)
        table = tmp_path / "labels.csv"
        table.write_text(table.read_text().replace("p2.jpg,dog", "p2.jpg,Dog").replace("p3.jpg,cat", "p3.jpg,ca t"))

        assert notes(tmp_path) == [
            "classes 'ca t' and 'cat' differ in capitals and spaces alone: if they are one, write it once.",
            "classes 'Dog' and 'dog' differ in capitals and spaces alone: if they are one, write it once.",
        ]


class TestTables:
    def test_pictures_in_no_row_are_told_of(self, tmp_path):
        miniatures.csv_labels(tmp_path)
        miniatures.write(tmp_path / "test/q.jpg", miniatures.picture(seed=9))

        assert notes(tmp_path) == ["test/q.jpg: labels.csv does not name it: it is left out."]

    def test_pictures_of_other_columns_are_not(self, tmp_path):
        miniatures.csv_labels(tmp_path)
        miniatures.write(tmp_path / "outlines/q.png", miniatures.picture(seed=9))
        table = tmp_path / "labels.csv"
        head, *rows = table.read_text().splitlines()
        table.write_text("\n".join([f"{head},outline", *(f"{row},outlines/q.png" for row in rows)]) + "\n")

        assert notes(tmp_path) == []

    def test_letters_may_be_classes(self, tmp_path):
        miniatures.csv_labels(tmp_path)
        table = tmp_path / "labels.csv"
        table.write_text(table.read_text().replace("dog", "A").replace("cat", "a"))

        assert notes(tmp_path) == []

    def test_a_row_of_a_file_alone_is_a_picture_without_objects(self, tmp_path):
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
            "labels.csv, line 5: expected a filename and a label, found p3.jpg, , val. Fill in the row, or remove it."
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


class TestObjects:
    def test_two_images_of_one_file_are_put_together(self, tmp_path):
        def twice(tree):
            tree["images"].append({**tree["images"][0], "id": 99})
            tree["annotations"].append({**tree["annotations"][1], "id": 9, "image_id": 99, "bbox": [1, 2, 3, 4]})

        changed(tmp_path / "raw", twice)
        found = inspect(tmp_path / "raw")
        pack(found, tmp_path / "data")

        assert (
            "annotations/instances_train2017.json: images 7 and 99 are both 000000000000.jpg: their annotations are put "
            "together."
        ) in [problem.message for problem in found.problems]
        assert len(boxes(tmp_path)["000000000000"]) == 3

    def test_a_box_that_is_said_twice_is_taken_once(self, tmp_path):
        def again(tree):
            tree["annotations"].append({**tree["annotations"][0], "id": 9})

        changed(tmp_path / "raw", again)
        found = inspect(tmp_path / "raw")
        pack(found, tmp_path / "data")

        assert "train2017/000000000000.jpg: box 3 is box 1 again, of the same class: it is taken once." in [
            problem.message for problem in found.problems
        ]
        assert len(boxes(tmp_path)["000000000000"]) == 2

    def test_an_object_without_an_outline_is_told_of(self, tmp_path):
        changed(tmp_path, lambda tree: tree["annotations"][1].update(segmentation=[]))

        note = "train2017/000000000000.jpg: annotation 2 has no outline: its object is background in the mask."
        assert note in notes(tmp_path, "coco-masks")
