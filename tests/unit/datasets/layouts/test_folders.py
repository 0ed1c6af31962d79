from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter
from support import miniatures
from support.commands import call
from support.layouts import notes, outside, words
from support.miniatures import gray, make_image, write

from penstock.cli import main
from penstock.datasets import LayoutOptions, inspect, scenes
from penstock.kinds import Labels


class TestSplits:
    def test_a_year_may_follow_their_name(self, tmp_path):
        miniatures.yolo(tmp_path)
        for place in ("images", "labels"):
            for split in ("train", "val"):
                (tmp_path / place / split).rename(tmp_path / place / f"{split}2017")
        found = inspect(tmp_path)

        assert (found.layout.name, list(found.splits)) == ("YOLO", ["train", "val"])
        assert [item.item.name for item in found.items] == ["a", "nothing"] * 2

    def test_the_last_year_goes_before_others(self, tmp_path):
        miniatures.yolo(tmp_path)
        for place in ("images", "labels"):
            (tmp_path / place / "train").rename(tmp_path / place / "train_2017")
            shutil.copytree(tmp_path / place / "train_2017", tmp_path / place / "train_2014")

        assert outside("images/train_2014/a.jpg") in notes(tmp_path)
        assert not any("2017" in note for note in notes(tmp_path) if "outside" in note)

    def test_one_without_folders_of_its_own_has_no_labels(self, tmp_path):
        for split in ("train", "val"):
            miniatures.write(tmp_path / f"{split}/images/a.jpg", miniatures.make_image(seed=len(split)))
            ids = np.random.default_rng(len(split)).integers(0, 3, (24, 32), np.uint8)
            miniatures.write(tmp_path / f"{split}/masks/a.png", miniatures.gray(ids))
        miniatures.write(tmp_path / "test/1.png", miniatures.make_image(seed=9))

        assert notes(tmp_path) == ["test: no labels for it in test: all of this split is left out."]

    def test_the_plain_name_goes_before_a_year(self, tmp_path):
        miniatures.folders(tmp_path)
        shutil.copytree(tmp_path / "train", tmp_path / "train2014")

        assert notes(tmp_path) == [outside("train2014/cat/a.jpg"), outside("train2014/dog/a.jpg")]

    @pytest.mark.parametrize("name", ["train20170", "train7", "train_0001", "trainer", "2017train"])
    def test_other_names_are_classes(self, tmp_path, name):
        miniatures.write(tmp_path / name / "a.jpg", miniatures.make_image())

        assert inspect(tmp_path).labels.classes == (name,)

    @pytest.mark.parametrize(("layout", "place"), [("yolo", "images/"), ("masks", "images/"), ("folders", "")])
    def test_images_outside_them_are_told_of(self, tmp_path, layout, place):
        getattr(miniatures, layout)(tmp_path)
        before = notes(tmp_path)
        for name in (f"{place}holdout/x/b.jpg", f"{place}c.jpg"):
            miniatures.write(tmp_path / name, miniatures.make_image(seed=77))

        assert [note for note in notes(tmp_path) if note not in before] == [
            outside(f"{place}c.jpg"),
            outside(f"{place}holdout/x/b.jpg"),
        ]


class TestClasses:
    def test_a_data_set_is_hardly_a_class(self, tmp_path):
        miniatures.masks(tmp_path / "camvid")
        miniatures.write(tmp_path / "other" / "a.jpg", miniatures.make_image(seed=40))

        assert inspect(tmp_path).layout.task == "segmentation"
        assert notes(tmp_path) == [
            "other/a.jpg: it lies beside images/ and masks/, and in neither of them. It is left out."
        ]

    @pytest.mark.parametrize("split", ["", "train/"])
    def test_a_folder_of_data_sets_is_none(self, tmp_path, split):
        for number, name in enumerate(("camvid", "street")):
            for place in ("images/a.jpg", "masks/a.png"):
                miniatures.write(tmp_path / name / split / place, miniatures.make_image(seed=2 * number + len(place)))
        (problem,) = inspect(tmp_path).fatal

        assert problem.message == (
            "camvid, street: expected a folder for each class, found images and masks in every folder. Inspect and pack each "
            "of them by itself."
        )

    def test_splits_are_hardly_a_class(self, tmp_path):
        for name in ("cat/train", "cat/val", "dog"):
            miniatures.write(tmp_path / f"{name}/a.jpg", miniatures.make_image(seed=len(name)))

        assert [note[:45] for note in notes(tmp_path)] == ["cat: it is taken for a class, but holds train"]

    def test_a_class_may_keep_its_images_in_a_folder(self, tmp_path):
        for name in ("cat", "dog"):
            miniatures.write(tmp_path / f"{name}/images/a.jpg", miniatures.make_image(seed=len(name) + ord(name[0])))

        assert notes(tmp_path) == []

    def test_folders_of_the_same_names_one_of_them_gray_may_be_no_classes(self, tmp_path):
        for number in range(2):
            miniatures.write(tmp_path / f"photos/{number}.jpg", miniatures.make_image(seed=number))
            noise = np.random.default_rng(number).integers(0, 256, (24, 32), np.uint8)
            miniatures.write(tmp_path / f"depth/{number}.png", miniatures.gray(noise))

        assert words(tmp_path) == [two_sides("depth", "photos")]
        assert words(tmp_path, LayoutOptions("folders")) == []

    @pytest.mark.parametrize(
        ("names", "change"),
        [
            (("HR/{:04d}", "LR/{:04d}x2"), lambda image: image.resize((16, 12))),
            (("clean/{}", "noisy/{}_n"), lambda image: image.filter(ImageFilter.GaussianBlur(1))),
            (("photo/{}", "sketch/{}"), lambda image: image.convert("L").filter(ImageFilter.FIND_EDGES).convert("RGB")),
        ],
    )
    def test_two_folders_that_show_the_same_are_no_classes(self, tmp_path, names, change):
        for number in range(6):
            small = np.random.default_rng(number).integers(0, 256, (6, 8, 3), np.uint8)
            image = Image.fromarray(small).resize((96, 64), Image.Resampling.BICUBIC)
            for name, made in zip(names, (image, change(image)), strict=True):
                path = tmp_path / f"{name.format(number)}.png"
                path.parent.mkdir(exist_ok=True)
                made.save(path)
        one, other = (name.partition("/")[0] for name in names)

        assert words(tmp_path) == [two_sides(other, one)]
        assert words(tmp_path, LayoutOptions("folders")) == []

    def test_two_classes_of_one_scene_are_two_classes(self, tmp_path):
        """As a camera above a belt takes them: all images look alike, those of one number no more than others."""
        scene = np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)
        for number in range(6):
            for seed, name in enumerate(("good", "broken")):
                part = scene.copy()
                part[number : number + 2, seed * 9 : seed * 9 + 4] = 255
                (tmp_path / name).mkdir(exist_ok=True)
                Image.fromarray(part).save(tmp_path / f"{name}/{number}.png")

        assert words(tmp_path) == []

    def test_two_classes_of_one_number_may_be_somewhat_alike(self, tmp_path):
        """As photographs of one hour are: nearer to each other than to those of other numbers, and not the same."""
        for number in range(6):
            hour = np.random.default_rng(number).normal(0, 50, (6, 8, 3))
            for seed, name in enumerate(("cat", "dog")):
                own = np.random.default_rng(100 * (seed + 1) + number).normal(0, 50, (6, 8, 3))
                small = np.clip(128 + hour + own, 0, 255).astype(np.uint8)
                (tmp_path / name).mkdir(exist_ok=True)
                Image.fromarray(small).resize((96, 64), Image.Resampling.BICUBIC).save(
                    tmp_path / f"{name}/{number}.png"
                )

        assert words(tmp_path) == []

    @pytest.mark.parametrize("names", [("testA", "testB", "trainA", "trainB"), ("seg_pred", "seg_test", "seg_train")])
    def test_folders_named_for_splits_are_no_classes(self, tmp_path, names):
        for seed, name in enumerate(names):
            miniatures.write(tmp_path / f"{name}/a.jpg", miniatures.make_image(seed=seed))

        assert words(tmp_path) == [
            f"{', '.join(names)}: expected a folder for each class, found folders whose names hold that of a "
            "split. If the rest of the names are classes, move the folders into train/, val/ and test/ without that "
            "word. If the names are classes, confirm it with --layout folders."
        ]
        assert words(tmp_path, LayoutOptions("folders")) == []

    def test_two_classes_whose_images_are_numbered_are_two_classes(self, tmp_path):
        for number in range(2):
            for seed, name in enumerate(("cat", "dog")):
                miniatures.write(tmp_path / f"{name}/{number}.jpg", miniatures.make_image(seed=number + 5 * seed))

        assert notes(tmp_path) == []

    def test_names_that_differ_in_capitals_alone_are_told_of(self, tmp_path):
        miniatures.csv_labels(tmp_path)
        table = tmp_path / "labels.csv"
        table.write_text(table.read_text().replace("p2.jpg,dog", "p2.jpg,Do g"))

        assert notes(tmp_path) == [
            "classes 'Do g' and 'dog' differ in capitals and spaces alone: if they are one, write it once."
        ]


def two_sides(other, one):
    return (
        f"{other}: expected the images of a class, found images that belong to those of {one}, by their names and by "
        f"what they show. If they are masks, use --images {one} --masks {other}. If a model shall make one from the "
        "other, describe the layout and the task in files of your own (docs/extending.md). If both are classes, confirm "
        "it with --layout folders."
    )


class TestFoldersAboveClasses:
    def classes(self, root, *tops, inner=("good", "bad")):
        for number, top in enumerate(tops):
            for seed, name in enumerate(inner):
                miniatures.write(root / f"{top}/{name}/a.jpg", miniatures.make_image(seed=10 * number + seed))

    @pytest.mark.parametrize(
        "tops", [("2026-03-01", "2026-03-02"), ("20260301 early", "20260301 late"), ("01.03.2026", "1999_12_31")]
    )
    def test_dates_are_no_classes(self, tmp_path, tops):
        self.classes(tmp_path, *tops)
        found = inspect(tmp_path)
        assert found.labels.classes == ("bad", "good")
        assert found.layout.reasons[0] == "each folder in those of the dates is a class; found 2"
        assert sorted((each.item.name, each.item.label) for each in found.items) == sorted(
            (f"{top}/{name}/a", label) for top in tops for label, name in enumerate(("bad", "good"))
        )
        assert [problem.message for problem in found.problems] == []

    def test_dates_in_splits_are_no_classes(self, tmp_path):
        self.classes(tmp_path, "train/2026-03-01", "train/2026-03-02", "val/2026-03-03")
        found = inspect(tmp_path)
        assert found.labels.classes == ("bad", "good")
        assert [(each.item.split, each.item.label) for each in found.items] == [
            ("train", 0), ("train", 1), ("train", 0), ("train", 1), ("val", 0), ("val", 1),
        ]  # fmt: skip

    def test_an_image_beside_the_classes_of_a_date_is_named(self, tmp_path):
        self.classes(tmp_path, "2026-03-01", "2026-03-02")
        miniatures.write(tmp_path / "b.jpg", miniatures.make_image(seed=70))
        assert notes(tmp_path) == [
            "b.jpg: expected an image in the folder of a class, found it beside them: it is left out."
        ]

    @pytest.mark.parametrize("tops", [("2026-03-01", "others"), ("1", "2"), ("12345678", "23456789")])
    def test_other_names_may_be_classes(self, tmp_path, tops):
        self.classes(tmp_path, *tops)
        assert inspect(tmp_path).labels.classes == tops
        assert words(tmp_path) == [
            f"{', '.join(tops)}: they are taken for classes, but hold folders of the same names: bad, good. If those are the "
            "classes, use --pattern '(?P<label>[^/]+)/[^/]+$'. If not, confirm the classes with --layout folders."
        ]

    def test_dates_with_images_of_their_own_are_classes(self, tmp_path):
        self.classes(tmp_path, "2026-03-01", "2026-03-02")
        miniatures.write(tmp_path / "2026-03-01/b.jpg", miniatures.make_image(seed=70))
        assert inspect(tmp_path).labels.classes == ("2026-03-01", "2026-03-02")

    def test_folders_of_different_names_are_parts_of_a_class(self, tmp_path):
        self.classes(tmp_path, "cat", inner=("tabby", "manx"))
        self.classes(tmp_path, "dog", inner=("pug", "boxer"))
        for number, name in enumerate(("tabby/b", "pug/b")):
            place = tmp_path / ("cat" if number == 0 else "dog") / f"{name}.jpg"
            miniatures.write(place, miniatures.make_image(seed=90 + number))
        for number, path in enumerate(sorted(tmp_path.rglob("a.jpg"))):
            path.write_bytes(miniatures.make_image(seed=50 + number))
        assert inspect(tmp_path).labels.classes == ("cat", "dog")
        assert notes(tmp_path) == [
            "cat, dog: they are taken for classes, but hold folders: boxer, manx, pug, tabby. If those are the classes, "
            "use --pattern '(?P<label>[^/]+)/[^/]+$'. If not, confirm the classes with --layout folders."
        ]


def test_images_beside_classes_are_named(tmp_path, capsys):
    miniatures.folders(tmp_path)
    miniatures.write(tmp_path / "train/stray.jpg", miniatures.make_image())
    out = call("inspect", tmp_path, capsys=capsys)[1]

    assert "train/stray.jpg: expected an image in the folder of a class, found it beside them: it is left out." in out
    assert "left out, not images" not in out


def test_class_folders_that_are_no_utf_8_are_left_out_by_name(tmp_path, capfd):
    for name in (b"cat", b"dog", b"caf\xe9"):
        folder = os.fsencode(tmp_path) + b"/raw/" + name
        Path(os.fsdecode(folder)).mkdir(parents=True)
        for number in range(2):
            data = miniatures.make_image(seed=len(name) * 10 + number)
            Path(os.fsdecode(folder), f"{number}.jpg").write_bytes(data)
    with pytest.raises(SystemExit) as caught:
        main(["pack", str(tmp_path / "raw"), "-o", str(tmp_path / "data"), "--skip-bad"])
    _, err = capfd.readouterr()

    assert "Traceback" not in err
    assert caught.value.code == 2
    assert err.splitlines()[-1] == (
        f"error: {tmp_path}/raw: expected class names in UTF-8, without control characters, found 'caf\\udce9' for id 0. "
        "Rename the class."
    )


@pytest.mark.parametrize("layout", ["split first", "no splits", "suffixes"])
def test_other_arrangements_are_recognised(tmp_path, layout):
    for i in range(4):
        encoded, mask = scenes.encode(scenes.draw(0, "x", i, (20, 30)))
        split = "training" if i < 3 else "validation"
        image, label = {
            "split first": (f"{split}/images/{i}.jpg", f"{split}/masks/{i}.png"),
            "no splits": (f"JPEGImages/{i}.jpg", f"SegmentationClass/{i}.png"),
            "suffixes": (f"imgs/{split}/city/{i}.jpg", f"labels/{split}/city/{i}_gt.png"),
        }[layout]
        for name, data in ((image, encoded), (label, mask)):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(data)
    found = inspect(tmp_path, Labels(classes=scenes.CLASSES))

    assert found.fatal == []
    expected = {"train": 4} if layout == "no splits" else {"train": 3, "val": 1}
    assert {split: len(items) for split, items in found.splits.items()} == expected


def test_images_of_one_name_keep_names_of_their_own(tmp_path):
    for number, name in enumerate(("cat/a.jpg", "cat/a.png", "dog/a.jpg")):
        miniatures.write(tmp_path / name, miniatures.make_image(seed=number))

    assert [each.item.name for each in inspect(tmp_path).items] == ["cat/a", "cat/a.png", "dog/a"]


class TestSides:
    """Two folders that are hardly two classes, and a single one."""

    def test_cut_outs_belong_to_their_photographs(self, tmp_path):
        for number in range(4):
            rgba = np.random.default_rng(number).integers(0, 256, (24, 32, 4), np.uint8)
            rgba[..., 3] = 0
            rgba[5:15, 4:20, 3] = 255
            miniatures.write(tmp_path / f"photos/{number}.jpg", miniatures.make_image(seed=number))
            (tmp_path / "cut").mkdir(exist_ok=True)
            Image.fromarray(rgba).save(tmp_path / f"cut/{number}-removebg-preview.png")

        assert words(tmp_path) == [two_sides("cut", "photos")]
        found = inspect(tmp_path, Labels(threshold=128), how=LayoutOptions(images="photos", masks="cut"))
        assert found.fatal == []
        assert found.labels.classes == ("class0", "class1")

    def test_a_single_folder_is_hardly_a_class(self, tmp_path):
        for split in ("train", "val"):
            miniatures.write(tmp_path / f"raw/data/{split}/cat/a.jpg", miniatures.make_image(seed=len(split)))

        assert words(tmp_path / "raw") == [
            f"data: expected a folder for each class, found one. If it holds the data, inspect and pack {tmp_path}/raw/data. "
            "If the class is in the names of the images, use --pattern. If it is the only class, confirm it with --layout "
            "folders."
        ]
        assert inspect(tmp_path / "raw", how=LayoutOptions("folders")).fatal == []


def test_splits_within_classes_are_a_problem_whose_remedy_works(tmp_path):
    for label in ("ok", "defect"):
        for split in ("train", "test"):
            miniatures.write(
                tmp_path / f"{label}/{split}/{label}{split}.jpg", miniatures.make_image(seed=len(label + split))
            )
    (problem,) = inspect(tmp_path).fatal
    pattern = "(?P<label>[^/]+)/(?P<split>test|train)/"

    assert problem.message == (
        f"{tmp_path}: expected folders of classes in folders of splits, found 2 folders such as defect/ that each hold test/ "
        f"and train/. If these are the splits, use --pattern '{pattern}'. If not, use --layout "
        "folders."
    )
    assert words(tmp_path, LayoutOptions("folders")) == []
    found = inspect(tmp_path, how=LayoutOptions(pattern=pattern))
    assert (found.labels.classes, {name: len(items) for name, items in found.splits.items()}, found.fatal) == (
        ("defect", "ok"), {"train": 2, "test": 2}, [],
    )  # fmt: skip


class TestNames:
    def test_numbers_are_classes_in_their_order(self, tmp_path):
        for number in range(12):
            miniatures.write(tmp_path / str(number) / f"{number}.jpg", miniatures.make_image(seed=number))

        assert inspect(tmp_path).labels.classes == tuple(map(str, range(12)))

    def test_a_list_names_folders_that_are_called_by_ids(self, tmp_path):
        for number in range(12):
            miniatures.write(tmp_path / str(number) / f"{number}.jpg", miniatures.make_image(seed=number))
        names = [f"name{number}" for number in range(12)]
        (tmp_path / "classes.txt").write_text("\n".join(names))
        found = inspect(tmp_path)

        assert found.labels.classes == tuple(names)
        assert {each.item.name: each.item.label for each in found.items} == {f"{n}/{n}": n for n in range(12)}

    @pytest.mark.parametrize("name", ["unlabelled", "un_labeled", "unsup", "Output", "models", "predictions"])
    def test_names_of_what_is_no_class_must_be_confirmed(self, tmp_path, name):
        miniatures.folders(tmp_path)
        miniatures.write(tmp_path / "train" / name / "x.jpg", miniatures.make_image(seed=7))

        assert words(tmp_path) == [
            f"train/{name}: expected a folder of a class, found one whose name is hardly that of a class. Move it away, "
            "or confirm it with --layout folders."
        ]
        assert inspect(tmp_path, how=LayoutOptions(layout="folders")).labels.classes == tuple(
            sorted(["cat", "dog", name])
        )

    @pytest.mark.parametrize("name", ["cat - Copy", "cat copy", "cat copy 2", "cat (1)", "cat - Copy (2)"])
    def test_a_copy_of_a_class_must_be_confirmed(self, tmp_path, name):
        miniatures.folders(tmp_path)
        miniatures.write(tmp_path / "train" / name / "x.jpg", miniatures.make_image(seed=7))

        assert words(tmp_path) == [
            f"train/{name}: expected a folder of a class, found a copy of cat/. Move it away, or confirm it with --layout "
            "folders."
        ]

    def test_numbers_behind_a_name_are_no_copies(self, tmp_path):
        for number, name in enumerate(["type", "type 2", "type 3"]):
            miniatures.write(tmp_path / name / f"{number}.jpg", miniatures.make_image(seed=number))

        assert words(tmp_path) == []


def test_a_val_split_of_other_classes_is_refused(tmp_path):
    for number, name in enumerate(["train/cat", "train/dog", "val/Katze", "val/Hund"]):
        miniatures.write(tmp_path / name / f"{number}.jpg", miniatures.make_image(seed=number))

    assert (
        f"{tmp_path}: expected the classes of train in val, found cat, dog in train and Hund, Katze in val. Name them alike."
        in words(tmp_path)
    )


@pytest.mark.parametrize("mask", ["{0}/{1}.png", "{0}/gt/{1}.png", "{0}/Imgs/{1}.png"])
def test_masks_among_the_images_of_classes_are_a_problem(tmp_path, mask):
    """FSS-1000, and the defects of magnetic tiles: CLASS/1.jpg, CLASS/1.png."""
    for first, name in ((0, "crack"), (4, "dent")):
        for number in range(first, first + 4):
            inside = "Imgs/" if "Imgs" in mask else ""
            write(tmp_path / f"{name}/{inside}{number}.jpg", make_image(seed=number))
            write(tmp_path / mask.format(name, number), gray(np.eye(24, 32, number, dtype=np.uint8) * 255))
    image, found = ("crack/Imgs/0.jpg" if "Imgs" in mask else "crack/0.jpg"), mask.format("crack", 0)
    assert words(tmp_path) == [
        f"{found}: expected an image of a class, found what looks like the mask of {image}. Pack the masks with --task "
        "segmentation from folders images/ and masks/, or move them away."
    ]


def test_of_folders_named_for_splits_the_pattern_keeps_the_splits(tmp_path):
    """Intel's scenes."""
    for split in ("seg_train", "seg_test"):
        for seed, name in enumerate(("buildings", "forest")):
            write(tmp_path / split / name / f"{split}.jpg", make_image(seed=seed + 5 * (split == "seg_test")))
    pattern = "(?i:(?P<split>train|val|test))[^/]*/(.+/)?(?P<label>[^/]+)/[^/]+$"
    assert words(tmp_path)[0] == (
        "seg_test, seg_train: they are taken for classes, but hold folders of the same names: buildings, forest. If those "
        f"are the classes, use --pattern '{pattern}'. If not, confirm the classes with --layout folders."
    )
    found = inspect(tmp_path, how=LayoutOptions(pattern=pattern))
    assert {split: len(items) for split, items in found.splits.items()} == {"train": 2, "test": 2}
    assert found.labels.classes == ("buildings", "forest")


@pytest.mark.parametrize(
    ("image", "mask"),
    [
        ("benign ({}).png", "benign ({})_mask.png"),
        ("Train/{:04}.png", "Train/Label/{:04}_label.png"),
        ("{}.jpg", "{}.png"),
    ],
)
@pytest.mark.parametrize("how", [{"layout": "folders"}, {"pattern": "^(?P<label>[^/]+)/"}])
def test_masks_that_a_class_holds_are_named_by_every_way(tmp_path, image, mask, how):
    """BUSI, DAGM, magnetic tiles."""
    spots = np.zeros((24, 32), np.uint8)
    spots[4:9, 5:20] = 255
    for name in ("one", "two"):
        for number in range(4):
            miniatures.write(tmp_path / name / image.format(number), make_image(seed=hash((name, number)) % 1000))
            miniatures.write(tmp_path / name / mask.format(number), gray(spots))
    found = [each for each in inspect(tmp_path, how=LayoutOptions(**how)).problems if each.kind == "masks in classes"]
    first = f"one/{mask.format(0)}"

    assert [(each.message, each.fatal) for each in found] == [
        (
            f"{first}: expected an image of a class, found what looks like the mask of one/{image.format(0)}. Pack the masks "
            "with --task segmentation from folders images/ and masks/, or move them away.",
            False,
        )
    ]


def test_a_folder_of_lists_is_no_class(tmp_path):
    miniatures.folders(tmp_path)
    classes = inspect(tmp_path).labels.classes
    for name in ("meta", "train/meta"):
        write(tmp_path / name / "notes.txt", "what it is")

    assert inspect(tmp_path).labels.classes == classes
    assert inspect(tmp_path).fatal == []


def test_a_folder_without_classes_beside_one_with_them_is_no_class(tmp_path):
    """The ASL alphabet: asl_train/asl_train/A, asl_test/asl_test with all images in it."""
    for number, name in enumerate(("asl_train/asl_train/A", "asl_train/asl_train/B", "asl_test/asl_test")):
        write(tmp_path / f"{name}/{number}.jpg", make_image(seed=number))
    (said,) = [each for each in words(tmp_path) if "they are taken for classes" in each]

    assert said == (
        "asl_test, asl_train: they are taken for classes, but hold folders: A, B, asl_test. If those are the classes, use "
        "--pattern '(?i:(?P<split>train|val|test))[^/]*/(.+/)?(?P<label>[^/]+)/[^/]+$'. If not, confirm "
        "the classes with --layout folders. Move asl_test/asl_test away before: its images lie in no folder of a class."
    )


@pytest.mark.parametrize("folders", [("SegmentationClass", "SegmentationObject"), ("SegmentationClass", "cat")])
def test_masks_of_pascal_voc_without_their_images_are_no_classes(tmp_path, folders):
    for folder in folders:
        for number in range(3):
            miniatures.write(
                tmp_path / folder / f"{number}.png", miniatures.make_image(seed=10 * ord(folder[-1]) + number)
            )
    named = [name for name in folders if name.startswith("Seg")]

    assert words(tmp_path) == [
        f"{name}: expected a folder of a class, found one of masks, as Pascal VOC calls it. Put the images into JPEGImages/ "
        "beside it (CVAT exports them with 'Save images'), or confirm it with --layout folders."
        for name in named
    ]
    assert words(tmp_path, LayoutOptions("folders")) == []


@pytest.mark.parametrize("place", ["{}/{}/x{}.jpg", "{}/images/{}/x{}.jpg"])
def test_folders_that_hold_the_same_folders_are_refused_until_somebody_confirms_them(tmp_path, place):
    for seed, (outer, inner) in enumerate((a, b) for a in ("p1", "p2", "p3") for b in ("0", "1")):
        miniatures.write(tmp_path / place.format(outer, inner, seed), miniatures.make_image(seed=seed))
    same = " of the same names" if "images" not in place else ""
    pattern = "(?P<label>[^/]+)/[^/]+$"
    assert words(tmp_path) == [
        f"p1, p2, p3: they are taken for classes, but hold folders{same}: 0, 1. If those are the classes, use --pattern "
        f"'{pattern}'. If not, confirm the classes with --layout folders."
    ]
    assert inspect(tmp_path, how=LayoutOptions(pattern=pattern)).labels.classes == ("0", "1")
    assert words(tmp_path, LayoutOptions("folders")) == []


def test_the_pattern_for_folders_of_splits_fits_in_any_case(tmp_path):
    for seed, (outer, inner) in enumerate((a, b) for a in ("Final_Training", "Final_Test") for b in ("00", "01")):
        miniatures.write(tmp_path / f"{outer}/Images/{inner}/x{seed}.jpg", miniatures.make_image(seed=seed))
    (message,) = [each for each in words(tmp_path) if "--pattern" in each]
    pattern = message.partition("--pattern '")[2].partition("'")[0]
    found = inspect(tmp_path, how=LayoutOptions(pattern=pattern))
    assert (found.fatal, found.labels.classes, {name: len(each) for name, each in found.splits.items()}) == (
        [], ("00", "01"), {"test": 2, "train": 2},
    )  # fmt: skip


def test_a_folder_of_ground_truth_is_no_class(tmp_path):
    """KITTI's road: an image may have a mask of the road and one of its lane."""
    for number in range(3):
        miniatures.write(tmp_path / f"training/image_2/um_{number}.png", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"training/calib/um_{number}.txt", "P0: 1 2 3\n")
        for kind in ("road", "lane"):
            miniatures.write(
                tmp_path / f"training/gt_image_2/um_{kind}_{number}.png", miniatures.make_image(seed=number + 9)
            )
    assert [each.partition(": ")[0] for each in words(tmp_path)] == ["training/gt_image_2"]
    assert words(tmp_path, LayoutOptions("folders")) == []


@pytest.mark.parametrize("first", [0, 1])
def test_folders_that_are_called_by_numbers_have_the_names_of_a_list(tmp_path, first):
    """Oxford's flowers, as they are passed on with cat_to_name.json."""
    for number in range(first, first + 12):
        miniatures.write(tmp_path / f"train/{number}/a.jpg", miniatures.make_image(seed=number))
    names = {str(number): f"flower {number:02}" for number in range(first, first + 12)}
    miniatures.write(tmp_path / "cat_to_name.json", json.dumps(names))
    found = inspect(tmp_path)
    assert {each.item.image.parent.name: found.labels.classes[each.item.label] for each in found.items} == names


def test_a_list_of_the_classes_gives_their_order(tmp_path):
    for number, name in enumerate(("cat", "dog", "ant")):
        miniatures.write(tmp_path / f"{name}/{name}.jpg", miniatures.make_image(seed=number))
    assert inspect(tmp_path).labels.classes == ("ant", "cat", "dog")
    (tmp_path / "classes.txt").write_text("dog\nant\ncat\n")
    found = inspect(tmp_path)
    assert found.labels.classes == ("dog", "ant", "cat")
    assert {each.item.name: each.item.label for each in found.items} == {"dog/dog": 0, "ant/ant": 1, "cat/cat": 2}
    assert "classes have the order of the list beside the folders" in found.layout.reasons
    (tmp_path / "classes.txt").write_text("dog\nant\n")
    assert inspect(tmp_path).labels.classes == ("ant", "cat", "dog")
