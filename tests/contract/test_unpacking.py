"""The way back: what `pack` made of a hard truth is written in each layout, packed again, and is the same records."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from support import miniatures, truth
from support.beginnings import make_mattes
from support.commands import call
from support.errors import refused

import penstock as ps
from penstock.datasets import FolderDataset, unpack
from penstock.errors import DatasetError, LabelError, OutputError
from penstock.images import RGB
from penstock.kinds import KINDS
from penstock.kinds.fields import DetectionRecord, decode_detection, encode_detection
from penstock.sources import MemorySource
from penstock.unpacked import CocoDocument
from penstock.values import Object

RAW = {
    "segmentation": truth.coco, "matting": lambda root: make_mattes(root, 4), "classification": truth.class_folders,
    "detection": truth.coco, "instances": truth.coco,
}  # fmt: skip
LAYOUTS = [(task, layout) for task, kind in KINDS.items() for layout in kind.writers]
IMAGE = miniatures.make_image((24, 32))


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The truth as records of every kind that can be unpacked, by its name."""
    root = tmp_path_factory.mktemp("truth")
    for task, write in RAW.items():
        write(root / f"raw-{task}")
    folders = {task: root / f"raw-{task}" for task in RAW}
    return {
        task: ps.pack(folder / "raw" if (folder / "raw").exists() else folder, root / task, task=task)
        for task, folder in folders.items()
    }


@pytest.mark.parametrize(("task", "layout"), LAYOUTS)
def test_what_was_unpacked_is_packed_to_the_same_records(packed, tmp_path, task, layout):
    data = packed[task]
    unpacked = data.unpack(tmp_path / "out", layout=layout)
    again = ps.pack(tmp_path / "out", tmp_path / "data", task=task)

    assert unpacked.records == {split: len(data[split]) for split in data.splits}
    assert (again.task, again.classes, again.splits) == (data.task, data.classes, data.splits)
    for split in data.splits:
        assert sorted(each.record.payload for each in again[split]) == sorted(
            each.record.payload for each in data[split]
        )


def test_the_first_layout_is_the_default(packed, tmp_path):
    for task, data in packed.items():
        assert data.unpack(tmp_path / task).layout == next(iter(KINDS[task].writers))


def test_each_kind_that_can_be_unpacked_is_tried():
    assert RAW.keys() == {task for task, kind in KINDS.items() if kind.writers}


def test_coco_means_what_cocos_own_format_does(packed, tmp_path):
    """Against the truth itself: corners and sizes in pixels, and run lengths by columns, background first."""
    packed["instances"].unpack(tmp_path / "out")
    for split in ("train", "val"):
        tree = json.loads((tmp_path / f"out/annotations/instances_{split}.json").read_text())
        names = {each["id"]: each["name"] for each in tree["categories"]}
        files = {each["id"]: each["file_name"] for each in tree["images"]}
        found = {photo.file: [] for photo in truth.photos_of(split)}
        for each in tree["annotations"]:
            left, top, width, height = each["bbox"]
            assert each["area"] == width * height
            counts = each["segmentation"]["counts"]
            flat = np.repeat(np.arange(len(counts)) % 2, counts)
            pixels = flat.reshape(each["segmentation"]["size"], order="F")
            rows, columns = np.nonzero(pixels)
            assert (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1) == (
                left,
                top,
                left + width,
                top + height,
            )
            assert pixels.sum() == width * height
            found[files[each["image_id"]]].append((names[each["category_id"]], left, top, left + width, top + height))
        assert {name: sorted(each) for name, each in found.items()} == {
            photo.file: sorted(photo.objects) for photo in truth.photos_of(split)
        }


def test_the_folders_of_each_split_are_all_classes(packed, tmp_path):
    """Other tools number the folders that they find."""
    data = packed["classification"]
    data.unpack(tmp_path / "out")
    for split in data.splits:
        assert {path.name for path in (tmp_path / "out" / split).iterdir()} == {*data.classes}


def test_vocs_masks_have_the_colours_of_labelmap(packed, tmp_path):
    """Other tools read the colours, not the indices."""
    data = packed["segmentation"]
    data.unpack(tmp_path / "out", layout="voc")
    rows = [line.split(":")[:2] for line in (tmp_path / "out/labelmap.txt").read_text().splitlines()]
    colors = np.array([[int(part) for part in color.split(",")] for _, color in rows])
    assert [name for name, _ in rows] == list(data.classes)
    assert len(np.unique(colors, axis=0)) == len(rows)
    for sample in data["train"]:
        shown = cv2.imread(str(tmp_path / f"out/SegmentationClass/{sample.name}.png"))[..., ::-1]
        np.testing.assert_array_equal(shown, colors[sample.label])


def test_two_classes_of_one_colour_have_those_of_voc(tmp_path):
    """Masks in labelmap.txt's colours could not be read back otherwise."""
    ids = np.arange(24 * 32, dtype=np.uint8).reshape(24, 32) % 3
    miniatures.write(tmp_path / "raw/images/a.png", miniatures.make_image())
    miniatures.write(tmp_path / "raw/masks/a.png", miniatures.gray(ids))
    ps.pack(tmp_path / "raw", tmp_path / "data", classes=["sky", "road", "path"])
    packed = FolderDataset.open(tmp_path / "data")
    kept = replace(packed.description, colors=((0, 0, 0), (9, 9, 9), (9, 9, 9)))
    FolderDataset(packed.folder, replace(kept, content=kept.digest())).save()
    ps.open(tmp_path / "data").unpack(tmp_path / "out", layout="voc")
    again = ps.pack(tmp_path / "out", tmp_path / "again")
    assert list(again.classes) == ["sky", "road", "path"]
    np.testing.assert_array_equal(again["train"][0].label, ids)


HOSTILE = [
    "../../up",
    "/abs/olute",
    "a\nb",
    "..",
    "",
    ".hidden/.x",
    "C:\\con|?",
    "x" * 400,
    "é" * 300,
    "A",
    "a",
    "a.jpg",
    "q",
    "q.jpg/b",
    "/".join(["d" * 200] * 30),
]


def of_boxes(names, classes=("cat", "dog"), **marks):
    """A dataset of one box an image, whose images have any names."""
    box = Object(1, 3.125, 4.0, 12.3, 14.007, classes[1], **marks)
    records = [encode_detection(DetectionRecord(IMAGE, (box,), name, "jpeg", 24, 32)) for name in names]
    description = SimpleNamespace(
        task="detection", kind=KINDS["detection"], classes=classes, colors=(), ignore_label=255, pixel_format=RGB,
        content="abc",
    )  # fmt: skip
    return SimpleNamespace(
        description=description, splits=("train",), source=lambda _: MemorySource({"0": records[:5], "1": records[5:]})
    )


@pytest.mark.parametrize("layout", ["coco", "yolo", "voc"])
def test_no_name_leaves_the_folder_or_takes_anothers_place(tmp_path, layout):
    unpacked = unpack(of_boxes(HOSTILE), tmp_path / "out", layout)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]

    assert unpacked.records == {"train": len(HOSTILE)}
    assert all(path.is_relative_to(tmp_path / "out") for path in written)
    assert not any(part.startswith(".") for path in written for part in path.relative_to(tmp_path).parts)
    images = [path for path in written if path.suffix == ".jpg"]
    assert len({str(path).casefold() for path in images}) == len(HOSTILE)
    assert {path.read_bytes() for path in images} == {IMAGE}
    assert {
        tuple(sample.label["classes"])
        for sample in ps.pack(tmp_path / "out", tmp_path / "data", task="detection")["train"]
    } == {("dog",)}


@pytest.mark.parametrize(
    ("layout", "lost"),
    [
        ("coco", {"objects marked as difficult": 2}),
        ("yolo", {"objects marked as crowd": 2, "objects marked as difficult": 2}),
        ("voc", {"objects marked as crowd": 2}),
    ],
)
def test_what_a_layout_cannot_say_is_counted(tmp_path, layout, lost):
    dataset = of_boxes(["a", "b"], crowd=True, difficult=True)
    (before, *_) = dataset.source("train").read("0", 0, 1)
    (true,) = decode_detection(before).objects
    unpacked = unpack(dataset, tmp_path / "out", layout)
    (first, second) = ps.pack(tmp_path / "out", tmp_path / "data", task="detection")["train"]

    assert unpacked.lost == lost
    kept = {word for word in ("crowd", "difficult") if f"objects marked as {word}" not in lost}
    for sample in (first, second):
        (box,) = decode_detection(sample.record).objects
        assert {word for word in ("crowd", "difficult") if getattr(box, word)} == kept
        assert (box.left, box.top, box.right, box.bottom) == (true.left, true.top, true.right, true.bottom)


@pytest.mark.parametrize(
    ("task", "layout", "classes"),
    [
        ("detection", "voc", ("cat", "a:b")),
        ("detection", "coco", ("cat", "two\nlines")),
        ("classification", "classes", ("cat", "../up")),
        ("classification", "classes", ("cat", ".hidden")),
        ("segmentation", "masks", ("cat", " dog")),
        ("classification", "classes", ("cat", "")),
        ("classification", "classes", ("cat", "x" * 201)),
    ],
)
def test_a_class_that_a_layout_cannot_name_is_refused(tmp_path, task, layout, classes):
    dataset = of_boxes(["a"], classes)
    dataset.description.kind = KINDS[task]
    with pytest.raises(DatasetError) as caught:
        unpack(dataset, tmp_path / "out", layout)

    assert str(caught.value) == (
        f"This layout cannot hold the name of the class {classes[1]!r}. Choose another layout, or pack the data with "
        "another name."
    )
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_unpacked_is_refused(tmp_path):
    dataset = of_boxes(["a"])
    with pytest.raises(DatasetError) as caught:
        unpack(dataset, tmp_path / "out", "masks")
    assert str(caught.value) == "--layout: expected coco or yolo or voc for detection, found masks. Choose one of them."
    dataset.description.kind, dataset.description.task = KINDS["volumes"], "volumes"
    with pytest.raises(DatasetError) as caught:
        unpack(dataset, tmp_path / "out")
    assert str(caught.value) == (
        "penstock unpack: expected images with masks, classes, boxes or instances, found volumes. Read the records in "
        "Python: penstock.open(PATH)[SPLIT]."
    )


def test_a_damaged_record_ends_it(tmp_path):
    dataset = of_boxes(["a", "b"])
    dataset.description.classes = ("cat",)
    with pytest.raises(LabelError, match="found box 1 of class 1"):
        unpack(dataset, tmp_path / "out")


@pytest.mark.parametrize(("task", "layout"), LAYOUTS)
def test_what_was_interrupted_is_begun_anew(packed, tmp_path, task, layout):
    def contents(folder):
        return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def interrupt(done, total):
        if done == total - 1:
            raise KeyboardInterrupt

    packed[task].unpack(tmp_path / "whole", layout=layout)
    with pytest.raises(KeyboardInterrupt):
        unpack(packed[task].opened, tmp_path / "out", layout, progress=interrupt)
    assert contents(tmp_path / "out") != contents(tmp_path / "whole")
    packed[task].unpack(tmp_path / "out", layout=layout)

    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    with pytest.raises(OutputError):
        packed[task].unpack(tmp_path / "out", layout=layout)


@pytest.fixture
def begun(packed, tmp_path):
    """A folder in which an unpacking was interrupted at its end."""

    def interrupt(done, total):
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unpack(packed["segmentation"].opened, tmp_path / "out", "masks", progress=interrupt)
    return tmp_path / "out"


def test_what_was_changed_after_an_interruption_is_not_written_over(packed, begun):
    image = min(begun.glob("images/train/*"))
    image.write_bytes(b"mine")
    refused(
        packed["segmentation"].unpack, begun, layout="masks",
        message=f"{image}: expected no file, or the one that an interrupted penstock unpack has written, found another "
        "one, or one that was changed since. Choose another folder with -o, or remove it.",
    )  # fmt: skip
    assert image.read_bytes() == b"mine"


@pytest.mark.parametrize("place", ["classes.txt", "masks/train", "masks"])
def test_links_are_not_followed(packed, begun, tmp_path, place):
    """Of a file that is not written yet, and of folders."""
    stranger, path = tmp_path / "stranger", begun / place
    stranger.mkdir()
    if path.exists():
        path.rename(tmp_path / "away")
    path.symlink_to(stranger / "victim" if path.suffix else stranger)
    refused(
        packed["segmentation"].unpack, begun, layout="masks",
        message=f"{path}: expected no file, or the one that an interrupted penstock unpack has written, found a link. "
        "Choose another folder with -o, or remove it.",
    )  # fmt: skip
    assert list(stranger.iterdir()) == []


def test_another_dataset_or_layout_does_not_go_on(packed, begun):
    for task, layout in (("segmentation", "voc"), ("detection", "coco")):
        with pytest.raises(OutputError, match="found a folder with other files in it"):
            packed[task].unpack(begun, layout=layout)


def test_nothing_is_unpacked_into_the_dataset(packed):
    folder = packed["detection"].opened.folder
    refused(
        packed["detection"].unpack, folder / "out",
        message=f"-o {folder / 'out'}: expected a folder outside the dataset, found one within it. Choose another folder.",
    )  # fmt: skip
    assert not (folder / "out").exists()


def test_the_command_says_what_it_did(packed, tmp_path, capsys):
    found = call("unpack", packed["detection"].path, "-o", tmp_path / "out", "--layout", "yolo", capsys=capsys)

    assert found[:2] == (0, f"train: 8 images\nval: 3 images\nyolo in {tmp_path / 'out'}\n")
    assert call("unpack", packed["detection"].path, "-o", tmp_path / "out", capsys=capsys) == (
        2,
        "",
        f"error: -o {tmp_path / 'out'}: expected a new or empty folder, or one that an interrupted penstock unpack has "
        "filled, found a folder with other files in it. Choose another folder.\n",
    )


def test_names_that_are_no_unicode_are_json_all_the_same():
    document = CocoDocument(["cat"])
    document.add_image("caf\udce9.jpg", (24, 32))

    assert json.loads(document.encoded().encode())["images"][0]["file_name"] == "caf\udce9.jpg"


def test_the_area_of_an_instance_is_that_of_its_pixels():
    """Not that of its box: COCO's scores by size read it."""
    mask = np.zeros((8, 8), bool)
    mask[1:5, 1], mask[4, 1:4] = True, True
    document = CocoDocument(("cat",))
    document.add_image("a.jpg", (8, 8))
    document.add_object(0, (1.0, 1.0, 4.0, 5.0), mask)
    document.add_object(0, (1.0, 1.0, 4.0, 5.0))

    assert [each["area"] for each in document.annotations] == [6, 12.0]
