"""Published data sets: recognised from the folder alone, packed to the bytes and labels that they hold, and shown."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path

import miniatures
import numpy as np
import pytest
from test_cli import call
from test_packing import records

from penstock.datasets import FolderDataset, How, inspect, pack
from penstock.datasets.layouts import camvid, cityscapes, tfrecords
from penstock.errors import CorruptRecord, DatasetError
from penstock.images import decode_image, decode_mask
from penstock.records.schema import decode_classification, decode_detection, decode_segmentation
from penstock.report.sheets import records_sheet
from penstock.sources import FilesSource

FACTS = {  # layout's name, task, classes, records by split
    "cifar10": ("CIFAR-10", "classification", 10, {"train": 30, "test": 6}),
    "cifar100": ("CIFAR-100", "classification", 100, {"train": 6, "test": 6}),
    "mnist": ("MNIST (IDX files)", "classification", 5, {"train": 5, "test": 5}),
    "cityscapes": ("Cityscapes", "segmentation", 19, {"train": 1, "val": 1}),
    "ade20k": ("ADE20K", "segmentation", 150, {"train": 2, "val": 2}),
    "camvid": ("CamVid", "segmentation", 11, {"train": 1, "val": 1, "test": 1}),
    "voc": ("Pascal VOC", "segmentation", 21, {"train": 2, "val": 1}),
    "coco": ("COCO", "detection", 2, {"train": 3, "val": 3}),
    "yolo": ("YOLO", "detection", 2, {"train": 2, "val": 2}),
    "csv": ("CSV", "classification", 2, {"train": 2, "val": 2}),
    "tfds": ("TensorFlow Datasets", "classification", 2, {"train": 6, "val": 1}),
    "tfds_boxes": ("TensorFlow Datasets", "detection", 2, {"train": 1}),
    "tfds_masks": ("TensorFlow Datasets", "segmentation", 3, {"test": 1}),
    "object_detection": ("Object Detection API's TFRecords", "detection", 2, {"val": 2}),
    "slim": ("slim's TFRecords", "classification", 2, {"train": 2}),
    "masks": ("image and mask folders", "segmentation", 3, {"train": 1, "val": 1}),
    "folders": ("one folder per class", "classification", 2, {"train": 2, "val": 2}),
}


def packed(name, tmp_path, how=None, **options):
    miniatures.MINIATURES[name](tmp_path / "raw", **options)
    return pack(inspect(tmp_path / "raw", how=how or How()), tmp_path / "data")


@pytest.mark.parametrize("name", FACTS)
def test_each_is_recognised_from_the_folder_alone_packed_and_shown(name, tmp_path):
    miniatures.MINIATURES[name](tmp_path / "raw")
    found = inspect(tmp_path / "raw")
    title, task, classes, counts = FACTS[name]

    assert [problem.message for problem in found.fatal] == []
    assert (found.layout.name, found.layout.task, len(found.labels.classes)) == (title, task, classes)
    assert {split: len(facts) for split, facts in found.splits.items()} == counts
    dataset = pack(found, tmp_path / "data")
    assert {split: len(records(dataset, split)) for split in counts} == counts
    sheet = records_sheet(dataset, next(iter(counts)), 4)
    assert sheet.std() > 10


def test_cifar_pixels_are_those_of_the_file(tmp_path):
    dataset = packed("cifar10", tmp_path)
    found = {decode_classification(record).name: decode_classification(record) for record in records(dataset, "train")}

    assert len(found) == 30
    for number in range(1, 6):
        for i in range(6):
            record = found[f"data_batch_{number}-{i:05d}"]
            pixels = decode_image(record.image, "x")
            assert pixels.tobytes() == miniatures.cifar_pixels(100 * (number - 1) + i).transpose(1, 2, 0).tobytes()
            assert (record.label, record.text) == (i, dataset.description.classes[i])


@pytest.mark.parametrize(("layout", "label", "name"), [("", 97, "fine97"), ("cifar100-coarse", 2, "coarse2")])
def test_cifar_100_has_two_labels(tmp_path, layout, label, name):
    dataset = packed("cifar100", tmp_path, How(layout))
    found = {decode_classification(record).name: decode_classification(record) for record in records(dataset, "train")}

    assert (found["train-00002"].label, found["train-00002"].text) == (label, name)


def test_a_cifar_file_that_is_cut_short_is_named(tmp_path):
    miniatures.cifar10(tmp_path)
    file = tmp_path / "data_batch_2.bin"
    file.write_bytes(file.read_bytes()[:-100])

    assert [problem.message for problem in inspect(tmp_path).fatal] == [
        "data_batch_2.bin: expected whole records of 3,073 bytes, found 18,338 bytes, which is 5 and 2,973 bytes more. "
        "The file was cut short, or is of another format: download it again."
    ]


def test_a_cifar_label_above_nine_is_named_and_may_be_left_out(tmp_path):
    miniatures.cifar10(tmp_path)
    file = tmp_path / "data_batch_3.bin"
    data = bytearray(file.read_bytes())
    data[2 * 3073] = 17
    file.write_bytes(data)
    found = inspect(tmp_path)

    assert [problem.message for problem in found.fatal] == [
        "data_batch_3.bin#2: expected a label from 0 to 9, found 17. The file is damaged, or of another data set: "
        "download it again."
    ]
    assert len(found.sound().facts) == 35


def test_a_cifar_batch_that_is_missing_is_a_note(tmp_path):
    miniatures.cifar10(tmp_path)
    (tmp_path / "data_batch_4.bin").unlink()

    assert [(problem.fatal, problem.message) for problem in inspect(tmp_path).problems] == [
        (
            False,
            "data_batch_4.bin: expected it beside data_batch_1.bin, found nothing. Without it some images are missing.",
        )
    ]


def test_the_head_of_the_original_cifar_file_is_read(real_data, tmp_path):
    source = real_data("cifar10")
    (tmp_path / "data_batch_1.bin").symlink_to(source / "data_batch_1_first4000.bin")
    (tmp_path / "batches.meta.txt").symlink_to(source / "batches.meta.txt")
    found = inspect(tmp_path)

    assert not found.fatal
    assert len(found.facts) == 4000
    assert [found.labels.classes[fact.item.label] for fact in found.facts[:5]] == [
        "frog",
        "truck",
        "truck",
        "deer",
        "automobile",
    ]


@pytest.mark.parametrize("zipped", [True, False])
def test_mnist_pixels_are_those_of_the_file(tmp_path, zipped):
    dataset = packed("mnist", tmp_path, zipped=zipped)
    pixels = np.random.default_rng(1).integers(0, 256, (5, 28, 28), np.uint8)
    for record in map(decode_classification, records(dataset, "train")):
        image = decode_image(record.image, "x")
        assert (image == pixels[record.label][..., np.newaxis]).all()


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda data: data[:-10], "3,926 bytes that are not"),
        (lambda data: b"\1\2\3\4" + data[4:], "3,936 bytes that are not"),
    ],
)
def test_a_damaged_idx_file_is_named(tmp_path, damage, found):
    miniatures.mnist(tmp_path, zipped=False)
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DatasetError) as caught:
        inspect(tmp_path)

    shape = "(5, 28, 28)" if "926" in found else "that it states"
    assert str(caught.value) == (
        f"{path}: expected an IDX file of bytes of shape {shape}, found {found}. Download it again."
    )


def test_cityscapes_label_ids_become_train_ids(tmp_path):
    dataset = packed("cityscapes", tmp_path)
    (record,) = map(decode_segmentation, records(dataset, "train"))
    ids = decode_mask(record.mask, "m")
    named = {7: "road", 11: "building", 21: "vegetation", 23: "sky", 24: "person", 26: "car", 33: "bicycle"}

    assert record.name == "ulm/ulm_000000_000010"
    for label, name in named.items():
        assert cityscapes.CLASSES[ids[0, label]] == name
    assert sorted(set(ids.ravel().tolist())) == [*range(19), 255]
    assert {label for label in range(34) if ids[0, label] == 255} == set(range(34)) - set(cityscapes.LABEL_IDS)


def test_ade20k_ids_begin_with_one(tmp_path):
    dataset = packed("ade20k", tmp_path)
    raw = np.random.default_rng(0).integers(0, 151, (24, 32), np.uint8)
    record = next(r for r in map(decode_segmentation, records(dataset, "train")) if r.name.endswith("00000"))

    assert (decode_mask(record.mask, "m") == np.where(raw == 0, 255, raw - 1)).all()
    assert dataset.description.classes[:2] == ("thing1", "thing2")


def test_camvid_ignores_void(tmp_path):
    dataset = packed("camvid", tmp_path)

    assert (dataset.description.classes, dataset.description.ignore_label) == (camvid.CLASSES, 11)


def test_voc_masks_are_indices_of_their_palette(tmp_path):
    dataset = packed("voc", tmp_path)
    found = {r.name: r for r in map(decode_segmentation, records(dataset, "train"))}
    raw = np.random.default_rng(1).choice([0, 8, 12, 255], (24, 32)).astype(np.uint8)

    assert (decode_mask(found["2007_000002"].mask, "m") == raw).all()
    assert dataset.description.classes[8] == "cat"


def test_the_augmented_training_split_does_not_leak_into_val(tmp_path):
    miniatures.voc_(tmp_path, augmented=True)
    found = inspect(tmp_path)

    assert [fact.item.name for fact in found.splits["train"]] == ["2007_000001", "2007_000002", "2008_000009"]
    assert found.layout.reasons[1] == "train is train_aug.txt: 3 images, 1 of val left out"


def test_voc_boxes_are_counted_from_one(tmp_path):
    dataset = packed("voc", tmp_path, How(task="detection"))
    record = next(r for r in map(decode_detection, records(dataset, "train")) if r.name == "2007_000001")
    cat, dog = record.objects

    assert dataset.description.splits["train"].objects == 2
    assert (cat.text, dog.text, cat.difficult, dog.difficult) == ("cat", "dog", False, True)
    assert [cat.left, cat.top, cat.right, cat.bottom] == pytest.approx([2, 4, 12, 20], abs=1e-5)
    assert [dog.left, dog.top, dog.right, dog.bottom] == pytest.approx([0, 0, 32, 24], abs=1e-5)


def test_coco_boxes_and_crowds(tmp_path):
    miniatures.coco(tmp_path / "raw")
    found = inspect(tmp_path / "raw")
    dataset = pack(found, tmp_path / "data")
    by_name = {r.name: r for r in map(decode_detection, records(dataset, "train"))}
    date, fig = by_name["000000000000"].objects

    assert dataset.description.classes == ("fig", "date")
    assert (date.label, fig.label) == (1, 0)
    assert [date.left, date.top, date.right, date.bottom] == pytest.approx([8, 4, 18, 16], abs=1e-5)
    assert [each.crowd for each in by_name["000000000001"].objects] == [True]
    assert by_name["000000000002"].objects == ()
    assert [problem.message for problem in found.problems][:1] == [
        "train2017/000000000001.jpg: box 1 is a crowd: nothing is learnt from it, and finding things in it is no mistake."
    ]


def test_coco_shapes_become_masks_with_small_things_on_top(tmp_path):
    dataset = packed("coco", tmp_path, How(task="segmentation"))
    found = {r.name: decode_mask(r.mask, "m") for r in map(decode_segmentation, records(dataset, "train"))}
    first = np.zeros((24, 32), np.uint8)
    first[4:16, 8:18] = 2
    first[6:10, 10:14] = 1
    crowd = np.zeros((24, 32), np.uint8)
    crowd[:, :4] = 255

    assert dataset.description.classes == ("background", "fig", "date")
    assert (found["000000000000"] == first).all()
    assert (found["000000000001"] == crowd).all()
    assert not found["000000000002"].any()


def test_coco_objects_without_an_area_are_measured(tmp_path):
    found = []
    for number, order in enumerate((1, -1)):
        tree = miniatures.coco_tree()
        tree["annotations"] = tree["annotations"][:2][::order]
        for each in tree["annotations"]:
            each.pop("area")
        for each in tree["images"]:
            miniatures.write(tmp_path / str(number) / each["file_name"], miniatures.picture(seed=each["id"]))
        miniatures.write(tmp_path / str(number) / "train.json", json.dumps(tree))
        dataset = pack(inspect(tmp_path / str(number), how=How(task="segmentation")), tmp_path / f"data{number}")
        found.append({r.name: decode_mask(r.mask, "m") for r in map(decode_segmentation, records(dataset, "train"))})

    for masks in found:
        assert (masks["000000000000"][6:10, 10:14] == 1).all()
        assert (masks["000000000000"] == 2).sum() == 120 - 16


def test_coco_run_lengths_may_be_packed_into_text(tmp_path):
    from faster_coco_eval import mask as masks

    found = []
    for number in range(2):
        tree = miniatures.coco_tree()
        if number:
            runs = tree["annotations"][2]["segmentation"]
            runs["counts"] = masks.frPyObjects(dict(runs), *runs["size"])["counts"].decode()
        for each in tree["images"]:
            miniatures.write(tmp_path / str(number) / each["file_name"], miniatures.picture(seed=each["id"]))
        miniatures.write(tmp_path / str(number) / "train.json", json.dumps(tree))
        dataset = pack(inspect(tmp_path / str(number), how=How(task="segmentation")), tmp_path / f"data{number}")
        found.append(sorted(r.mask for r in map(decode_segmentation, records(dataset, "train"))))

    assert found[0] == found[1]


def test_coco_run_lengths_of_another_size_are_named(tmp_path):
    tree = miniatures.coco_tree()
    tree["annotations"][2]["segmentation"]["counts"] = [0, 24 * 4, 1]
    for each in tree["images"]:
        miniatures.write(tmp_path / each["file_name"], miniatures.picture(seed=each["id"]))
    miniatures.write(tmp_path / "train.json", json.dumps(tree))
    found = inspect(tmp_path, how=How(task="segmentation"))

    assert [problem.message for problem in found.fatal] == [
        f"{tmp_path / 'train.json'}#8 (annotation 3): expected outlines of at least three points, or run lengths of an "
        "image of 24 x 32, found {'size': (24, 32), 'counts': [0, 96, 1]}. Fix the file."
    ]


@pytest.mark.parametrize("inside", [True, False])
def test_pictures_may_be_named_by_their_whole_path(tmp_path, monkeypatch, inside):
    place = tmp_path / ("raw" if inside else "elsewhere")
    for number in range(2):
        miniatures.write(place / f"{number}.png", miniatures.picture(seed=number))
    rows = [f"{place / f'{number}.png'},{'ab'[number]}" for number in range(2)]
    miniatures.write(tmp_path / "raw" / "labels.csv", "\n".join(["file,label", *rows]) + "\n")
    monkeypatch.chdir(tmp_path)
    dataset = pack(inspect(Path("raw")), tmp_path / "data")

    assert dataset.description.splits["train"].per_class == (1, 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # pycocotools and numpy 2
def test_coco_masks_are_those_of_pycocotools(real_data):
    coco = pytest.importorskip("pycocotools.coco")
    source = real_data("fruits_nuts_coco")
    truth = coco.COCO(str(source / "trainval.json"))
    found = inspect(source, how=How(task="segmentation"))

    assert len(found.facts) == 18
    for fact in found.facts:
        ids = decode_mask(fact.item.mask.read_bytes(), "m")
        (number,) = (i for i, image in truth.imgs.items() if image["file_name"] == f"{fact.item.name}.jpg")
        expected = np.zeros(ids.shape, np.uint8)
        for each in sorted(truth.imgToAnns[number], key=lambda each: -each["area"]):
            expected[truth.annToMask(each) > 0] = each["category_id"]
        assert (ids == expected).all()


def test_a_coco_picture_that_is_missing_is_named(tmp_path):
    miniatures.coco(tmp_path)
    (tmp_path / "val2017/000000000001.jpg").unlink()

    assert [problem.message for problem in inspect(tmp_path).fatal] == [
        "annotations/instances_val2017.json: expected image 000000000001.jpg, as it says, found nothing. Add it, or "
        "remove its entry."
    ]


@pytest.mark.parametrize(
    ("box", "message"),
    [
        (
            [8, 4, -3, 12],
            "train2017/000000000000.jpg: expected box 1 from its left top to its right bottom corner, found 8, 4 to 5, 16 "
            "(x, y). Fix it; in a CSV, columns of a corner and a size must be named x, y, width, height, or bbox_xywh.",
        ),
        (
            [8, 4, 40, 12],
            "train2017/000000000000.jpg: expected box 1 inside the image of 24 x 32 (height x width), found 8, 4 to "
            "48, 16 (x, y). Fix it, or leave the image out with --skip-bad.",
        ),
    ],
)
def test_boxes_that_are_wrong_are_named(tmp_path, box, message):
    miniatures.coco(tmp_path)
    path = tmp_path / "annotations/instances_train2017.json"
    tree = json.loads(path.read_text())
    tree["annotations"][0]["bbox"] = box
    path.write_text(json.dumps(tree))

    assert [problem.message for problem in inspect(tmp_path).fatal] == [message]


def test_a_box_may_lie_a_pixel_outside(tmp_path):
    miniatures.csv_boxes(tmp_path / "raw", box="-1,-0.5,32.5,25")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    (record,) = map(decode_detection, records(dataset, "train"))
    (box,) = record.objects

    assert (box.left, box.top, box.right, box.bottom) == (0, 0, 32, 24)


def test_yolo_boxes_are_middles_and_shares(tmp_path):
    dataset = packed("yolo", tmp_path)
    found = {r.name: r for r in map(decode_detection, records(dataset, "train"))}
    date, fig = found["a"].objects

    assert (date.text, fig.text) == ("date", "fig")
    assert [date.left, date.top, date.right, date.bottom] == pytest.approx([12, 6, 20, 18], abs=1e-5)
    assert [fig.left, fig.top, fig.right, fig.bottom] == pytest.approx([0, 0, 16, 12], abs=1e-5)
    assert found["nothing"].objects == ()


@pytest.mark.parametrize("parted", [False, True])
def test_yolo_names_may_lie_with_the_labels(tmp_path, parted):
    """LabelImg writes classes.txt there."""
    for split in ("train", "val") if parted else ("",):
        miniatures.write(tmp_path / split / "images/a.jpg", miniatures.picture(seed=len(split)))
        miniatures.write(tmp_path / split / "labels/a.txt", "1 0.5 0.5 0.25 0.5\n")
        miniatures.write(tmp_path / split / "labels/classes.txt", "fig\ndate\n")
    found = inspect(tmp_path)

    assert (found.layout.name, found.labels.classes, found.fatal) == ("YOLO", ("fig", "date"), [])


def test_a_list_of_names_alone_is_no_yolo(tmp_path):
    for number in range(3):
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.picture(seed=number))
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
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    (box,) = next(r for r in map(decode_detection, records(dataset, "train")) if r.name == "a").objects

    assert [box.left, box.top, box.right, box.bottom] == pytest.approx([8, 6, 24, 18], abs=1e-5)


@pytest.mark.parametrize("comma", [";", "\t"])
def test_tables_may_be_parted_by_other_marks(tmp_path, comma):
    miniatures.csv_labels(tmp_path)
    path = tmp_path / "labels.csv"
    path.write_text(path.read_text().replace(",", comma))
    found = inspect(tmp_path)

    assert (found.layout.name, len(found.facts), found.fatal) == ("CSV", 4, [])


def test_a_table_without_names_of_columns_is_named(tmp_path):
    miniatures.csv_labels(tmp_path)
    path = tmp_path / "labels.csv"
    path.write_text("\n".join(path.read_text().splitlines()[1:]))
    with pytest.raises(DatasetError) as caught:
        inspect(tmp_path)

    assert str(caught.value) == (
        f"{path}, line 1: expected the names of the columns, such as file,label, found p0.jpg, dog, train. Add them as the "
        "first line."
    )


def test_cocos_files_may_lie_beside_their_pictures(tmp_path):
    for place, split in enumerate(("train", "valid")):
        tree = miniatures.coco_tree()
        for number, image in enumerate(tree["images"]):
            miniatures.write(tmp_path / split / image["file_name"], miniatures.picture(seed=number + 10 * place))
        miniatures.write(tmp_path / split / "_annotations.coco.json", json.dumps(tree))
    found = inspect(tmp_path)

    assert (found.layout.name, found.fatal) == ("COCO", [])
    assert {split: len(facts) for split, facts in found.splits.items()} == {"train": 3, "val": 3}


def test_emnist_is_turned_and_has_letters(tmp_path):
    miniatures.mnist(tmp_path / "plain", zipped=False)
    for path in (tmp_path / "plain").iterdir():
        split = "train" if path.name.startswith("train") else "test"
        kind = path.name.split("-", 1)[1]
        miniatures.write(tmp_path / f"raw/emnist-letters-{split}-{kind}", path.read_bytes())
    miniatures.write(
        tmp_path / "raw/emnist-letters-mapping.txt", "".join(f"{i} {64 + i} {96 + i}\n" for i in range(1, 5))
    )
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    plain = pack(inspect(tmp_path / "plain"), tmp_path / "other")
    turned, stored = (
        {r.label: decode_image(r.image, "x") for r in map(decode_classification, records(d, "train"))}
        for d in (dataset, plain)
    )

    assert dataset.description.classes == ("0", "A", "B", "C", "D")
    assert all((turned[label] == stored[label].transpose(1, 0, 2)).all() for label in range(5))


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
    (edges,) = found.facts[0].item.boxes

    assert [edges.left, edges.top, edges.right, edges.bottom] == expected
    assert found.layout.reasons[1] == f"boxes are read as {how}"


def test_labels_in_names(tmp_path, capsys):
    for number, name in enumerate(("cat_1.jpg", "cat_2.jpg", "dog_1.jpg", "odd.jpg")):
        miniatures.write(tmp_path / name, miniatures.picture(seed=number))
    code, out, _ = call("inspect", tmp_path, "--pattern", r"(?P<label>[a-z]+)_\d", capsys=capsys)

    assert code == 1
    assert "classes (2, as named): cat, dog" in out
    assert (
        r"odd.jpg: expected a name that fits (?P<label>[a-z]+)_\d, found another. Rename it, or leave it out with "
        "--skip-bad."
    ) in out


def test_a_pattern_without_a_label_is_refused(tmp_path, capsys):
    assert call("inspect", tmp_path, "--pattern", r"([a-z]+)_\d", capsys=capsys) == (
        2,
        "",
        "error: --pattern: expected a regular expression with a group named label, such as (?P<label>[a-z]+)_, found "
        r"([a-z]+)_\d. Write it so; a group named split may be there too." + "\n",
    )


OWN = '''
"""Images whose class is the first letter of their name."""

from penstock.datasets import Item, Labels, Layout


def recognise(folder):
    images = sorted(folder.glob("*.jpg"))
    classes = tuple(sorted({path.name[0] for path in images}))
    items = [Item("train", path.stem, path, label=classes.index(path.name[0])) for path in images]
    return Layout("classification", "first letters", ("I say so",), tuple(items), Labels(classes))
'''


def test_a_layout_of_ones_own_is_a_file(tmp_path, capsys):
    for number, name in enumerate(("ada.jpg", "anna.jpg", "bob.jpg")):
        miniatures.write(tmp_path / "raw" / name, miniatures.picture(seed=number))
    (tmp_path / "letters.py").write_text(OWN)
    code, out, _ = call(
        "pack",
        tmp_path / "raw",
        "-o",
        tmp_path / "data",
        "--layout",
        f"{tmp_path / 'letters.py'}:recognise",
        capsys=capsys,
    )

    assert (code, len(OWN.splitlines()) < 40) == (0, True)
    assert FolderDataset.open(tmp_path / "data").description.classes == ("a", "b")
    assert "train: 3 records in 1 shard" in out


def test_an_unknown_layout_is_refused(tmp_path):
    with pytest.raises(DatasetError) as caught:
        inspect(tmp_path, how=How("vok"))

    assert str(caught.value) == (
        "--layout vok: expected FILE.py:NAME, or one of cifar10, cifar100, cifar100-coarse, mnist, "
        "cityscapes, ade20k, camvid, voc, voc-boxes, coco, coco-masks, nifti, nifti-volumes, yolo, tfrecords, csv, "
        "mattes, masks, folders, found vok. Choose one of them, or leave it out."
    )


def test_bccd_and_fruits_are_packed_as_they_are(real_data, tmp_path):
    cells = pack(inspect(real_data("bccd_voc")), tmp_path / "cells").description
    fruits = pack(inspect(real_data("fruits_nuts_coco")), tmp_path / "fruits").description

    assert (cells.classes, [split.records for split in cells.splits.values()]) == (
        ("Platelets", "RBC", "WBC"),
        [205, 87, 72],
    )
    assert (fruits.classes, sum(fruits.splits["train"].per_class)) == (("date", "fig", "hazelnut"), 165)


@pytest.mark.parametrize("compress", [lambda data: data, gzip.compress, zlib.compress])
def test_records_of_the_object_detection_api_are_packed_again(tmp_path, compress):
    dataset = packed("object_detection", tmp_path, compress=compress)
    found = {decode_detection(record).name: decode_detection(record) for record in records(dataset, "val")}
    one, none = found["b"], found["c"]

    assert (one.name, none.name, none.objects) == ("b", "c", ())
    assert one.image == miniatures.picture()
    assert dataset.description.classes == ("fig", "date")
    assert [(o.label, o.text, o.left, o.top, o.right, o.bottom) for o in one.objects] == [(1, "date", 4, 6, 24, 12)]


def test_records_of_tensorflow_datasets_are_packed_again(tmp_path):
    boxes, masks = packed("tfds_boxes", tmp_path / "boxes"), packed("tfds_masks", tmp_path / "masks")
    (found,) = [decode_detection(record) for record in records(boxes, "train")]
    (mask,) = [decode_segmentation(record).mask for record in records(masks, "test")]

    assert [(o.text, o.left, o.top, o.right, o.bottom, o.crowd) for o in found.objects] == [
        ("date", 4, 6, 24, 12, False),
        ("fig", 0, 0, 16, 24, True),
    ]
    expected = np.random.default_rng(5).integers(0, 3, (24, 32), np.uint8)
    assert (decode_mask(mask, "mask") == expected).all()
    assert not list((tmp_path / "masks" / "raw").glob("*.index"))  # nothing is written beside raw data


def test_deeplabs_own_shard_is_packed_again(real_data, tmp_path):
    source = real_data("deeplab_tfrecord")
    theirs = FilesSource(source / "val-00000-of-00001.tfrecord")
    dataset = pack(inspect(source), tmp_path / "data")
    before = [
        decode_segmentation(record) for record in theirs.read("val-00000-of-00001.tfrecord", 0, len(theirs.snapshot()))
    ]
    after = {decode_segmentation(record).name: decode_segmentation(record) for record in records(dataset, "val")}

    assert len(before) == len(after) > 0
    for record in before:
        again = after[record.name]
        assert again.image == record.image
        assert (decode_mask(again.mask, "m") == decode_mask(record.mask, "m")).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"objects/label": [1, 9]},
            "coco-train.tfrecord-00000-of-00001#0: expected the id of a class (0, 1, ...), found 9. Add it to the names "
            "beside the files, or leave the record out.",
        ),
        (
            {"objects/bbox": [0.25, 0.125, 0.5]},
            "coco-train.tfrecord-00000-of-00001#0: expected four edges for each of 2 objects, found 1, 1, 0, 1. Write the "
            "record again, or leave it out.",
        ),
    ],
)
def test_records_of_others_that_do_not_fit_are_named(tmp_path, changes, message):
    miniatures.tfds_boxes(tmp_path, **changes)
    layout = tfrecords.recognise(tmp_path)

    assert [problem.message for problem in layout.problems] == [message]


def test_a_damaged_record_of_others_is_named(tmp_path):
    miniatures.slim(tmp_path)
    file = tmp_path / "flowers_train_00000-of-00005.tfrecord"
    data = bytearray(file.read_bytes())
    data[-10] ^= 1
    file.write_bytes(data)

    with pytest.raises(
        CorruptRecord, match=r"00005.tfrecord#1 \(byte [\d,]+\): expected a payload of [\d,]+ bytes with checksum"
    ):
        inspect(tmp_path)


def test_records_of_others_may_be_divided_by_folders(tmp_path):
    for number, split in enumerate(("train", "valid", "test")):
        fields = {"image/encoded": miniatures.picture(seed=number), "image/class/label": 1}
        miniatures.shard(tmp_path / split / "Cells.tfrecord", [fields])

    assert {split: len(facts) for split, facts in inspect(tmp_path).splits.items()} == {"train": 1, "val": 1, "test": 1}


def test_a_table_beside_masks_is_not_in_their_way(tmp_path):
    miniatures.masks(tmp_path)
    miniatures.write(tmp_path / "train.csv", "images/train/a.jpg,masks/train/a.png\n")

    assert inspect(tmp_path).layout.name == "image and mask folders"


def test_the_name_of_the_whole_folder_is_no_split(tmp_path):
    miniatures.write(tmp_path / "test/annotations.json", json.dumps(miniatures.coco_tree()))
    for number, image in enumerate(miniatures.coco_tree()["images"]):
        miniatures.write(tmp_path / "test" / image["file_name"], miniatures.picture(seed=number))

    assert list(inspect(tmp_path / "test").splits) == ["train"]


def test_yolo_poses_have_boxes_before_their_key_points(tmp_path):
    miniatures.yolo(tmp_path / "raw")
    names = (tmp_path / "raw/data.yaml").read_text()
    (tmp_path / "raw/data.yaml").write_text(names + "kpt_shape: [2, 2]\n")
    (tmp_path / "raw/labels/train/a.txt").write_text("1 0.5 0.5 0.25 0.5 0.45 0.45 0.55 0.55\n")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    (box,) = next(r for r in map(decode_detection, records(dataset, "train")) if r.name == "a").objects

    assert [box.left, box.top, box.right, box.bottom] == pytest.approx([12, 6, 20, 18], abs=1e-5)


def test_a_folder_without_any_label_may_need_another_layout(tmp_path, capsys):
    for split in ("train", "val"):
        miniatures.write(tmp_path / "images" / split / "a.jpg", miniatures.picture())
    said = (
        "note: no image has a mask. If the folder is arranged in another way, name its layout: --layout NAME, or --layout "
        "FILE.py:NAME for one of your own\n"
    )
    assert said in call("inspect", tmp_path, capsys=capsys)[1]
    miniatures.write(tmp_path / "masks/train/a.png", miniatures.gray(np.zeros((24, 32), np.uint8)))
    assert said not in call("inspect", tmp_path, capsys=capsys)[1]
