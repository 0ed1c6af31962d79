from __future__ import annotations

import gzip
import zlib

import numpy as np
import pytest
from support import miniatures, raw_folders
from support.commands import call
from support.datasets import records
from support.layouts import pack_miniature

from penstock.datasets import FolderDataset, LayoutOptions, inspect, pack
from penstock.errors import CorruptRecord
from penstock.extensions.tensorflow import tfrecords
from penstock.images import decode_mask
from penstock.kinds.fields import decode_detection, decode_segmentation
from penstock.sources import FilesSource


@pytest.mark.parametrize("end", ["", ".gz", "-00000-of-00001", "-00000-of-00001.gz"])
@pytest.mark.parametrize("compress", [lambda data: data, gzip.compress, zlib.compress])
def test_records_of_the_object_detection_api_are_packed_again(tmp_path, compress, end):
    """Whether a file is compressed is decided by its first bytes, whatever its name ends in."""
    miniatures.object_detection(tmp_path / "raw", compress=compress)
    (tmp_path / "raw/val.record").rename(tmp_path / f"raw/val.record{end}")
    dataset = pack(inspect(tmp_path / "raw", how=LayoutOptions(evaluate_only=True)), tmp_path / "data")
    found = {decode_detection(record).name: decode_detection(record) for record in records(dataset, "val")}
    one, none = found["b"], found["c"]

    assert (one.name, none.name, none.objects) == ("b", "c", ())
    assert one.image == miniatures.make_image()
    assert dataset.description.classes == ("fig", "date")
    assert [(o.label, o.text, o.left, o.top, o.right, o.bottom) for o in one.objects] == [(1, "date", 4, 6, 24, 12)]


def test_records_of_tensorflow_datasets_are_packed_again(tmp_path):
    boxes, masks = (
        pack_miniature("tfds_boxes", tmp_path / "boxes"),
        pack_miniature("tfds_masks", tmp_path / "masks", LayoutOptions(evaluate_only=True)),
    )
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
    dataset = pack(inspect(source, how=LayoutOptions(evaluate_only=True)), tmp_path / "data")
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
        fields = {"image/encoded": miniatures.make_image(seed=number), "image/class/label": 1}
        miniatures.shard(tmp_path / split / "Cells.tfrecord", [fields])

    assert {split: len(items) for split, items in inspect(tmp_path).splits.items()} == {"train": 1, "val": 1, "test": 1}


def test_difficult_objects_stay_so_when_records_are_packed_again(tmp_path):
    miniatures.tfds_boxes(tmp_path / "one", **{"objects/is_difficult": [1, 0]})
    dataset = pack(inspect(tmp_path / "one"), tmp_path / "packed")
    (record,) = map(decode_detection, records(dataset, "train"))
    assert [(o.crowd, o.difficult) for o in record.objects] == [(False, True), (True, False)]

    for path in (tmp_path / "packed").glob("*.tfrecord"):
        miniatures.write(tmp_path / "bare" / path.name, path.read_bytes())
    dataset = pack(inspect(tmp_path / "bare"), tmp_path / "again")
    (record,) = map(decode_detection, records(dataset, "train"))
    assert [(o.crowd, o.difficult) for o in record.objects] == [(False, True), (True, False)]


def test_names_of_slims_records_are_read(tmp_path):
    miniatures.slim(tmp_path)
    assert inspect(tmp_path).labels.classes == ("daisy", "rose")


def test_records_of_the_two_images_alone_are_packed_again(raw, tmp_path, capsys):
    """Without names of their own they are called by where they lie."""
    from support.miniatures import shard

    names = [f"scene-{number:05d}" for number in range(3)]
    pairs = [((raw / f"images/train/{n}.jpg").read_bytes(), (raw / f"masks/train/{n}.png").read_bytes()) for n in names]
    keys = ("image/encoded", "image/segmentation/class/encoded")
    (tmp_path / "raw").mkdir()
    shard(tmp_path / "raw/train-00000-of-00001.tfrecord", [dict(zip(keys, pair, strict=True)) for pair in pairs])
    words = ["--layout", "tfrecords", "--classes", "a,b,c,d,e,f"]
    assert call("pack", tmp_path / "raw", "-o", tmp_path / "data", *words, capsys=capsys)[0] == 0
    found = [decode_segmentation(r) for r in records(FolderDataset.open(tmp_path / "data"), "train")]

    assert {(each.image, each.height, each.width) for each in found} == {(image, 64, 96) for image, _ in pairs}
    assert {each.name for each in found} == {f"train-00000-of-00001.tfrecord-{number:06d}" for number in range(3)}


def test_masks_of_the_object_detection_api_are_instances(tmp_path):
    raw_folders.object_masks(tmp_path / "raw")
    found = inspect(tmp_path / "raw", how=LayoutOptions(task="instances"))
    first = found.items[0].item

    assert found.fatal == []
    assert [instance.label for instance in first.label] == [0, 0]
    for number, instance in enumerate(first.label):
        assert np.array_equal(instance.pixels((24, 32)), raw_folders.square(at=2 + 4 * number) > 0)
    assert inspect(tmp_path / "raw").layout.kind.name == "detection"


def test_a_mask_of_another_size_and_a_mask_too_few_are_named(tmp_path):
    raw_folders.object_masks(tmp_path / "raw", size=(12, 16), missing=True)
    messages = [problem.message for problem in inspect(tmp_path / "raw", how=LayoutOptions(task="instances")).fatal]

    assert messages[0] == (
        "train.record#2: expected a mask for each of 2 objects, found 1. Write the record again, or leave it out."
    )
    assert "train.record#0, object 0: expected a mask of 24 x 32, like its image, found 12 x 16." in messages[1]


def _shard(path, *records):
    """Records of images with other fields each."""
    held = {"image/height": 24, "image/width": 32}
    miniatures.shard(
        path, [{"image/encoded": miniatures.make_image(seed=n), **held, **more} for n, more in enumerate(records)]
    )


def test_crowds_are_told_from_objects(tmp_path):
    edges = {f"image/object/bbox/{edge}": [0.25, 0.5] for edge in ("xmin", "ymin")}
    edges |= {f"image/object/bbox/{edge}": [0.5, 0.75] for edge in ("xmax", "ymax")}
    masks = [raw_folders.square(at=2 + 4 * number) for number in range(2)]
    _shard(
        tmp_path / "train.record",
        {
            **edges,
            "image/object/class/label": [1, 1],
            "image/object/class/text": [b"fig", b"fig"],
            "image/object/is_crowd": [0, 1],
            "image/object/mask": [miniatures.gray(mask) for mask in masks],
        },
    )
    for task in ("detection", "instances"):
        (each,) = inspect(tmp_path, how=LayoutOptions(task=task)).items
        assert [shown.crowd for shown in each.item.label] == [False, True]


def test_edges_may_be_pixels_in_whole_numbers(tmp_path):
    edges = {"left": [4], "top": [6], "right": [24], "bottom": [12]}
    _shard(tmp_path / "train.record", {**edges, "kind": [0], "image/filename": "a.jpg"})
    fields = {
        "image": "image/encoded",
        "label": "kind",
        "xmin": "left",
        "ymin": "top",
        "xmax": "right",
        "ymax": "bottom",
    }

    (each,) = inspect(tmp_path, how=LayoutOptions(fields=fields)).items
    assert [(box.left, box.top, box.right, box.bottom) for box in each.item.label] == [(4, 6, 24, 12)]


def test_records_of_one_name_have_names_of_their_own(tmp_path):
    same = {"image/class/label": [0], "image/filename": "a.jpg"}
    _shard(tmp_path / "train.record", same, {**same, "image/class/label": [1]})

    assert [each.item.name for each in inspect(tmp_path).items] == ["a", "a-train.record-000001"]


def test_no_label_is_no_class(tmp_path):
    """TensorFlow Datasets writes -1 where labels are kept back."""
    _shard(tmp_path / "train.record", *({"image/class/label": [label]} for label in (0, 1, -1)))

    found = inspect(tmp_path)
    assert found.labels.classes == ("class0", "class1")
    assert [problem.kind for problem in found.fatal] == ["label outside the classes"]


def test_the_nearest_folder_names_the_split(tmp_path):
    for place in ("train/part1", "train/val"):
        _shard(tmp_path / place / "a.record", {"image/class/label": [0]}, {"image/class/label": [1]})

    assert {split: len(items) for split, items in inspect(tmp_path).splits.items()} == {"train": 2, "val": 2}
