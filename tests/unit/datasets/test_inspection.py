from __future__ import annotations

import io
import json
import shutil

import numpy as np
import pytest
from PIL import Image
from support import annotations as tools
from support import miniatures
from support.commands import call
from support.errors import refused
from support.layouts import pack_skipping, words

from penstock.datasets import FolderDataset, LayoutOptions, inspect, listing
from penstock.datasets.listing import files
from penstock.kinds import Labels


def test_labels_without_any_object(tmp_path):
    miniatures.yolo(tmp_path)
    (tmp_path / "data.yaml").unlink()
    for split in ("train", "val"):
        (tmp_path / f"labels/{split}/a.txt").write_text("")

    assert words(tmp_path) == [
        "images/train/a.jpg: expected an object in any image, found none. Check where the labels are, and how they were "
        "exported."
    ]


def test_classes_that_nothing_is_left_of_are_told(tmp_path, capsys):
    raw = tmp_path / "raw"
    miniatures.folders(raw)
    (raw / "train/cat/a.jpg").write_bytes(b"\xff\xd8\xff")
    out = pack_skipping(tmp_path, capsys)

    assert "skipped 1 of 4 images\n" in out
    assert "note: classes that do not occur in train (1 of 2): cat\n" in out


def test_what_is_wrong_with_the_whole_folder_is_not_called_skipped(tmp_path, capsys):
    miniatures.folders(tmp_path / "raw")
    (tmp_path / "raw/train/bird").mkdir()
    code, out, err = call("pack", tmp_path / "raw", "-o", tmp_path / "data", "--skip-bad", capsys=capsys)

    assert (code, "skipped:" in out) == (2, False)
    assert "train/bird: expected images of class bird in split train, found none." in err


def test_minus_one_is_no_class(tmp_path, capsys):
    miniatures.tfds(tmp_path / "raw")
    (tmp_path / "raw/label.labels.txt").unlink()
    unlabelled = [{"image": miniatures.make_image(seed=50), "label": -1}]
    miniatures.shard(tmp_path / "raw/flowers-test.tfrecord-00000-of-00001", unlabelled)
    found = inspect(tmp_path / "raw")

    assert found.labels.classes == ("class0", "class1")
    assert [problem.message for problem in found.fatal] == [
        "flowers-test.tfrecord-00000-of-00001#0: expected the id of a class (0, 1, ...), found none. Add it to the names "
        "beside the files, or leave the record out."
    ]
    pack_skipping(tmp_path, capsys)
    assert set(FolderDataset.open(tmp_path / "data").description.splits) == {"train", "val"}


@pytest.mark.parametrize(
    ("layout", "gone", "note"),
    [
        ("camvid", "valannot", "val: no labels for it in valannot: all of this split is left out."),
        ("yolo", "labels/val", "images/val: no labels for it in labels/val: all of this split is left out."),
        (
            "ade20k", "annotations/validation",
            "images/validation: no labels for it in annotations/validation: all of this split is left out.",
        ),
    ],
)  # fmt: skip
def test_a_split_without_labels_is_told_of(tmp_path, layout, gone, note):
    miniatures.MINIATURES[layout](tmp_path)
    shutil.rmtree(tmp_path / gone)
    found = inspect(tmp_path)

    assert note in [problem.message for problem in found.problems]
    assert (found.fatal, "val" in found.splits) == ([], False)


def test_masks_of_nothing_that_counts(tmp_path):
    for number in range(2):
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"masks/{number}.png", miniatures.gray(np.full((24, 32), 255, np.uint8)))

    assert words(tmp_path)[0] == (
        "images/0.jpg: expected an id that counts in any mask, found none. Check where the labels are, and how they were "
        "exported."
    )


def test_a_bad_image_is_left_out_before_some_are_set_aside(tmp_path, capsys):
    for number in range(4):
        miniatures.write(
            tmp_path / f"raw/{'cat' if number % 2 else 'dog'}/{number}.jpg", miniatures.make_image(seed=number)
        )
    whole = [inspect(tmp_path / "raw").divided(0.25).splits["val"][0].item.image]
    whole[0].write_bytes(whole[0].read_bytes()[:50])
    pack_skipping(tmp_path, capsys, "--validation", 0.25)

    assert set(FolderDataset.open(tmp_path / "data").description.splits) == {"train", "val"}


def test_what_systems_keep_in_a_folder_is_no_data(tmp_path):
    miniatures.folders(tmp_path)
    miniatures.write(tmp_path / "lost+found/a.jpg", miniatures.make_image())

    assert "lost+found/a.jpg" not in {path.relative_to(tmp_path).as_posix() for path in listing.files(tmp_path)}


@pytest.mark.parametrize("name", ["@eaDir", "#recycle", "__MACOSX", "$RECYCLE.BIN", "System Volume Information"])
def test_folders_that_systems_make_are_no_classes(tmp_path, name):
    for place in ("cat", "dog", name, f"cat/{name}"):
        miniatures.write(tmp_path / place / "a.jpg", miniatures.make_image(seed=sum(place.encode())))
    found = inspect(tmp_path)

    assert found.labels.classes == ("cat", "dog")
    assert [each.item.name for each in found.items] == ["cat/a", "dog/a"]
    assert found.problems == ()


def test_a_folder_of_nothing_but_images_says_how_their_names_are_read(tmp_path):
    miniatures.write(tmp_path / "cat_1.jpg", miniatures.make_image())

    assert (
        "; pass the folder that holds all of the data, if this is a part of it or more than it; give --pattern if the class "
        "is in the name of the image; predict images without labels with penstock predict RUN FOLDER; describe the layout in a file of your own with --layout FILE.py:NAME. "
    ) in words(tmp_path)[0]


def test_masks_of_0_and_255_with_named_classes(tmp_path):
    ids = np.zeros((24, 32), np.uint8)
    ids[5:] = 255
    for number in range(2):
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"masks/{number}.png", miniatures.gray(ids))
    miniatures.write(tmp_path / "classes.txt", "ground\nthing\n")

    assert words(tmp_path) == [
        "train: expected more than one class in its 2 masks, found only the ids 0, 255. If 255 stands for a "
        "class, give it a class id with --map 255=1."
    ]


def test_links_to_nothing_are_named(tmp_path):
    miniatures.folders(tmp_path)
    (tmp_path / "train/cat/b.jpg").symlink_to(tmp_path / "gone.jpg")

    assert words(tmp_path)[0].startswith("train/cat/b.jpg: expected a readable file, found [Errno 2] No such file")


def test_linked_folders_are_entered_once(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "there/a.jpg").touch()
    (tmp_path / "here/link").symlink_to(tmp_path / "there")
    (tmp_path / "there/loop").symlink_to(tmp_path / "here")

    assert [path.relative_to(tmp_path).as_posix() for path in files(tmp_path / "here")] == ["here/link/a.jpg"]


@pytest.mark.parametrize("kind", ["csv", "coco"])
def test_images_outside_the_folder_are_told_of(tmp_path, capsys, kind):
    raw, beside = tmp_path / "raw", tmp_path / "beside"
    for number in range(3):
        miniatures.write((beside if number else raw) / f"{number}.jpg", miniatures.make_image(seed=number))
    names = ["0.jpg", "../beside/1.jpg", "../beside/2.jpg"]
    if kind == "csv":
        rows = [f"{name},{'cat' if number else 'dog'}" for number, name in enumerate(names)]
        miniatures.write(raw / "labels.csv", "\n".join(["file,label", *rows]) + "\n")
    else:
        images = [{"id": n, "file_name": name, "height": 24, "width": 32} for n, name in enumerate(names)]
        boxes = [{"id": n, "image_id": n, "category_id": 1, "bbox": [1, 1, 9, 9]} for n in range(3)]
        tree = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "cat"}]}
        miniatures.write(raw / "annotations.json", json.dumps(tree))
    code, out, _ = call("pack", raw, "-o", tmp_path / "data", capsys=capsys)

    assert code == 0
    assert f"2 images of 3 outside {raw}, where a table or list says so: packed all the same." in out


def test_data_without_training_images_is_a_problem_unless_it_is_only_evaluated(raw, tmp_path, capsys):
    shutil.copytree(raw, tmp_path / "raw")
    for folder in ("images", "masks"):
        shutil.rmtree(tmp_path / "raw" / folder / "train")
    said = (
        f"{tmp_path}/raw: expected images to train on, found only the splits val. Put the training images into a folder "
        "train/, write train into the table that names the splits, or add --evaluate-only if nothing is trained on this "
        "data."
    )
    assert [problem.message for problem in inspect(tmp_path / "raw").fatal] == [said]
    code, out, _ = call("inspect", tmp_path / "raw", capsys=capsys)
    assert code == 1
    assert said in out
    code, _, err = call("pack", tmp_path / "raw", "-o", tmp_path / "data", "--evaluate-only", capsys=capsys)
    assert code == 0, err
    assert set(FolderDataset.open(tmp_path / "data").description.splits) == {"val"}


@pytest.mark.parametrize(
    ("make", "task", "own"),
    [(miniatures.coco, "segmentation", ("background", "fig", "date")), (tools.labelme, "", None)],
)
def test_masks_drawn_from_annotations_keep_the_names_of_their_classes(tmp_path, make, task, own):
    make(tmp_path)
    found = inspect(tmp_path, how=LayoutOptions(task=task)).labels.classes
    assert found[0] == "background"
    assert own is None or found == own
    swapped = Labels(classes=(found[0], *reversed(found[1:])))
    message = f"--classes has no effect, as the data names its classes: {', '.join(found)}. Remove --classes."
    refused(inspect, tmp_path, swapped, how=LayoutOptions(task=task), message=message)
    merged = Labels(classes=("background", "thing"), mapping=dict.fromkeys(range(2, len(found)), 1))
    assert inspect(tmp_path, merged, how=LayoutOptions(task=task)).labels.classes == ("background", "thing")


@pytest.mark.parametrize("form", ["JPEG", "WEBP", "AVIF"])
def test_lossy_masks_are_divided_by_a_threshold(tmp_path, form):
    square = np.zeros((24, 32), np.uint8)
    square[4:20, 6:22] = 255
    for number in range(2):
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.make_image(seed=number))
        done = io.BytesIO()
        Image.fromarray(square).save(done, form, quality=60)
        miniatures.write(tmp_path / f"masks/{number}.{form.lower()}", done.getvalue())
    found = inspect(tmp_path, Labels(threshold=128))

    assert found.fatal == []
    assert dict(found.items[0].pixels) == {0: 24 * 32 - 256, 1: 256}
