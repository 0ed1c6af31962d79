"""One hard truth, as each format writes it: classes whose ids and names sort otherwise than they are numbered, names of
files that are easily confused, photographs of every Exif orientation, boxes at the edges, and images without objects.
"""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import torch
from PIL import Image
from timm.data import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from torch import nn

from penstock.records.example import encode
from penstock.records.framing import frame
from support.images import exif, jpeg
from support.miniatures import write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLASSES = (
    "zebra", "apple", "class 2", "class 10", "class 1", "Crème", "traffic light", "person", "Person 2", "bus # 9", "10",
    "9", "sign-30",
)  # fmt: skip
STORED = (64, 96)
_STORING = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}  # fmt: skip
"""How an upright image is stored for each orientation but the first (Exif 2.3, 4.6.4)."""


class Photo(NamedTuple):
    """An image: its name, its orientation, and its objects as (class, left, top, right, bottom) in pixels, upright."""

    split: str
    name: str
    orientation: int
    objects: tuple[tuple[str, int, int, int, int], ...]

    @property
    def size(self):
        """Upright height and width."""
        return STORED if self.orientation < 5 else STORED[::-1]

    @property
    def file(self):
        return f"{self.name}.jpg"


def _photo(split, name, orientation, labels):
    height, width = STORED if orientation < 5 else STORED[::-1]
    boxes = [(0, 0, 20, 18), (width - 24, height - 22, width, height), (24, 22, 38 + orientation, 40)]
    return Photo(split, name, orientation, tuple((CLASSES[n], *box) for n, box in zip(labels, boxes, strict=False)))


_NAMES = ("a b", "c#1", "é", "IMG.1", "05", "5", "x(1)", "a")
PHOTOS = (
    *(_photo("train", name, n + 1, [(3 * n + k) % 13 for k in range(3)]) for n, name in enumerate(_NAMES)),
    _photo("val", "b", 6, (12, 3, 1)),
    _photo("val", "a b 2", 1, (9, 10)),
    _photo("val", "nothing", 3, ()),
)


def color_of(name):
    """The colour of what is of a class: JPEG keeps it to a few values."""
    n = CLASSES.index(name)
    return 250 - 80 * (n % 3), 40 + 50 * (n // 3), 30 + 70 * (n % 4)


def pixels_of(photo):
    """The upright image: gray, with its objects in their colours."""
    pixels = np.full((*photo.size, 3), 128, np.uint8)
    for name, left, top, right, bottom in photo.objects:
        pixels[top:bottom, left:right] = color_of(name)
    return pixels


def write_images(root, place, photos=None):
    """The files, whose names have their accents apart, as macOS writes them."""
    for photo in photos or PHOTOS:
        path = unicodedata.normalize("NFD", place.format(split=photo.split, file=photo.file))
        upright = Image.fromarray(pixels_of(photo))
        turned = _STORING.get(photo.orientation)
        stored = np.asarray(upright.transpose(turned) if turned is not None else upright)
        write(root / path, jpeg(stored, exif=exif(photo.orientation), subsampling=0))


def composed(name):
    """A name with its accents in their letters."""
    return unicodedata.normalize("NFC", name)


def photos_of(split):
    return [photo for photo in PHOTOS if photo.split == split]


def corners(box):
    left, top, right, bottom = box
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def coco(root):
    write_images(root, "{split}/{file}")
    ids = dict(zip(CLASSES, [17, 3, 90, 8, 1, 44, 2, 71, 5, 60, 33, 9, 12], strict=True))
    for split in ("train", "val"):
        images, annotations = [], []
        for number, photo in enumerate(photos_of(split)):
            height, width = photo.size
            images.append({"id": 100 - number, "file_name": photo.file, "height": height, "width": width})
            for name, left, top, right, bottom in photo.objects:
                box = {"bbox": [left, top, right - left, bottom - top], "area": (right - left) * (bottom - top)}
                outline = [[n for point in corners((left, top, right, bottom)) for n in point]]
                annotations.append({"id": len(annotations), "image_id": 100 - number, "category_id": ids[name], "iscrowd": 0, "segmentation": outline, **box})  # fmt: skip
        known = [name for name in sorted(CLASSES) if split == "train" or name != "zebra"]  # which is absent from val
        categories = [{"id": ids[name], "name": name} for name in known]
        write(root / f"annotations/instances_{split}.json", json.dumps({"images": images, "annotations": annotations, "categories": categories}))  # fmt: skip


def yolo(root, *, outlines=False):
    write_images(root, "images/{split}/{file}")
    write(root / "data.yaml", json.dumps({"names": dict(enumerate(CLASSES))}, ensure_ascii=False))
    for photo in PHOTOS:
        height, width = photo.size
        lines = []
        for name, left, top, right, bottom in photo.objects:
            middle = (
                (left + right) / 2 / width,
                (top + bottom) / 2 / height,
                (right - left) / width,
                (bottom - top) / height,
            )
            outline = [n for x, y in corners((left, top, right, bottom)) for n in (x / width, y / height)]
            lines.append(" ".join(map(str, [CLASSES.index(name), *(outline if outlines else middle)])))
        write(root / f"labels/{photo.split}/{photo.name}.txt", "\n".join(lines))


def yolo_outlines(root):
    yolo(root, outlines=True)


def _voc(photo):
    height, width = photo.size
    objects = "".join(
        f"<object><name>{escape(name)}</name><difficult>0</difficult><bndbox><xmin>{left + 1}</xmin><ymin>{top + 1}</ymin>"
        f"<xmax>{right}</xmax><ymax>{bottom}</ymax></bndbox></object>"
        for name, left, top, right, bottom in photo.objects
    )
    size = f"<size><width>{width}</width><height>{height}</height><depth>3</depth></size>"
    return f"<annotation><filename>{escape(photo.file)}</filename>{size}{objects}</annotation>"


def voc(root):
    write_images(root, "JPEGImages/{file}")
    for photo in PHOTOS:
        write(root / f"Annotations/{photo.name}.xml", _voc(photo))
    for split in ("train", "val"):
        write(root / f"ImageSets/Main/{split}.txt", "".join(f"{photo.name}\n" for photo in photos_of(split)))


def labelimg(root):
    write_images(root, "{split}/{file}")
    for photo in PHOTOS:
        write(root / f"{photo.split}/{photo.name}.xml", _voc(photo))


def table(root):
    write_images(root, "images/{split}/{file}")
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["file", "split", "label", "xmin", "ymin", "xmax", "ymax"])
    for photo in PHOTOS:
        for name, *box in photo.objects or [("", "", "", "", "")]:
            rows.writerow([f"images/{photo.split}/{photo.file}", photo.split, name, *box])
    write(root / "boxes.csv", text.getvalue())


def labelme(root):
    write_images(root, "{split}/{file}")
    for photo in PHOTOS:
        shapes = [
            {"label": name, "points": corners(box), "shape_type": "polygon", "flags": {}}
            for name, *box in photo.objects
        ]
        size = {"imageHeight": photo.size[0], "imageWidth": photo.size[1]}
        tree = {"version": "5.5.0", "flags": {}, "shapes": shapes, "imagePath": photo.file, "imageData": None, **size}
        write(root / f"{photo.split}/{photo.name}.json", json.dumps(tree))


def via(root):
    write_images(root, "{split}/{file}")
    for split in ("train", "val"):
        entries = {}
        for photo in photos_of(split):
            regions = [
                {
                    "shape_attributes": {
                        "name": "polygon",
                        "all_points_x": [x for x, _ in corners(box)],
                        "all_points_y": [y for _, y in corners(box)],
                    },
                    "region_attributes": {"type": name},
                }
                for name, *box in photo.objects
            ]
            entries[f"{photo.file}99"] = {"filename": photo.file, "size": 99, "regions": regions, "file_attributes": {}}
        write(root / f"{split}/via_region_data.json", json.dumps(entries))


def supervisely(root):
    write_images(root, "{split}/img/{file}")
    write(root / "meta.json", json.dumps({"classes": [{"title": name} for name in CLASSES], "tags": []}))
    for photo in PHOTOS:
        objects = [
            {"classTitle": name, "geometryType": "polygon", "points": {"exterior": corners(box), "interior": []}}
            for name, *box in photo.objects
        ]
        tree = {"size": {"height": photo.size[0], "width": photo.size[1]}, "objects": objects, "tags": []}
        write(root / f"{photo.split}/ann/{photo.file}.json", json.dumps(tree))


def cvat(root):
    write_images(root, "images/{split}/{file}")
    parts = []
    for number, photo in enumerate(PHOTOS):
        shapes = "".join(
            f'<polygon label={quoteattr(name)} points="{";".join(f"{x},{y}" for x, y in corners(box))}" z_order="0"/>'
            for name, *box in photo.objects
        )
        size = f'width="{photo.size[1]}" height="{photo.size[0]}"'
        parts.append(f"<image id='{number}' name={quoteattr(f'{photo.split}/{photo.file}')} {size}>{shapes}</image>")
    labels = "".join(f"<label><name>{escape(name)}</name></label>" for name in CLASSES)
    meta = f"<meta><task><labels>{labels}</labels></task></meta>"
    write(root / "annotations.xml", f"<annotations><version>1.1</version>{meta}{''.join(parts)}</annotations>")


def label_studio(root):
    write_images(root, "{split}/{file}")
    tasks = []
    for number, photo in enumerate(PHOTOS):
        height, width = photo.size
        result = [
            {
                "type": "polygonlabels",
                "original_width": width,
                "original_height": height,
                "value": {
                    "points": [(x / width * 100, y / height * 100) for x, y in corners(box)],
                    "polygonlabels": [name],
                },
            }
            for name, *box in photo.objects
        ]
        image = f"/data/local-files/?d={quote(f'{photo.split}/{photo.file}')}"
        tasks.append({"id": number, "data": {"image": image}, "annotations": [{"id": 1, "result": result}]})
    write(root / "project-1.json", json.dumps(tasks))


def createml(root):
    write_images(root, "{split}/{file}")
    for split in ("train", "val"):
        entries = []
        for photo in photos_of(split):
            found = [
                {"label": name, "coordinates": {"x": (a + c) / 2, "y": (b + d) / 2, "width": c - a, "height": d - b}}
                for name, a, b, c, d in photo.objects
            ]
            entries.append({"image": photo.file, "annotations": found})
        write(root / f"{split}/_annotations.createml.json", json.dumps(entries))


def _corner_and_size(photo, box):
    height, width = photo.size
    left, top, right, bottom = box
    return left / width, top / height, (right - left) / width, (bottom - top) / height


def fiftyone(root):
    write_images(root, "{split}/data/{file}")
    for split in ("train", "val"):
        labels = {
            photo.name: [
                {"label": CLASSES.index(name), "bounding_box": _corner_and_size(photo, box)}
                for name, *box in photo.objects
            ]
            for photo in photos_of(split)
        }
        write(root / f"{split}/labels.json", json.dumps({"classes": CLASSES, "labels": labels}))


def hugging_face(root):
    write_images(root, "{split}/{file}")
    for split in ("train", "val"):
        lines = []
        for photo in photos_of(split):
            boxes = [(a, b, c - a, d - b) for _, a, b, c, d in photo.objects]
            names = [name for name, *_ in photo.objects]
            objects = {"bbox": boxes, "categories": names}
            if split == "val":  # the other form, of an entry for each object
                objects = [{"bbox": box, "category": name} for box, name in zip(boxes, names, strict=True)]
            lines.append(json.dumps({"file_name": photo.file, "objects": objects}))
        write(root / f"{split}/metadata.jsonl", "\n".join(lines))


def open_images(root):
    write_images(root, "{split}/{file}")
    codes = {name: f"/m/{n * 7 % 13:02d}x" for n, name in enumerate(CLASSES)}
    write(root / "class-descriptions-boxable.csv", "".join(f"{code},{name}\n" for name, code in codes.items()))
    for split in ("train", "val"):
        lines = ["ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction"]
        for photo in photos_of(split):
            for name, *box in photo.objects:
                x, y, width, height = _corner_and_size(photo, box)
                lines.append(f"{photo.name},xclick,{codes[name]},1,{x},{x + width},{y},{y + height},0,0,0,0")
        write(root / f"{'validation' if split == 'val' else split}-annotations-bbox.csv", "\n".join(lines))


def object_detection(root):
    """TFRecords of the Object Detection API, which holds the bytes of the files."""
    write_images(root / "files", "{split}/{file}")
    ids = {name: 1 + 5 * n % 13 for n, name in enumerate(CLASSES)}
    items = "".join(
        f"item {{\n  id: {ids[name]}\n  name: {json.dumps(name, ensure_ascii=False)}\n}}\n" for name in CLASSES
    )
    write(root / "raw/label_map.pbtxt", items)
    for split in ("train", "val"):
        records = []
        for photo in photos_of(split):
            path = root / "files" / split / unicodedata.normalize("NFD", photo.file)
            fields = {"image/encoded": path.read_bytes(), "image/filename": photo.file}
            edges = [_corner_and_size(photo, box) for _, *box in photo.objects]
            for key, values in {
                "xmin": [x for x, *_ in edges], "xmax": [x + w for x, _, w, _ in edges],
                "ymin": [y for _, y, *_ in edges], "ymax": [y + h for _, y, _, h in edges],
            }.items():  # fmt: skip
                fields[f"image/object/bbox/{key}"] = values
            fields["image/object/class/label"] = [ids[name] for name, *_ in photo.objects]
            fields["image/object/class/text"] = [name.encode() for name, *_ in photo.objects]
            records.append(frame(encode({key: value for key, value in fields.items() if value != []})))
        write(root / f"raw/{split}.record", b"".join(records))


BOXES: dict[str, Callable[[Path], None]] = {
    "COCO": coco, "YOLO": yolo, "YOLO outlines": yolo_outlines, "Pascal VOC": voc, "LabelImg": labelimg, "CSV": table,
    "LabelMe": labelme, "VGG Image Annotator": via, "Supervisely": supervisely, "CVAT": cvat,
    "Label Studio": label_studio, "Create ML": createml, "FiftyOne": fiftyone, "Hugging Face": hugging_face,
    "Open Images": open_images, "Object Detection API": object_detection,
}  # fmt: skip
OUTLINES = ("COCO", "YOLO outlines", "LabelMe", "VGG Image Annotator", "Supervisely", "CVAT", "Label Studio")


def class_of(photo):
    """The class of a whole photograph: that of its first object, else the last one."""
    return photo.objects[0][0] if photo.objects else CLASSES[-1]


def class_folders(root):
    for photo in PHOTOS:
        write_images(root, f"{{split}}/{class_of(photo)}/{{file}}", [photo])


def _rows(label):
    return [(f"images/{photo.split}/{photo.file}", photo.split, label(photo)) for photo in PHOTOS]


def class_table(root, label=class_of):
    write_images(root, "images/{split}/{file}")
    text = io.StringIO()
    csv.writer(text).writerows([("file", "split", "label"), *_rows(label)])
    write(root / "labels.csv", text.getvalue())


def one_hot(root):
    write_images(root, "images/{split}/{file}")
    text = io.StringIO()
    rows = [(file, split, *(int(name == label) for name in CLASSES)) for file, split, label in _rows(class_of)]
    csv.writer(text).writerows([("file", "split", *CLASSES), *rows])
    write(root / "labels.csv", text.getvalue())


def label_lists(root):
    write_images(root, "images/{split}/{file}")
    write(root / "classes.txt", "\n".join(CLASSES))
    for split in ("train", "val"):
        lines = [f"images/{split}/{photo.file} {CLASSES.index(class_of(photo))}\n" for photo in photos_of(split)]
        write(root / f"{split}.txt", "".join(lines))


def coco_classes(root):
    write_images(root, "{split}/{file}")
    ids = {name: 1 + 5 * n % 13 for n, name in enumerate(CLASSES)}
    for split in ("train", "val"):
        found = photos_of(split)
        tree = {
            "images": [{"id": n, "file_name": photo.file} for n, photo in enumerate(found)],
            "annotations": [
                {"id": n, "image_id": n, "category_id": ids[class_of(photo)]} for n, photo in enumerate(found)
            ],
            "categories": [{"id": ids[name], "name": name} for name in CLASSES],
        }
        write(root / f"annotations/labels_{split}.json", json.dumps(tree))


def hugging_face_labels(root):
    write_images(root, "{split}/{file}")
    for split in ("train", "val"):
        lines = [json.dumps({"file_name": photo.file, "label": class_of(photo)}) for photo in photos_of(split)]
        write(root / f"{split}/metadata.jsonl", "\n".join(lines))


def fiftyone_classes(root):
    write_images(root, "{split}/data/{file}")
    for split in ("train", "val"):
        labels = {photo.name: CLASSES.index(class_of(photo)) for photo in photos_of(split)}
        write(root / f"{split}/labels.json", json.dumps({"classes": CLASSES, "labels": labels}))


CLASSIFIED: dict[str, Callable[[Path], None]] = {
    "folders": class_folders, "CSV": class_table, "one-hot CSV": one_hot, "lists": label_lists,
    "COCO": coco_classes, "Hugging Face": hugging_face_labels, "FiftyOne": fiftyone_classes,
}  # fmt: skip


class Colors(nn.Module):
    """A network that knows the colours of the classes: its logits are highest for the nearest one, gray is background.

    Its parameter is nothing but something to train.
    """

    def __init__(self, classes):
        super().__init__()
        colors = [(128, 128, 128), *map(color_of, CLASSES)]
        assert len(colors) == classes
        self.register_buffer("colors", torch.tensor(colors, dtype=torch.float32))
        self.scale = nn.Parameter(torch.tensor(1e-2))

    def forward(self, images):
        """Images normalised with ImageNet's statistics, (n, 3, h, w), give logits (n, classes, h, w)."""
        mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD))
        pixels = (images * std + mean) * 255
        return -self.scale * ((pixels[:, None] - self.colors[None, :, :, None, None]) ** 2).sum(dim=2)
