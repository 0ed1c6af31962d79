"""What is wrong with single images is named, all of it at once, and --skip-bad leaves out those images and no others."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from pathlib import Path

import miniatures
import numpy as np
import pytest
from test_cli import call
from test_layout_mistakes import changed, words
from test_packing import records

from penstock.datasets import FolderDataset, How, inspect, listing, pack
from penstock.errors import DatasetError
from penstock.records import read_all
from penstock.records.schema import decode_classification, decode_detection, decode_segmentation


def packed(root, capsys, *more):
    """What packing says when it leaves out what is wrong."""
    code, out, err = call("pack", root / "raw", "-o", root / "data", "--skip-bad", *more, capsys=capsys)
    assert code == 0, err
    return out


def names(root, decode, split="train"):
    return sorted(decode(record).name for record in records(FolderDataset.open(root / "data"), split))


def test_rows_of_a_table(tmp_path, capsys):
    raw = tmp_path / "raw"
    miniatures.csv_labels(raw)
    path = raw / "labels.csv"
    path.write_text(path.read_text() + ",cat,train\np3.jpg,,val\ngone.jpg,cat,train\n")

    assert words(raw) == [
        "labels.csv, line 6: expected a filename and a label, found , cat, train. Fill in the row, or remove it.",
        "labels.csv, line 7: expected a filename and a label, found p3.jpg, , val. Fill in the row, or remove it.",
        "labels.csv: expected image gone.jpg, as it says, found nothing. Add it, or remove its rows.",
    ]
    out = packed(tmp_path, capsys)
    assert "skipped: labels.csv, line 6 (row without a label)\n" in out
    assert "skipped 1 of 4 images, and 2 other entries\n" in out
    assert names(tmp_path, decode_classification) == ["p0", "p1"]
    assert names(tmp_path, decode_classification, "val") == ["p2"]


def test_what_may_be_either_is_neither(tmp_path, capsys):
    """An image with two labels, with two masks, and two images of one mask."""
    raw = tmp_path / "table" / "raw"
    miniatures.csv_labels(raw)
    (raw / "labels.csv").write_text((raw / "labels.csv").read_text() + "p0.jpg,cat,train\n")
    packed(raw.parent, capsys)
    assert names(raw.parent, decode_classification) == ["p1"]

    raw = tmp_path / "masks" / "raw"
    ids = np.random.default_rng(0).integers(0, 3, (24, 32), np.uint8)
    for number, name in enumerate(("a.jpg", "b.jpg", "c.jpg", "c.png")):
        miniatures.write(raw / f"images/{name}", miniatures.picture(seed=number))
    for name in ("a.png", "b.png", "b.jpg", "c.png"):
        miniatures.write(raw / f"masks/{name}", miniatures.gray(ids))
    out = packed(raw.parent, capsys)
    for name in ("c.jpg", "c.png"):
        assert f"skipped: images/{name} (two images of one name)\n" in out
    assert "skipped 2 of 3 images, and 2 other entries\n" in out
    assert names(raw.parent, decode_segmentation) == ["a"]


def test_a_picture_with_a_row_that_is_no_box_goes_with_all_its_boxes(tmp_path, capsys):
    raw = tmp_path / "raw"
    miniatures.csv_boxes(raw, more="q.jpg,cat,1,2,3,4\nq.jpg,cat,1,2,,x\n")

    assert words(raw) == [
        "boxes.csv, line 4: expected four numbers in xmin, ymin, xmax, ymax, found 1, 2, x. Fix the row, or remove it."
    ]
    packed(tmp_path, capsys)
    assert names(tmp_path, decode_detection) == ["p"]


def test_a_table_of_nothing_but_gone_pictures_says_which(tmp_path):
    miniatures.csv_labels(tmp_path)
    shutil.rmtree(tmp_path / "images")

    assert words(tmp_path) == [
        f"{tmp_path}: expected at least one JPEG or PNG image, found none in its CSV. Fix what is wrong first (3 more are "
        "like it): labels.csv: expected image p0.jpg, as it says, found nothing. Add it, or remove its rows."
    ]


@pytest.mark.parametrize("name", ["./p0.jpg", "images\\p0.jpg", ".\\p0.jpg"])
def test_one_picture_under_two_names_has_two_labels(tmp_path, name):
    miniatures.csv_labels(tmp_path)
    path = tmp_path / "labels.csv"
    path.write_text(path.read_text() + f"{name},cat,train\n")

    assert len(words(tmp_path)) == 1


def test_boxes_of_a_table_may_be_shares(tmp_path, capsys):
    miniatures.csv_boxes(tmp_path / "raw", box="0.25,0.25,0.75,1.0")
    assert (
        "boxes are read as corners (left, top, right, bottom): their columns say so; as none of them is beyond 1, they are "
        "shares of the image's size"
    ) in call("inspect", tmp_path / "raw", capsys=capsys)[1]
    (record,) = map(decode_detection, records(pack(inspect(tmp_path / "raw"), tmp_path / "data"), "train"))
    (box,) = record.objects

    assert (box.left, box.top, box.right, box.bottom) == (8, 6, 24, 24)


def test_lines_of_yolo(tmp_path, capsys):
    raw = tmp_path / "raw"
    miniatures.yolo(raw)
    miniatures.write(raw / "images/train/b.jpg", miniatures.picture(seed=9))
    (raw / "labels/train/b.txt").write_text("0 0.5 0.5\n")
    miniatures.write(raw / "images/train/c.jpg", miniatures.picture(seed=8))
    (raw / "labels/train/c.txt").write_text("7 0.5 0.5 0.5 0.5\n")

    found = inspect(raw)
    assert [problem.file for problem in found.fatal] == ["images/train/b.jpg", "images/train/c.jpg"]
    assert [problem.message for problem in found.problems if not problem.fatal] == [
        f"images/{split}/nothing.jpg: no text file of the same name in labels/: it is taken as an image without objects."
        for split in ("train", "val")
    ]
    packed(tmp_path, capsys)
    assert names(tmp_path, decode_detection) == ["a", "nothing"]


def test_yolo_without_names_takes_them(tmp_path, capsys):
    raw = tmp_path / "raw"
    miniatures.yolo(raw)
    (raw / "data.yaml").unlink()

    assert "classes (2, told from the labels): class0, class1\n" in call("inspect", raw, capsys=capsys)[1]
    packed(tmp_path, capsys, "--classes", "fig,date")
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


@pytest.mark.parametrize("layout", ["coco", "coco-masks"])
def test_annotations_of_no_category(tmp_path, layout):
    changed(tmp_path, lambda tree: tree["annotations"][0].update(category_id=5))
    message = words(tmp_path, How(layout))[0]
    place = tmp_path / "annotations/instances_train2017.json"

    assert message == (
        f"{place}{'#7' if layout == 'coco-masks' else ''} (annotation 1): expected the id of a category (3, 90), found "
        "category_id 5. Fix the file."
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda tree: tree["categories"][1].update(id=3),
            "{path}: expected every category once, found two of id 3. Give each an id of its own, and its annotations too.",
        ),
        (
            lambda tree: tree.update(categories=[{"id": n, "name": f"c{n}"} for n in range(256)]),
            "{root}: expected up to 254 categories, as masks hold bytes, found 256. Join some, or pack it for detection.",
        ),
        (
            lambda tree: tree["images"][0].update(height=10**6, width=10**6),
            "{path}#7: expected an image with its height and width, of at most 268,435,456 pixels, found 1000000 x 1000000. "
            "Fix the file.",
        ),
    ],
)
def test_categories_and_sizes_that_cannot_be(tmp_path, change, message):
    miniatures.coco(tmp_path)
    (tmp_path / "annotations/instances_val2017.json").unlink()
    path = tmp_path / "annotations/instances_train2017.json"
    tree = json.loads(path.read_text())
    change(tree)
    path.write_text(json.dumps(tree))

    assert words(tmp_path, How("coco-masks"))[0] == message.format(path=path, root=tmp_path)


def test_xml_of_voc(tmp_path, capsys):
    raw = tmp_path / "raw"
    miniatures.voc_(raw)
    miniatures.write(raw / "Annotations/2007_000001.xml", miniatures.voc_xml("a", [("cat", "x", 5, 12, 20)]))

    assert [problem.file for problem in inspect(raw, how=How("voc-boxes")).fatal] == ["JPEGImages/2007_000001.jpg"]
    (raw / "Annotations/2007_000003.xml").write_text("<annotation")
    out = packed(tmp_path, capsys, "--layout", "voc-boxes")
    assert "skipped: Annotations/2007_000003.xml (damaged XML)\n" in out
    assert "skipped 1 of 3 images, and 1 other entry\n" in out
    assert names(tmp_path, decode_detection) == ["2007_000002"]


def test_pictures_of_voc_without_a_mask(tmp_path, capsys):
    raw = tmp_path / "raw"
    miniatures.voc_(raw)
    (raw / "SegmentationClass/2007_000002.png").unlink()

    assert words(raw) == [
        "SegmentationClass/2007_000002.png: expected it, as the list of train names it, found nothing. Add it, or fix the "
        "list."
    ]
    assert "skipped 0 of 2 images, and 1 other entry\n" in packed(tmp_path, capsys)
    assert names(tmp_path, decode_segmentation) == ["2007_000001"]


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
    out = packed(tmp_path, capsys)

    assert "skipped 1 of 4 images\nnote: nothing in train shows 1 class of 2: cat\n" in out


def test_what_is_wrong_with_the_whole_folder_is_not_called_skipped(tmp_path, capsys):
    miniatures.folders(tmp_path / "raw")
    (tmp_path / "raw/train/bird").mkdir()
    code, out, err = call("pack", tmp_path / "raw", "-o", tmp_path / "data", "--skip-bad", capsys=capsys)

    assert (code, "skipped:" in out) == (2, False)
    assert "train/bird: expected images of class bird in split train, found none." in err


def test_names_that_fit_no_pattern(tmp_path, capsys):
    for number, name in enumerate(("cat_1", "dog_1", "7")):
        miniatures.write(tmp_path / f"raw/{name}.jpg", miniatures.picture(seed=number))
    packed(tmp_path, capsys, "--pattern", "(?P<label>[a-z]+)_")

    assert names(tmp_path, decode_classification) == ["cat_1", "dog_1"]


def test_labels_of_cifar(tmp_path, capsys):
    miniatures.cifar10(tmp_path / "raw")
    path = next((tmp_path / "raw").rglob("data_batch_1.bin"))
    data = bytearray(path.read_bytes())
    data[0] = 77
    path.write_bytes(data)
    out = packed(tmp_path, capsys)

    assert "skipped: data_batch_1.bin#0 (label outside the classes)\n" in out
    assert "data_batch_1-00000" not in (there := names(tmp_path, decode_classification))
    assert "data_batch_1-00001" in there


def test_minus_one_is_no_class(tmp_path, capsys):
    miniatures.tfds(tmp_path / "raw")
    (tmp_path / "raw/label.labels.txt").unlink()
    unlabelled = [{"image": miniatures.picture(seed=50), "label": -1}]
    miniatures.shard(tmp_path / "raw/flowers-test.tfrecord-00000-of-00001", unlabelled)
    found = inspect(tmp_path / "raw")

    assert found.labels.classes == ("class0", "class1")
    assert [problem.message for problem in found.fatal] == [
        "flowers-test.tfrecord-00000-of-00001#0: expected the id of a class (0, 1, ...), found none. Add it to the names "
        "beside the files, or leave the record out."
    ]
    packed(tmp_path, capsys)
    assert set(FolderDataset.open(tmp_path / "data").description.splits) == {"train", "val"}


def test_mattes_that_are_black(tmp_path):
    for name, matte in (("a", [[0, 1]] * 8), ("b", [[0, 0]] * 8), ("c", [[0, 200]] * 8)):
        miniatures.write(tmp_path / f"images/{name}.jpg", miniatures.picture((8, 2), seed=ord(name)))
        miniatures.write(tmp_path / f"alphas/{name}.png", miniatures.gray(np.array(matte, np.uint8)))

    assert [(problem.fatal, problem.message) for problem in inspect(tmp_path).problems] == [
        (True, "alphas/a.png: expected shares of foreground from 0 to 255, found 0 and 1. Multiply it by 255."),
        (
            False,
            "alphas/b.png: expected shares of foreground from 0 to 255, found only 0. Right if nothing is in front.",
        ),
    ]


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


def test_text_files_of_yolo_that_are_links_to_nothing(tmp_path):
    miniatures.yolo(tmp_path)
    (tmp_path / "labels/train/nothing.txt").symlink_to(tmp_path / "gone")

    assert words(tmp_path) == [
        "labels/train/nothing.txt: expected a text file, found a link to nothing. Fix it, or leave the image out with "
        "--skip-bad."
    ]


def test_masks_of_nothing_that_counts(tmp_path):
    for number in range(2):
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.picture(seed=number))
        miniatures.write(tmp_path / f"masks/{number}.png", miniatures.gray(np.full((24, 32), 255, np.uint8)))

    assert words(tmp_path)[0] == (
        "images/0.jpg: expected an id that counts in any mask, found none. Check where the labels are, and how they were "
        "exported."
    )


@pytest.mark.parametrize(
    ("box", "shares"), [("0.1,0.1,0.5,1.0001", True), ("0.1,nan,0.5,0.9", True), ("0,0,1,2", False)]
)
def test_shares_may_be_a_little_beyond_the_picture(tmp_path, box, shares):
    miniatures.csv_boxes(tmp_path, box="0.2,0.2,0.6,0.6")
    path = tmp_path / "boxes.csv"
    path.write_text(path.read_text() + f"p.jpg,cat,{box}\n")
    (fact,) = inspect(tmp_path).facts

    assert (fact.item.boxes[0].right == pytest.approx(0.6 * 32)) == shares


def test_labels_that_have_no_name(tmp_path, capsys):
    raw = tmp_path / "raw"
    miniatures.csv_labels(raw)
    (raw / "classes.txt").write_text("dog\n")

    assert words(raw)[0] == (
        "labels.csv, line 3: expected a label that classes.txt names, found cat. Add it there, or remove the row."
    )
    packed(tmp_path, capsys)
    assert names(tmp_path, decode_classification) == ["p0"]


@pytest.mark.parametrize("name", ["sub/../images/p0.jpg", "{root}/images/p0.jpg"])
def test_one_picture_by_two_paths_has_two_labels(tmp_path, monkeypatch, name):
    miniatures.csv_labels(tmp_path / "raw")
    (tmp_path / "raw/sub").mkdir()
    path = tmp_path / "raw/labels.csv"
    path.write_text(path.read_text() + f"{name.format(root=tmp_path / 'raw')},cat,train\n")
    monkeypatch.chdir(tmp_path)

    assert [problem.kind for problem in inspect(Path("raw")).fatal] == ["two labels"]


def test_a_bad_picture_is_left_out_before_some_are_set_aside(tmp_path, capsys):
    for number in range(4):
        miniatures.write(tmp_path / f"raw/cat/{number}.jpg", miniatures.picture(seed=number))
    whole = [inspect(tmp_path / "raw").divided(0.25).splits["val"][0].item.image]
    whole[0].write_bytes(whole[0].read_bytes()[:50])
    packed(tmp_path, capsys, "--validation", 0.25)

    assert set(FolderDataset.open(tmp_path / "data").description.splits) == {"train", "val"}


def test_what_systems_keep_in_a_folder_is_no_data(tmp_path):
    miniatures.folders(tmp_path)
    miniatures.write(tmp_path / "lost+found/a.jpg", miniatures.picture())

    assert "lost+found/a.jpg" not in {path.relative_to(tmp_path).as_posix() for path in listing.files(tmp_path)}


def test_a_folder_of_nothing_but_pictures_says_how_their_names_are_read(tmp_path):
    miniatures.write(tmp_path / "cat_1.jpg", miniatures.picture())

    assert words(tmp_path)[0].endswith(
        "found cat_1.jpg. Arrange the files so, name the folder one level up or down, find classes in the names of images "
        "with --pattern, or describe it in a file of your own with --layout FILE.py:NAME."
    )


def test_masks_of_0_and_255_with_named_classes(tmp_path):
    ids = np.zeros((24, 32), np.uint8)
    ids[5:] = 255
    for number in range(2):
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.picture(seed=number))
        miniatures.write(tmp_path / f"masks/{number}.png", miniatures.gray(ids))
    miniatures.write(tmp_path / "classes.txt", "ground\nthing\n")

    assert words(tmp_path) == [
        "masks/0.png: expected more than one class, found id 0, 255 in all 2 masks of train. If 255 is a class and not to be "
        "ignored, make it one with --map 255=1."
    ]


def test_links_to_nothing_are_named(tmp_path):
    miniatures.folders(tmp_path)
    (tmp_path / "train/cat/b.jpg").symlink_to(tmp_path / "gone.jpg")

    assert words(tmp_path)[0].startswith("train/cat/b.jpg: expected a readable file, found [Errno 2] No such file")


@pytest.mark.parametrize("name", ["labels.csv", "train.json", "data.yaml"])
def test_a_pipe_with_the_name_of_a_table_stops_nobody(tmp_path, name):
    miniatures.folders(tmp_path)
    os.mkfifo(tmp_path / name)

    assert inspect(tmp_path).layout.name == "one folder per class"


def test_a_damaged_gzip_of_mnist_is_named(tmp_path):
    miniatures.mnist(tmp_path, zipped=True)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    data = bytearray(path.read_bytes())
    data[12:16] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    with pytest.raises(DatasetError, match=rf"^{path}: expected a whole gzip file, found .* Download it again\.$"):
        inspect(tmp_path)
    with pytest.raises(zlib.error):  # the damage that is meant here
        zlib.decompress(path.read_bytes(), 31)


@pytest.mark.parametrize("layout", ["csv", "folders", "masks", "tfds"])
def test_a_dataset_packed_into_its_raw_data_is_none_of_it(tmp_path, layout):
    miniatures.MINIATURES[layout](tmp_path)
    before = inspect(tmp_path)
    pack(before, tmp_path / "packed")
    after = inspect(tmp_path)

    assert (after.layout.name, after.problems) == (before.layout.name, before.problems)
    assert [fact.key for fact in after.facts] == [fact.key for fact in before.facts]
    (tmp_path / "packed/dataset.json").unlink()
    (tmp_path / "packed/.packing").mkdir()  # as a pack leaves it that was killed
    assert [fact.key for fact in inspect(tmp_path).facts] == [fact.key for fact in before.facts]
    with pytest.raises(DatasetError) as caught:
        inspect(tmp_path / "packed")
    assert str(caught.value) == (
        f"{tmp_path / 'packed'}: expected a folder of raw data, found a packed dataset. Look at it with penstock show, or read "
        "all of it with penstock verify."
    )


@pytest.mark.parametrize("place", [-10, 0, 40])
def test_packing_again_mends_a_damaged_shard(tmp_path, place):
    miniatures.folders(tmp_path / "raw")
    pack(inspect(tmp_path / "raw"), tmp_path / "data")
    shard = tmp_path / "data/train-00000-of-00001.tfrecord"
    whole = shard.read_bytes()
    status = shard.stat()
    shard.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place:][1:])
    os.utime(shard, ns=(status.st_atime_ns, status.st_mtime_ns))  # as a disk does it, behind everyone's back
    pack(inspect(tmp_path / "raw"), tmp_path / "data")

    assert shard.read_bytes() == whole
    assert len(list(read_all(shard))) == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("p.jpg,cat,0.1,0.1,0.5,0.5\n", "images/p.jpg: expected box 2 in pixels, found 0.1, 0.1 to 0.5, 0.5 (x, y), which is smaller than one. Write all boxes in pixels, or all in shares of their image's size."),
        ("p.jpg,cat,32,2,33,10\n", "images/p.jpg: expected box 2 inside the image of 24 x 32 (height x width), found 32, 2 to 33, 10 (x, y). Fix it, or leave the image out with --skip-bad."),
        ("p.jpg,cat,1,2,3,4,5\n", "boxes.csv, line 3: expected no more cells than columns, found 5 behind them. Quote cells that hold commas."),
        ('p.jpg,"cat,1,2,3,4\n', "{root}/boxes.csv: expected CSV in UTF-8, found unexpected end of data. Save it so."),
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

    assert words(tmp_path)[0].startswith("labels.csv, line 6: expected a filename and a label, found p2.jpg, , val.")


def test_two_tables_and_names_that_cannot_be(tmp_path):
    miniatures.csv_labels(tmp_path)
    miniatures.write(tmp_path / "val.csv", f"filename,label\n{'x' * 5000}.jpg,cat\n")
    assert words(tmp_path) == [
        "val.csv: expected one table, found labels.csv too, which is read. Join them, with a column split."
    ]
    (tmp_path / "labels.csv").unlink()
    assert "expected image xxxx" in words(tmp_path)[0]


def test_what_inspect_notes_pack_notes(tmp_path, capsys):
    raw = tmp_path / "raw"
    miniatures.masks(raw)
    miniatures.write(raw / "images/train/b.jpg", miniatures.picture(seed=77))
    miniatures.write(raw / "masks/train/b.png", miniatures.gray(np.zeros((24, 32), np.uint8)))
    miniatures.write(raw / "images/train/c.webp", b"RIFF")
    out = packed(tmp_path, capsys)

    assert "left out, neither JPEG nor PNG: 1 file (images/train/c.webp)\n" in out
    assert "(note) masks/train/b.png: expected more than one class, found only id 0." in out


def test_what_is_said_of_boxes_is_said_when_packing_too(tmp_path, capsys):
    miniatures.csv_boxes(tmp_path / "raw", box="0.25,0.25,0.75,1.0")

    assert (
        "note: boxes are read as corners (left, top, right, bottom): their columns say so; as none of them is"
        in packed(tmp_path, capsys)
    )


@pytest.mark.parametrize("counts", ["garbage", "", "1"])
def test_damaged_run_lengths_are_named(tmp_path, counts):
    shape = {"size": [24, 32], "counts": counts}
    path = changed(tmp_path, lambda tree: tree["annotations"][0].update(segmentation=shape))
    message = words(tmp_path, How("coco-masks"))[0]

    assert message.startswith(f"{path}#7 (annotation 1): expected run lengths, found ")


def test_a_picture_that_is_listed_twice_is_one(tmp_path):
    miniatures.voc_(tmp_path)
    path = tmp_path / "ImageSets/Segmentation/train.txt"
    path.write_text(path.read_text() * 2)

    assert len(inspect(tmp_path).splits["train"]) == 2


def test_a_damaged_note_of_a_killed_pack_is_no_hindrance(tmp_path):
    miniatures.folders(tmp_path / "raw")
    whole = pack(inspect(tmp_path / "raw"), tmp_path / "whole").folder
    shutil.copytree(whole, tmp_path / "data")
    (tmp_path / "data/dataset.json").unlink()
    miniatures.write(tmp_path / "data/.packing/train-00000-of-00001.tfrecord", b"\xff")
    pack(inspect(tmp_path / "raw"), tmp_path / "data")

    assert (tmp_path / "data/dataset.json").read_bytes() == (whole / "dataset.json").read_bytes()
