"""Raw data that is wrong in ways that people and programs make it wrong: a sentence each, never a trace."""

from __future__ import annotations

import io
import json

import miniatures
import numpy as np
import pytest
from PIL import Image
from test_cli import call

from penstock.datasets import How, inspect
from penstock.datasets.layouts import coco
from penstock.errors import DatasetError


def words(folder, how=None, **options):
    """What is said of a folder: its fatal problems, or the error."""
    try:
        found = inspect(folder, how=how or How(), **options)
    except DatasetError as error:
        return [str(error)]
    return [problem.message for problem in found.fatal]


def changed(root, change, split="train2017"):
    """COCO's miniature with something changed in its JSON."""
    miniatures.coco(root)
    path = root / f"annotations/instances_{split}.json"
    tree = json.loads(path.read_text())
    change(tree)
    path.write_text(json.dumps(tree))
    return path


COCO = {
    "a category without a name": (
        lambda t: t["categories"][0].pop("name"),
        "expected COCO's JSON, found Object missing required field `name` - at `$.categories[0]`. Fix or remove it.",
    ),
    "a category's id as text": (
        lambda t: t["categories"][0].update(id="3"),
        "expected COCO's JSON, found Expected `int`, got `str` - at `$.categories[0].id`. Fix or remove it.",
    ),
    "no annotations": (
        lambda t: t.update(annotations=None),
        "expected COCO's JSON, found Expected `array`, got `null` - at `$.annotations`. Fix or remove it.",
    ),
    "an annotation of no image": (
        lambda t: t["annotations"][0].pop("image_id"),
        "expected COCO's JSON, found Object missing required field `image_id` - at `$.annotations[0]`. Fix or remove it.",
    ),
    "an image without a file": (
        lambda t: t["images"][0].pop("file_name"),
        "expected COCO's JSON, found Object missing required field `file_name` - at `$.images[0]`. Fix or remove it.",
    ),
    "a box that is no number": (
        lambda t: t["annotations"][0].update(bbox=[float("nan"), 0, 1, 1]),
        "expected COCO's JSON, found JSON is malformed: invalid character (byte",
    ),
    "a box of three numbers": (
        lambda t: t["annotations"][0].update(bbox=[0, 1, 1]),
        "expected COCO's JSON, found Expected `array` of length 4, got 3 - at `$.annotations[0].bbox`. Fix or remove it.",
    ),
}


@pytest.mark.parametrize("case", COCO)
def test_cocos_json_is_checked_before_it_is_read(tmp_path, case):
    change, message = COCO[case]
    path = changed(tmp_path, change)

    assert words(tmp_path)[0].startswith(f"{path}: {message}")


def test_images_annotations_and_files_that_do_not_belong_together_are_named(tmp_path):
    def change(tree):
        tree["images"][1]["id"] = 7
        tree["annotations"][2]["image_id"] = 99

    changed(tmp_path, change)
    miniatures.write(tmp_path / "annotations/more_train.json", json.dumps(miniatures.coco_tree()))
    problems = {problem.kind: problem.message for problem in inspect(tmp_path).problems}

    assert problems["two images of one id"] == (
        "annotations/instances_train2017.json: expected every image once, found id 7 twice (000000000001.jpg). Give it one "
        "of its own."
    )
    assert problems["annotation without an image"] == (
        "annotations/instances_train2017.json: expected image 99 of annotation 3, found none of that id. It is left out."
    )
    assert problems["two files of one split"] == (
        "annotations/more_train.json: expected one file for train, found instances_train2017.json too, which is read. Join "
        "them, or rename this one."
    )


@pytest.mark.parametrize("shape", [[[1, 2, 3]], [[0, 0, 1e9, 0, 1e9, 1e9]], {"size": [9, 9], "counts": [81]}])
def test_outlines_that_are_none_are_named(tmp_path, shape):
    path = changed(tmp_path, lambda tree: tree["annotations"][0].update(segmentation=shape))
    message = words(tmp_path, How(task="segmentation"))[0]

    assert message.startswith(
        f"{path}#7 (annotation 1): expected outlines of at least three points, or run lengths of an image of 24 x 32, found "
    )


def test_masks_need_no_boxes(tmp_path):
    changed(tmp_path, lambda tree: [each.pop("bbox") for each in tree["annotations"]])

    assert words(tmp_path, How("coco-masks")) == []
    assert coco.recognise_masks(tmp_path).task == "segmentation"


@pytest.mark.parametrize("layout", ["coco", "voc"])
def test_boxes_of_a_picture_that_is_turned_or_of_another_size_are_named(tmp_path, layout):
    miniatures.MINIATURES[layout](tmp_path)
    name = {"coco": "train2017/000000000000.jpg", "voc": "JPEGImages/2007_000001.jpg"}[layout]
    image = Image.open(tmp_path / name)
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / name, exif=exif)
    found = words(tmp_path, How(task="detection"))

    assert found[0] == (
        f"{name}: expected an image of 24 x 32 (height x width), which its boxes were made for, found 32 x 24, as viewers show "
        "it (EXIF orientation counts). Save it as the boxes want it."
    )


@pytest.mark.parametrize(
    ("layout", "file", "text"),
    [
        ("yolo", "labels/train/a.txt", "0 nan 0.5 0.2 0.2\n"),
        ("voc", "Annotations/2007_000001.xml", miniatures.voc_xml("a", [("cat", "nan", 5, 12, 20)])),
    ],
)
def test_boxes_that_are_no_numbers_are_named(tmp_path, layout, file, text):
    miniatures.MINIATURES[layout](tmp_path)
    (tmp_path / file).write_text(text)

    assert words(tmp_path, How(task="detection"))[0].endswith(
        "expected four numbers for box 1, found one that is none (NaN or infinite). Fix it."
    )


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("{0: fig, 5: date}", "expected a list of names, or a table of them by the ids 0, 1, 2, ... without gaps, found {'0': 'fig', '5': 'date'}. Write it so."),
        ("fig", "expected a list of names, or a table of them by the ids 0, 1, 2, ... without gaps, found 'fig'. Write it so."),
        ("[fig, [date]]", "expected a list of names, or a table of them by the ids 0, 1, 2, ... without gaps, found ['fig', ['date']]. Write it so."),
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


@pytest.mark.parametrize(
    ("layout", "file"),
    [
        ("yolo", "labels/train/a.txt"), ("yolo", "data.yaml"), ("voc", "ImageSets/Segmentation/train.txt"),
        ("ade20k", "objectInfo150.txt"), ("cifar10", "batches.meta.txt"),
    ],
)  # fmt: skip
def test_text_that_is_no_utf8_is_named(tmp_path, layout, file):
    miniatures.MINIATURES[layout](tmp_path)
    (tmp_path / file).write_bytes(b"caf\xe9\n")

    assert words(tmp_path)[0].startswith(f"{tmp_path / file}: expected text in UTF-8, found ")


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    miniatures.voc_(tmp_path)
    path = tmp_path / "ImageSets/Segmentation/val.txt"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())

    assert words(tmp_path) == []


def test_lists_of_whole_paths_are_read(tmp_path):
    miniatures.voc_(tmp_path)
    (tmp_path / "ImageSets/Segmentation/val.txt").write_text(
        "/JPEGImages/2007_000003.jpg /SegmentationClass/2007_000003.png\n"
    )

    assert words(tmp_path) == []


@pytest.mark.parametrize("head", ['<?xml version="1.0" encoding="GBK"?>', '<?xml version="1.0" encoding="foo"?>'])
def test_xml_that_cannot_be_read_is_named(tmp_path, head):
    miniatures.voc_(tmp_path)
    path = tmp_path / "Annotations/2007_000001.xml"
    path.write_text(head + path.read_text())

    assert words(tmp_path, How(task="detection"))[0].startswith(f"{path}: expected XML, found ")


@pytest.mark.parametrize(("split", "found"), [("../../evil", "'../../evil'"), ("a/b", "'a/b'")])
def test_a_split_is_no_path(tmp_path, split, found):
    miniatures.csv_labels(tmp_path)
    path = tmp_path / "labels.csv"
    path.write_text(path.read_text().replace("train", split))

    assert words(tmp_path) == [
        f"{path}: expected a split with a plain name: letters, digits, - and _, found {found}. Call it train, val or test."
    ]


def test_splits_are_named_as_folders_are(tmp_path):
    miniatures.csv_labels(tmp_path)
    path = tmp_path / "labels.csv"
    path.write_text(path.read_text().replace("train", "Training").replace("val", "Validation"))

    assert set(inspect(tmp_path).splits) == {"train", "val"}


@pytest.mark.parametrize("layout", ["folders", "csv", "cifar10", "coco"])
def test_classes_that_the_data_names_cannot_be_renamed(tmp_path, layout, capsys):
    miniatures.MINIATURES[layout](tmp_path)
    code, _, errors = call("inspect", tmp_path, "--classes", "x,y", capsys=capsys)

    assert code == 2
    assert "error: --classes: expected none, as the data names its classes: " in errors


def test_a_label_without_a_name_is_a_problem_and_not_a_crash(tmp_path):
    miniatures.mnist(tmp_path, zipped=False)
    (tmp_path / "classes.txt").write_text("zero\none\n")
    found = words(tmp_path)

    assert found[0] == (
        "train-images-idx3-ubyte#2: expected a class from 0 to 1, found 2. Name all classes, in the order of their ids."
    )
    assert len(found) == 6


@pytest.mark.parametrize("layout", ["folders", "csv"])
def test_there_may_be_more_classes_than_a_byte_holds(tmp_path, layout):
    for number in range(300):
        buffer = io.BytesIO()
        Image.fromarray(np.full((4, 4, 3), (number % 256, number // 256, 0), np.uint8)).save(buffer, "PNG")
        name = f"train/c{number:03d}/p.png" if layout == "folders" else f"p{number:03d}.png"
        miniatures.write(tmp_path / name, buffer.getvalue())
    if layout == "csv":
        miniatures.write(tmp_path / "l.csv", "file,label\n" + "".join(f"p{n:03d}.png,c{n:03d}\n" for n in range(300)))

    assert words(tmp_path) == []
    assert len(inspect(tmp_path).labels.classes) == 300


def test_a_pattern_says_all(tmp_path):
    miniatures.folders(tmp_path)

    assert words(tmp_path, How("voc", pattern="(?P<label>[a-z]+)")) == [
        "--pattern: expected no --layout and no other --task beside it: it says all, found voc. Leave out one of the two."
    ]
    assert words(tmp_path, How(pattern="(?P<label>q)?"))[0].startswith(f"{tmp_path}: expected at least one JPEG or PNG")


def test_a_layout_of_ones_own_may_have_dataclasses(tmp_path):
    miniatures.folders(tmp_path / "raw")
    (tmp_path / "own.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "from penstock.datasets.layouts import folders\n@dataclass\nclass Thing:\n    x: int\n"
        "def recognise(folder):\n    return folders.recognise(folder)\n"
    )

    assert words(tmp_path / "raw", How(f"{tmp_path / 'own.py'}:recognise")) == []


def test_items_without_a_label_are_named(tmp_path):
    miniatures.write(tmp_path / "raw" / "a.png", miniatures.picture())
    (tmp_path / "own.py").write_text(
        "from penstock.datasets import Item, Labels, Layout\n"
        "def recognise(folder):\n"
        "    return Layout('classification', 'own', (), (Item('train', 'a', folder / 'a.png'),), Labels(('x', 'y')))\n"
    )

    assert words(tmp_path / "raw", How(f"{tmp_path / 'own.py'}:recognise")) == [
        "a.png: expected a label, a mask or boxes, found None for a label. Give it a class id, or leave it out."
    ]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("segmentation", "a.png: expected a mask, found none, but the layout is for segmentation."),
        (
            "detection",
            "a.png: expected boxes, perhaps an empty tuple of them, found none, but the layout is for detection.",
        ),
    ],
)
def test_items_without_a_mask_or_boxes_are_named(tmp_path, task, message):
    miniatures.write(tmp_path / "raw" / "a.png", miniatures.picture())
    (tmp_path / "own.py").write_text(
        "from penstock.datasets import Item, Labels, Layout\n"
        "def recognise(folder):\n"
        f"    return Layout('{task}', 'own', (), (Item('train', 'a', folder / 'a.png', label=1),), Labels(('x', 'y')))\n"
    )

    assert words(tmp_path / "raw", How(f"{tmp_path / 'own.py'}:recognise")) == [
        f"{message} Give it some, or leave it out."
    ]


def test_json_that_is_not_cocos_is_no_matter(tmp_path):
    """Settings of an editor, and COCO's panoptic annotations, whose segments lie in images of their own."""
    miniatures.coco(tmp_path / "coco")
    tree = miniatures.coco_tree()
    segments = [{"image_id": 7, "file_name": "a.png", "segments_info": []}]
    panoptic = json.dumps({**tree, "annotations": segments})
    miniatures.write(tmp_path / "coco/annotations/panoptic_val2017.json", panoptic)
    miniatures.write(tmp_path / "coco/settings.json", "{ // no JSON\n}")
    miniatures.folders(tmp_path / "folders")
    miniatures.write(tmp_path / "folders/settings.json", "{ // no JSON\n}")

    assert (words(tmp_path / "coco"), words(tmp_path / "folders")) == ([], [])
    assert inspect(tmp_path / "coco").layout.name == "COCO"


def test_emnists_sets_are_not_guessed_among(tmp_path):
    miniatures.mnist(tmp_path / "plain", zipped=False)
    for chosen in ("balanced", "letters"):
        for path in (tmp_path / "plain").iterdir():
            split = "train" if path.name.startswith("train") else "test"
            kind = path.name.split("-", 1)[1]
            miniatures.write(tmp_path / f"raw/gzip/emnist-{chosen}-{split}-{kind}", path.read_bytes())

    assert words(tmp_path / "raw") == [
        "gzip/emnist-letters-train-images-idx3-ubyte: expected one of EMNIST's sets, found balanced too. Move the one you want "
        "into a folder of its own."
    ]


def test_pictures_of_mnist_without_labels_are_named(tmp_path):
    miniatures.mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()

    assert words(tmp_path) == [
        "t10k-images-idx3-ubyte.gz: expected its labels beside it, found none: all of that split is left out. Add them."
    ]
