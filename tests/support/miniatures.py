"""Faithful miniatures of published data sets: the same files, names and formats, a few made-up images each."""

from __future__ import annotations

import gzip
import json
import struct

import cv2
import numpy as np
import simplejpeg
from PIL import Image

from penstock.datasets.layouts import voc
from penstock.extensions.datasets import cityscapes
from penstock.records.example import encode
from penstock.records.framing import frame


def make_image(size=(24, 32), seed=0):
    """An image, as JPEG."""
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8)
    return simplejpeg.encode_jpeg(cv2.blur(pixels, (5, 5)), quality=95)


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def gray(ids):
    return cv2.imencode(".png", ids)[1].tobytes()


def cifar10(root, records=6):
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    write(root / "batches.meta.txt", "\n".join(names) + "\n\n")
    for number, name in enumerate([*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]):
        write(root / f"{name}.bin", b"".join(cifar_record([i % 10], 100 * number + i) for i in range(records)))


def cifar100(root, records=6):
    write(root / "fine_label_names.txt", "\n".join(f"fine{i}" for i in range(100)) + "\n")
    write(root / "coarse_label_names.txt", "\n".join(f"coarse{i}" for i in range(20)) + "\n")
    for number, name in enumerate(("train", "test")):
        write(root / f"{name}.bin", b"".join(cifar_record([i, 99 - i], 100 * number + i) for i in range(records)))


def cifar_pixels(seed):
    """(3, 32, 32): red, green, blue planes."""
    return np.random.default_rng(seed).integers(0, 256, (3, 32, 32), np.uint8)


def cifar_record(labels, seed):
    return bytes(labels) + cifar_pixels(seed).tobytes()


def mnist(root, records=5, *, zipped=True):
    for split, seed in (("train", 1), ("t10k", 2)):
        pixels = np.random.default_rng(seed).integers(0, 256, (records, 28, 28), np.uint8)
        for kind, array in (("images", pixels), ("labels", np.arange(records, dtype=np.uint8))):
            data = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
            name = f"{split}-{kind}-idx{array.ndim}-ubyte"
            write(root / (f"{name}.gz" if zipped else name), gzip.compress(data) if zipped else data)


def cityscapes_(root):
    """Two cities; every label id occurs; the test split has no labels worth the name."""
    for number, (split, city) in enumerate((("train", "ulm"), ("val", "bonn"), ("test", "bonn"))):
        stem = f"{split}/{city}/{city}_000000_00001{number}"
        pixels = np.random.default_rng(number).integers(0, 256, (16, 40, 3), np.uint8)
        write(root / f"leftImg8bit/{stem}_leftImg8bit.png", cv2.imencode(".png", pixels)[1].tobytes())
        ids = np.arange(40, dtype=np.uint8)[np.newaxis].repeat(16, axis=0) % 34
        write(root / f"gtFine/{stem}_gtFine_labelIds.png", gray(ids))
        write(root / f"gtFine/{stem}_gtFine_color.png", gray(ids))
    assert len(cityscapes.LABEL_IDS) == 19


def ade20k(root):
    rows = ["Idx\tRatio\tTrain\tVal\tStuff\tName", *(f"{i}\t0.1\t1\t1\t1\tthing{i}, other" for i in range(1, 151))]
    write(root / "objectInfo150.txt", "\n".join(rows) + "\n")
    for split in ("training", "validation"):
        for number in range(2):
            seed = number + 10 * (split == "validation")
            write(root / f"images/{split}/ADE_{split}_{number:08d}.jpg", make_image(seed=seed))
            ids = np.random.default_rng(seed).integers(0, 151, (24, 32), np.uint8)
            write(root / f"annotations/{split}/ADE_{split}_{number:08d}.png", gray(ids))


def camvid(root):
    for number, split in enumerate(("train", "val", "test")):
        write(root / f"{split}/0001TP_{number}.jpg", make_image(seed=number))
        ids = np.random.default_rng(number).integers(0, 12, (24, 32), np.uint8)
        write(root / f"{split}annot/0001TP_{number}.png", gray(ids))


def voc_(root, *, augmented=False):
    """Palette masks with their border of 255, XML boxes counted from 1, lists by split."""
    lists = {"train": ["2007_000001", "2007_000002"], "val": ["2007_000003"], "test": ["2007_000004"]}
    for kind in ("Segmentation", "Main"):
        for split, names in lists.items():
            write(root / f"ImageSets/{kind}/{split}.txt", "\n".join(names) + "\n")
    write(root / "ImageSets/Main/cat_train.txt", "2007_000001  1\n2007_000002 -1\n")
    for number, name in enumerate(name for names in lists.values() for name in names):
        write(root / f"JPEGImages/{name}.jpg", make_image(seed=number))
        write(root / f"Annotations/{name}.xml", voc_xml(name, [("cat", 3, 5, 12, 20), ("dog", 1, 1, 32, 24)]))
        if name != "2007_000004":
            palette_mask(root / f"SegmentationClass/{name}.png", number)
    if augmented:
        write(root / "JPEGImages/2008_000009.jpg", make_image(seed=9))
        names = [*lists["train"], "2008_000009", "2007_000003"]
        write(root / "ImageSets/Segmentation/train_aug.txt", "\n".join(names) + "\n")
        for number, name in enumerate(names):
            palette_mask(root / f"SegmentationClassAug/{name}.png", number)


def palette_mask(path, seed):
    ids = np.random.default_rng(seed).choice([0, 8, 12, 255], (24, 32)).astype(np.uint8)
    image = Image.fromarray(ids).convert("P")
    image.putpalette([value for i in range(256) for value in (i, 255 - i, i // 2)])
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)


def voc_xml(name, objects, size=(24, 32)):
    boxes = "".join(
        f"<object><name>{what}</name><difficult>{int(what == 'dog')}</difficult><bndbox><xmin>{x1}</xmin>"
        f"<ymin>{y1}</ymin><xmax>{x2}</xmax><ymax>{y2}</ymax></bndbox></object>"
        for what, x1, y1, x2, y2 in objects
    )
    head = f"<filename>{name}.jpg</filename><size><width>{size[1]}</width><height>{size[0]}</height></size>"
    return f"<annotation>{head}{boxes}</annotation>"


def coco(root):
    """Category ids with a gap, a polygon, a crowd as run lengths, an image without objects."""
    for split in ("train2017", "val2017"):
        for number in range(3):
            write(root / f"{split}/{number:012d}.jpg", make_image(seed=number + 10 * (split == "val2017")))
        write(root / f"annotations/instances_{split}.json", json.dumps(coco_tree()))
        write(root / f"annotations/captions_{split}.json", json.dumps({"images": [], "annotations": []}))


def coco_tree():
    crowd = {"size": [24, 32], "counts": [0, 24 * 4, 24 * 28]}  # the four columns on the left
    return {
        "images": [{"id": 7 + n, "file_name": f"{n:012d}.jpg", "height": 24, "width": 32} for n in range(3)],
        "categories": [{"id": 3, "name": "fig"}, {"id": 90, "name": "date"}],
        "annotations": [
            {
                "id": 1, "image_id": 7, "category_id": 90, "bbox": [8, 4, 10, 12], "area": 120, "iscrowd": 0,
                "segmentation": [[8, 4, 18, 4, 18, 16, 8, 16]],
            },
            {
                "id": 2, "image_id": 7, "category_id": 3, "bbox": [10, 6, 4, 4], "area": 16, "iscrowd": 0,
                "segmentation": [[10, 6, 14, 6, 14, 10, 10, 10]],
            },
            {
                "id": 3, "image_id": 8, "category_id": 3, "bbox": [0, 0, 4, 24], "area": 96, "iscrowd": 1,
                "segmentation": crowd,
            },
        ],
    }  # fmt: skip


def yolo(root):
    write(root / "data.yaml", "train: images/train\nval: images/val\nnames:\n  0: fig\n  1: date\n")
    for number, split in enumerate(("train", "val")):
        write(root / f"images/{split}/a.jpg", make_image(seed=number))
        write(root / f"labels/{split}/a.txt", "1 0.5 0.5 0.25 0.5\n0 0.25 0.25 0.5 0.5\n")
        write(root / f"images/{split}/nothing.jpg", make_image(seed=5 + number))


def csv_labels(root):
    for number in range(4):
        write(root / f"images/p{number}.jpg", make_image(seed=number))
    rows = [
        "filename,label,split",
        *(f"p{n}.jpg,{'cat' if n % 2 else 'dog'},{'val' if n > 1 else 'train'}" for n in range(4)),
    ]
    write(root / "labels.csv", "\n".join(rows) + "\n")


def csv_boxes(root, columns="xmin,ymin,xmax,ymax", box="2,3,12,20", more=""):
    """An image with a box, and a second image with the rows of `more`, if there are any."""
    write(root / "images/p.jpg", make_image())
    if more:
        write(root / "images/q.jpg", make_image(seed=1))
    quoted = f'"{box}"' if columns.startswith("bbox") else box
    write(root / "boxes.csv", f"image,class,{columns}\np.jpg,cat,{quoted}\n{more}")


def folders(root):
    for split in ("train", "val"):
        for number, name in enumerate(("cat", "dog")):
            write(root / split / name / "a.jpg", make_image(seed=number + 10 * (split == "val")))


def masks(root):
    for split in ("train", "val"):
        write(root / f"images/{split}/a.jpg", make_image(seed=len(split)))
        write(root / f"masks/{split}/a.png", gray(np.random.default_rng(len(split)).integers(0, 3, (24, 32), np.uint8)))


def shard(path, records, *, compress=lambda data: data):
    write(path, compress(b"".join(frame(encode(fields)) for fields in records)))


def tfds(root):
    """TensorFlow Datasets: flowers/1.0.0, two shards of a split, names in label.labels.txt."""
    write(root / "features.json", "{}")
    write(root / "label.labels.txt", "rose\ntulip\n")
    for number in range(2):
        found = [{"image": make_image(seed=10 * number + i), "label": i % 2} for i in range(3)]
        shard(root / f"flowers-train.tfrecord-0000{number}-of-00002", found)
    shard(root / "flowers-validation.tfrecord-00000-of-00001", [{"image": make_image(seed=99), "label": 1}])


def tfds_boxes(root, **changes):
    """TensorFlow Datasets: boxes as (ymin, xmin, ymax, xmax)."""
    write(root / "objects-label.labels.txt", "fig\ndate\n")
    fields = {
        "image": make_image(),
        "image/filename": "a.jpg",
        "objects/bbox": [0.25, 0.125, 0.5, 0.75, 0.0, 0.0, 1.0, 0.5],
    }
    fields |= {"objects/label": [1, 0], "objects/is_crowd": [0, 1], **changes}
    shard(root / "coco-train.tfrecord-00000-of-00001", [fields])


def tfds_masks(root):
    ids = np.random.default_rng(5).integers(0, 3, (24, 32), np.uint8)
    shard(
        root / "pets-test.tfrecord-00000-of-00001",
        [{"image": make_image(), "label": 7, "segmentation_mask": gray(ids)}],
    )


def object_detection(root, **options):
    """The Object Detection API: val.record and a label map with a gap; an image without objects."""
    names = "item {\n  id: 3\n  name: 'n01'\n  display_name: 'fig'\n}\nitem { name: \"date\" id: 7 }\n"
    write(root / "label_map.pbtxt", names)
    fields = {"image/encoded": make_image(), "image/filename": "b.jpg", "image/height": 24, "image/width": 32}
    edges = {"xmin": [0.125], "ymin": [0.25], "xmax": [0.75], "ymax": [0.5]}
    boxes = {f"image/object/bbox/{edge}": values for edge, values in edges.items()}
    there = {**fields, **boxes, "image/object/class/label": [7], "image/object/class/text": [b"date"]}
    empty = {"image/encoded": make_image(seed=2), "image/filename": "c.jpg", "image/height": 24, "image/width": 32}
    shard(root / "val.record", [there, empty], **options)


def slim(root):
    write(root / "labels.txt", "0:daisy\n1:rose\n")
    found = [{"image/encoded": make_image(seed=i), "image/class/label": i % 2, "image/format": "jpg"} for i in range(2)]
    shard(root / "flowers_train_00000-of-00005.tfrecord", found)


MINIATURES = {
    "cifar10": cifar10,
    "cifar100": cifar100,
    "mnist": mnist,
    "cityscapes": cityscapes_,
    "ade20k": ade20k,
    "camvid": camvid,
    "voc": voc_,
    "coco": coco,
    "yolo": yolo,
    "csv": csv_labels,
    "tfds": tfds,
    "tfds_boxes": tfds_boxes,
    "tfds_masks": tfds_masks,
    "object_detection": object_detection,
    "slim": slim,
    "masks": masks,
    "folders": folders,
}
assert len(voc.CLASSES) == 20
