"""Lists beside the data that divide it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support import miniatures
from support.layouts import notes, words

from penstock.datasets import inspect
from penstock.errors import DatasetError

IDS = np.arange(24 * 32, dtype=np.uint8).reshape(24, 32) % 2


def masks(root):
    for number in range(6):
        miniatures.write(root / f"images/{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(root / f"masks/{number}.png", miniatures.gray(IDS))


def classes(root):
    for number in range(6):
        miniatures.write(root / f"{('cat', 'dog')[number % 2]}/{number}.jpg", miniatures.make_image(seed=number))


def yolo(root):
    for number in range(6):
        miniatures.write(root / f"images/{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(root / f"labels/{number}.txt", "0 0.5 0.5 0.2 0.3\n")
    miniatures.write(root / "data.yaml", "names: [cup]\n")


def splits_of(folder):
    found = inspect(folder)
    assert found.fatal == []
    return {split: sorted(each.item.image.stem for each in items) for split, items in found.splits.items()}


@pytest.mark.parametrize("layout", [masks, yolo])
@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("{}.txt", "./images/{}.jpg"),
        ("ImageSets/Main/{}.txt", "{}"),
        ("splits/{}.lst", "{}.jpg"),
        ("lists/{}_list.txt", "some/other/root/images/{}.jpg masks/{}.png"),
        ("{}.csv", "images/{}.jpg,0"),
        ("ImageSets/Custom/{}.txt", "{}"),
        ("annotations/{}.txt", "{}"),
        ("split1/{}.txt", "images/{}.jpg"),
        ("data_list/{}set.txt", "{}.jpg"),
    ],
)
def test_a_list_is_read_wherever_it_lies(tmp_path, layout, place, line):
    layout(tmp_path)
    for split, numbers in {"train": "0145", "val": "23"}.items():
        text = "".join(line.replace("{}", number) + "\n" for number in numbers)
        miniatures.write(tmp_path / place.format(split), ("file,x\n" if place.endswith("csv") else "") + text)
    assert splits_of(tmp_path) == {"train": [*"0145"], "val": [*"23"]}


def test_lists_divide_classes(tmp_path):
    classes(tmp_path)
    miniatures.write(tmp_path / "train.txt", "cat/0.jpg\ndog/1.jpg\ncat/2.jpg\n")
    miniatures.write(tmp_path / "test.txt", "dog/3.jpg\ncat/4.jpg\n")
    found = inspect(tmp_path)
    assert splits_of(tmp_path) == {"train": [*"012"], "test": [*"34"]}
    assert "the splits are those of test.txt, train.txt" in found.layout.reasons
    assert "dog/5.jpg: no list of train, val or test names it. It is left out." in [
        each.message for each in found.problems
    ]


def test_what_does_not_fit_is_a_problem(tmp_path):
    masks(tmp_path)
    miniatures.write(tmp_path / "train.txt", "0\n1\n2\n9\n")
    miniatures.write(tmp_path / "val.txt", "2\n3\n4\n5\n")
    assert words(tmp_path) == [
        "train.txt, line 4: expected an image, found 9, which is none. Add the image, or remove the line.",
        "val.txt, line 1: expected an image of one split, found images/2.jpg, which is in train too. Remove one of the two "
        "lines.",
    ]


def test_a_name_that_several_images_have_is_not_guessed(tmp_path):
    for seed, name in enumerate(("cat", "dog")):
        for number in range(4):
            miniatures.write(tmp_path / f"{name}/{number}.jpg", miniatures.make_image(seed=number + 10 * seed))
    miniatures.write(tmp_path / "train.txt", "cat/1.jpg\ndog/1.jpg\ndog/2.jpg\ncat/3.jpg\n0.jpg\n")
    miniatures.write(tmp_path / "val.txt", "cat/2.jpg\ndog/3.jpg\n2\n")

    assert words(tmp_path) == [
        "train.txt, line 5: expected an image, found 0.jpg, as several are called. Write its path from the folder of the "
        "data.",
        "val.txt, line 3: expected an image, found 2, as several are called. Write its path from the folder of the data.",
    ]


def test_of_several_lists_of_a_split_the_plain_one_counts(tmp_path):
    masks(tmp_path)
    for name, text in {"train": "0\n1\n", "train_extra": "2\n", "val": "3\n"}.items():
        miniatures.write(tmp_path / f"{name}.txt", text)
    assert splits_of(tmp_path) == {"train": [*"01"], "val": ["3"]}


@pytest.mark.parametrize("layout", [masks, classes, yolo])
@pytest.mark.parametrize(
    ("files", "split"),
    [
        ({"trainval.txt": "0\n1\n4\n5\n", "test.txt": "2\n3\n"}, "test"),
        ({"ImageSets/trn.txt": "0\n1\n4\n5\n", "ImageSets/val.txt": "2\n3\n"}, "val"),
        ({"list/train_id.txt": "0\n1\n4\n5\n", "list/val_id.txt": "2\n3\n"}, "val"),
        (
            {"data/list/train.lst": "0.jpg x\n1.jpg x\n4.jpg x\n5.jpg x\n", "data/list/val.lst": "2.jpg x\n3.jpg x\n"},
            "val",
        ),
        ({"valid.txt": "2.jpg\n3.jpg\n"}, "val"),
        ({"test.txt": "2\n3\n"}, "test"),
        ({"split.csv": "id,split\n0,train\n1,train\n2,val\n3,val\n4,train\n5,train\n"}, "val"),
        ({"folds.csv": "image,mask,is_training_img\n0,a,1\n1,a,1\n2,a,0\n3,a,0\n4,a,1\n5,a,1\n"}, "val"),
        ({"list_eval_partition.txt": "0.jpg 0\n1.jpg 0\n2.jpg 1\n3.jpg 1\n4.jpg 0\n5.jpg 0\n"}, "val"),
        ({"split.json": '{"train": ["0", "1", "4", "5"], "test": ["2", "3"]}'}, "test"),
        (
            {"my_splits.json": '{"training": ["0.jpg", "1.jpg", "4.jpg", "5.jpg"], "validation": ["2.jpg", "3.jpg"]}'},
            "val",
        ),
    ],
    ids=lambda each: next(iter(each), "") if isinstance(each, dict) else each,
)
def test_whatever_divides_the_images_is_read(tmp_path, layout, files, split):
    layout(tmp_path)
    for name, text in files.items():
        miniatures.write(tmp_path / name, text)
    if layout is classes and ("folds.csv" in files or "/" in next(iter(files))):
        return  # a table may be one of labels, and a folder one of a class
    assert splits_of(tmp_path) == {"train": [*"0145"], split: [*"23"]}


def test_folders_of_cases_may_hold_the_name_of_a_split(tmp_path):
    """UAVid: uavid_train/seq1/Images, uavid_val/seq16/Labels."""
    for split, number in (("train", "1"), ("val", "2")):
        root = tmp_path / f"uavid_{split}/seq{number}"
        miniatures.write(root / f"Images/{number}.jpg", miniatures.make_image(seed=int(number)))
        miniatures.write(root / f"Labels/{number}.png", miniatures.gray(IDS))
    assert splits_of(tmp_path) == {"train": ["1"], "val": ["2"]}


@pytest.mark.parametrize("text", ["[1]", '{"train": 3}', '{"a": ["0"]}', "{", '{"train": ["x"], "val": ["y"]}'])
def test_json_of_something_else_divides_nothing(tmp_path, text):
    masks(tmp_path)
    miniatures.write(tmp_path / "split.json", text)
    assert splits_of(tmp_path) == {"train": [*"012345"]}


def test_a_list_of_train_alone_divides_nothing(tmp_path):
    masks(tmp_path)
    miniatures.write(tmp_path / "train.txt", "0\n1\n")
    assert splits_of(tmp_path) == {"train": [*"012345"]}
    assert notes(tmp_path) == []


def test_lists_of_videos_name_the_folders_of_their_images(tmp_path):
    """DAVIS: ImageSets/2017/train.txt with a video in each line."""
    for number, video in enumerate(("bear", "bear", "bmx", "cow")):
        miniatures.write(tmp_path / f"JPEGImages/480p/{video}/{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"Annotations/480p/{video}/{number}.png", miniatures.gray(IDS))
    miniatures.write(tmp_path / "ImageSets/2017/train.txt", "bear\ncow\n")
    miniatures.write(tmp_path / "ImageSets/2017/val.txt", "bmx\n")

    assert splits_of(tmp_path) == {"train": [*"013"], "val": ["2"]}


@pytest.mark.parametrize("place", ["fold{}/{}.txt", "{1}_{0}.txt"])
def test_several_lists_of_one_split_are_a_problem(tmp_path, place):
    masks(tmp_path)
    for fold in "12":
        for split, numbers in {"train": "0145", "val": "23"}.items():
            miniatures.write(tmp_path / place.format(fold, split), "".join(f"{number}\n" for number in numbers))
    paths = sorted(place.format(fold, split) for fold in "12" for split in ("train", "val"))

    assert words(tmp_path) == [
        f"{', '.join(paths)}: expected one list of images for each split, found several. Move those away that are not to "
        "divide the images."
    ]


def test_lists_of_something_else_are_named(tmp_path):
    """LandCover.ai: lists of tiles that are not cut yet."""
    masks(tmp_path)
    for split in ("train", "val"):
        miniatures.write(tmp_path / f"{split}.txt", "M-33-7_0\nM-33-7_1\n")

    assert notes(tmp_path) == [
        f"{split}.txt: it is called as a list of {split}, but hardly a line names an image: it is not read."
        for split in ("train", "val")
    ]


class TestNumberedImages:
    """The two tables of CUB-200."""

    @pytest.fixture
    def birds(self, tmp_path):
        classes(tmp_path)
        lines = (f"{9 - number} {('cat', 'dog')[number % 2]}/{number}.jpg\n" for number in range(6))
        miniatures.write(tmp_path / "images.txt", "".join(lines))
        return tmp_path

    def test_the_numbers_divide_them(self, birds):
        miniatures.write(birds / "train_test_split.txt", "9 1\n8 0\n7 1\n6 1\n5 0\n4 1\n")
        assert splits_of(birds) == {"train": [*"0235"], "test": [*"14"]}

    @pytest.mark.parametrize("line", ["3 1", "9 2"])
    def test_a_line_that_says_neither_is_named(self, birds, line):
        miniatures.write(birds / "train_test_split.txt", f"8 0\n{line}\n")
        with pytest.raises(DatasetError) as caught:
            inspect(birds)
        assert str(caught.value) == (
            f"{birds}/train_test_split.txt, line 2: expected the number of an image in images.txt, and 1 for train or 0 "
            f"for test, found {line}. Fix the line."
        )


class TestFolders:
    """A table or a JSON file of all images, which lie in folders that are called as splits are."""

    @pytest.fixture
    def parted(self, tmp_path):
        for number in range(6):
            split = "train" if number < 4 else "val"
            miniatures.write(tmp_path / f"{split}/{number}.jpg", miniatures.make_image(seed=number))
        return tmp_path

    def test_they_divide_a_table(self, parted):
        rows = (f"{'train' if number < 4 else 'val'}/{number}.jpg,{'ab'[number % 2]}\n" for number in range(6))
        miniatures.write(parted / "labels.csv", "image,label\n" + "".join(rows))
        assert splits_of(parted) == {"train": [*"0123"], "val": [*"45"]}
        assert "the splits are those of the folders that the images lie in" in inspect(parted).layout.reasons

    def test_they_divide_coco(self, parted):
        images = [
            {"id": number, "file_name": f"{'train' if number < 4 else 'val'}/{number}.jpg", "width": 32, "height": 24}
            for number in range(6)
        ]
        boxes = [{"id": n, "image_id": n, "category_id": 1, "bbox": [1, 2, 9, 9]} for n in range(6)]
        tree = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "fig"}]}
        miniatures.write(parted / "annotations.json", json.dumps(tree))
        assert splits_of(parted) == {"train": [*"0123"], "val": [*"45"]}

    def test_an_image_outside_of_them_leaves_all_undivided(self, parted):
        (parted / "val/5.jpg").rename(parted / "5.jpg")
        rows = (f"{'train/' if n < 4 else 'val/' if n < 5 else ''}{n}.jpg,{'ab'[n % 2]}\n" for n in range(6))
        miniatures.write(parted / "labels.csv", "image,label\n" + "".join(rows))
        assert splits_of(parted) == {"train": [*"012345"]}


def test_a_list_of_pairs_of_files_names_no_classes(tmp_path):
    yolo(tmp_path)
    miniatures.write(tmp_path / "all.txt", "".join(f"images/{n}.jpg masks/{n}.png\n" for n in range(6)))

    assert inspect(tmp_path).layout.task == "detection"


@pytest.mark.parametrize("names", [("train_1", "train_2", "testA_1"), ("train1", "train2", "test-1")])
def test_names_of_images_may_begin_with_the_split(tmp_path, names):
    """GlaS: train_1.bmp, testA_1.bmp and testA_1_anno.bmp in one folder."""
    for seed, name in enumerate(names):
        miniatures.write(tmp_path / f"images/{name}.jpg", miniatures.make_image(seed=seed))
        miniatures.write(tmp_path / f"masks/{name}.png", miniatures.gray(IDS))
    assert splits_of(tmp_path) == {"train": [*names[:2]], "test": [names[2]]}


def test_names_that_begin_with_train_alone_are_of_one_split(tmp_path):
    for seed, name in enumerate(("train_1", "train_2", "tram_1")):
        miniatures.write(tmp_path / f"images/{name}.jpg", miniatures.make_image(seed=seed))
        miniatures.write(tmp_path / f"masks/{name}.png", miniatures.gray(IDS))
    assert [*splits_of(tmp_path)] == ["train"]


@pytest.mark.parametrize(
    ("name", "tree"),
    [
        ("splits_final.json", [{"train": ["0", "1", "2", "3"], "val": ["4", "5"]}]),
        ("dataset_0.json", {"training": [{"image": f"images/{n}.jpg"} for n in range(4)], "validation": [{"image": ["4"]}, {"image": "5"}]}),
        ("splits.yaml", {"train": [0, 1, 2, 3], "val": [4, 5]}),
    ],
)  # fmt: skip
def test_lists_of_other_tools_divide(tmp_path, name, tree):
    masks(tmp_path)
    (tmp_path / name).write_text(json.dumps(tree))

    assert splits_of(tmp_path) == {"train": ["0", "1", "2", "3"], "val": ["4", "5"]}


def test_several_folds_are_named_and_not_read(tmp_path):
    masks(tmp_path)
    folds = [{"train": ["0", "1"], "val": ["2"]}, {"train": ["0", "2"], "val": ["1"]}]
    (tmp_path / "splits_final.json").write_text(json.dumps(folds))

    assert notes(tmp_path) == [
        "splits_final.json: it divides the images in 2 ways, of which none is read. Leave one there to use it."
    ]


def test_names_that_aliases_nest_are_not_written_out(tmp_path):
    """A few lines of YAML may stand for terabytes."""
    masks(tmp_path)
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)), "train: [{image: *a59}]"]
    (tmp_path / "splits.yaml").write_text("\n".join([*lines, "val: [*a59]"]))

    assert splits_of(tmp_path) == {"train": ["0", "1", "2", "3", "4", "5"]}


NUMBERS = {"train": "0145", "val": "23"}


@pytest.mark.parametrize("layout", [masks, classes])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.json", {split: json.dumps([f"{n}.jpg" for n in numbers]) for split, numbers in NUMBERS.items()}),
        ("trainlist01.txt", {split: "".join(f"{n}.jpg\n" for n in numbers) for split, numbers in NUMBERS.items()}),
        ("train_ids.txt", {split: "".join(f"{n}\n" for n in numbers) for split, numbers in NUMBERS.items()}),
    ],
)
def test_lists_in_other_forms_are_read(tmp_path, layout, name, text):
    layout(tmp_path)
    for split in NUMBERS:
        miniatures.write(tmp_path / name.replace("train", split), text[split])
    assert splits_of(tmp_path) == {split: [*numbers] for split, numbers in NUMBERS.items()}


ROWS = [(n, split) for split, numbers in NUMBERS.items() for n in numbers]


@pytest.mark.parametrize("layout", [masks, classes])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("split.txt", "".join(f"{n}.jpg {split}\n" for n, split in ROWS)),
        ("partition.csv", "".join(f"{n}.jpg,{split}\n" for n, split in ROWS)),
        ("splits.csv", "train,val\n0.jpg,2.jpg\n1.jpg,3.jpg\n4.jpg,\n5.jpg,\n"),
        ("dataset.json", json.dumps({"images": [{"filename": f"{n}.jpg", "split": split} for n, split in ROWS]})),
        ("splits.json", json.dumps([{"file_name": f"{n}.jpg", "split": split} for n, split in ROWS])),
    ],
)
def test_splits_in_one_file_are_read(tmp_path, layout, name, text):
    layout(tmp_path)
    miniatures.write(tmp_path / name, text)
    assert splits_of(tmp_path) == {split: [*numbers] for split, numbers in NUMBERS.items()}


def test_numbers_in_place_of_splits_are_refused(tmp_path):
    masks(tmp_path)
    miniatures.write(tmp_path / "split.txt", "".join(f"{n}.jpg {int(split == 'val')}\n" for n, split in ROWS))
    assert words(tmp_path) == [
        "split.txt: expected the name of an image and train, val or test in each line, found other words. Write the names "
        "of the splits, or move the file away."
    ]


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("val.txt", "2\n3\n1\n", 3),
        ("split.csv", "file,split\n" + "".join(f"{n}.jpg,{split if n != '1' else 'val'}\n" for n, split in ROWS), 3),
    ],
)
def test_lists_that_contradict_the_folders_are_refused(tmp_path, name, text, line):
    for number, split in ROWS:
        miniatures.write(tmp_path / f"images/{split}/{number}.jpg", miniatures.make_image(seed=int(number)))
        miniatures.write(tmp_path / f"masks/{split}/{number}.png", miniatures.gray(IDS))
    assert words(tmp_path) == []
    miniatures.write(tmp_path / "train.txt", "".join(f"{n}\n" for n in NUMBERS["train"]) if name == "val.txt" else "")
    miniatures.write(tmp_path / name, text)
    assert words(tmp_path) == [
        f"{name}, line {line}: expected the splits that the folders of the images have, found val for images/train/1.jpg, "
        "which is in train. Move the images, or move the list away."
    ]
