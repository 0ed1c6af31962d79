"""One annotated scene, as every annotation tool writes it."""

from __future__ import annotations

import base64
import io
import json
import zlib

import numpy as np
from PIL import Image

from support.miniatures import gray, make_image, write

SIZE = (24, 32)
DOG = [(3, 4), (12, 4), (12, 14), (3, 14)]
CAT = [(15, 2), (29, 2), (15, 20)]
SHAPES = (("dog", DOG), ("cat", CAT))
NAMES = {"train": ("a", "b"), "val": ("c",)}
HEIGHT, WIDTH = SIZE


def box_of(points):
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def box_of_bits(bits):
    """The box around pixels, which reaches to the far edges of the last ones."""
    rows, columns = np.nonzero(bits)
    return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1


def bits_of(points):
    """The pixels whose centres lie inside a convex outline, by which side of its edges they lie on."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH] + 0.5
    sides = [
        (x1 - x0) * (y - y0) - (y1 - y0) * (x - x0)
        for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1], strict=True)
    ]
    return np.all([side > 0 for side in sides], axis=0)


def images(root, place, *, names=None):
    """Images of the three names; `place` may name {split} and {name}."""
    for split, own in (names or NAMES).items():
        for name in own:
            write(root / place.format(split=split, name=name), make_image(SIZE, ord(name)))


def every():
    return [(split, name) for split, names in NAMES.items() for name in names]


def labelme(root, *, rectangles=False):
    images(root, "{split}/{name}.jpg")
    for split, name in every():
        shapes = [{"label": "dog", "points": [(12, 14), (3, 4)], "shape_type": "rectangle"}] if rectangles else []
        shapes += [
            {"label": label, "points": points, "shape_type": "polygon", "group_id": None, "flags": {}}
            for label, points in SHAPES
            if not rectangles
        ]
        tree = {"version": "5.5.0", "flags": {}, "shapes": shapes, "imagePath": f"{name}.jpg", "imageData": None}
        write(root / f"{split}/{name}.json", json.dumps({**tree, "imageHeight": HEIGHT, "imageWidth": WIDTH}))


def via(root):
    images(root, "{split}/{name}.jpg")
    for split, names in NAMES.items():
        entries = {
            f"{name}.jpg1234": {
                "filename": f"{name}.jpg",
                "size": 1234,
                "regions": [
                    {
                        "shape_attributes": {
                            "name": "polygon",
                            "all_points_x": [x for x, _ in points],
                            "all_points_y": [y for _, y in points],
                        },
                        "region_attributes": {"type": label},
                    }
                    for label, points in SHAPES
                ],
                "file_attributes": {},
            }
            for name in names
        }
        write(root / f"{split}/via_region_data.json", json.dumps(entries))


def supervisely(root):
    images(root, "{split}/img/{name}.jpg")
    write(root / "meta.json", json.dumps({"classes": [{"title": "cat"}, {"title": "dog"}], "tags": []}))
    for split, name in every():
        png = io.BytesIO()
        Image.fromarray(bits_of(CAT)[2:20, 15:29]).save(png, "PNG")
        bitmap = base64.b64encode(zlib.compress(png.getvalue())).decode()
        objects = [
            {"classTitle": "dog", "geometryType": "polygon", "points": {"exterior": DOG, "interior": []}},
            {"classTitle": "cat", "geometryType": "bitmap", "bitmap": {"data": bitmap, "origin": [15, 2]}},
        ]
        tree = {"size": {"height": HEIGHT, "width": WIDTH}, "objects": objects, "tags": []}
        write(root / f"{split}/ann/{name}.jpg.json", json.dumps(tree))


def cvat(root):
    images(root, "images/{split}/{name}.jpg")
    parts = []
    for number, (split, name) in enumerate(every()):
        shapes = "".join(
            f'<polygon label="{label}" points="{";".join(f"{x:.2f},{y:.2f}" for x, y in points)}" z_order="0"/>'
            for label, points in SHAPES
        )
        size = f'width="{WIDTH}" height="{HEIGHT}"'
        parts.append(f'<image id="{number}" name="{split}/{name}.jpg" {size}>{shapes}</image>')
    labels = "".join(f"<label><name>{name}</name></label>" for name in ("cat", "dog"))
    meta = f"<meta><task><labels>{labels}</labels></task></meta>"
    write(root / "annotations.xml", f"<annotations><version>1.1</version>{meta}{''.join(parts)}</annotations>")


def label_studio(root):
    images(root, "{split}/{name}.jpg")
    tasks = []
    for number, (split, name) in enumerate(every()):
        result = [
            {
                "type": "polygonlabels",
                "original_width": WIDTH,
                "original_height": HEIGHT,
                "value": {"points": [(x / WIDTH * 100, y / HEIGHT * 100) for x, y in points], "polygonlabels": [label]},
            }
            for label, points in SHAPES
        ]
        image = f"/data/upload/1/0123abcd-{name}.jpg" if split == "val" else f"/data/local-files/?d={split}/{name}.jpg"
        cancelled = {"was_cancelled": True, "result": []}
        tasks.append({"id": number, "data": {"image": image}, "annotations": [{"id": 1, "result": result}, cancelled]})
    write(root / "project-1.json", json.dumps(tasks))


def yolo_outlines(root):
    images(root, "images/{split}/{name}.jpg")
    write(root / "data.yaml", "names: [cat, dog]\n")
    for split, name in every():
        lines = [
            " ".join(map(str, [("cat", "dog").index(label), *(n for x, y in points for n in (x / WIDTH, y / HEIGHT))]))
            for label, points in SHAPES
        ]
        write(root / f"labels/{split}/{name}.txt", "\n".join(lines))


def createml(root):
    images(root, "{split}/{name}.jpg")
    for split, names in NAMES.items():
        entries = [{"image": f"{name}.jpg", "annotations": [_middle(*shape) for shape in SHAPES]} for name in names]
        write(root / f"{split}/_annotations.createml.json", json.dumps(entries))


def _middle(label, points):
    left, top, right, bottom = box_of(points)
    place = {"x": (left + right) / 2, "y": (top + bottom) / 2, "width": right - left, "height": bottom - top}
    return {"label": label, "coordinates": place}


def _fractions(points):
    left, top, right, bottom = box_of(points)
    return left / WIDTH, top / HEIGHT, (right - left) / WIDTH, (bottom - top) / HEIGHT


def fiftyone(root):
    images(root, "{split}/data/{name}.jpg")
    for split, names in NAMES.items():
        found = [{"label": ("cat", "dog").index(label), "bounding_box": _fractions(points)} for label, points in SHAPES]
        tree = {"classes": ["cat", "dog"], "labels": dict.fromkeys(names, found)}
        write(root / f"{split}/labels.json", json.dumps(tree))


def pack_runs(values):
    """Bytes as Label Studio packs them: every value by itself, or repeated, in runs of up to 256."""
    bits = [f"{len(values):032b}", f"{7:05b}", *[f"{size - 1:04b}" for size in (2, 4, 8, 8)]]
    at = 0
    while at < len(values):
        stop = at
        while stop < min(len(values), at + 256) and values[stop] == values[at]:
            stop += 1
        if stop - at > 2:
            bits += ["1", "10", f"{stop - at - 1:08b}", f"{values[at]:08b}"]
        else:
            stop = min(len(values), at + 4)
            bits += ["0", "00", f"{stop - at - 1:02b}", *[f"{value:08b}" for value in values[at:stop]]]
        at = stop
    text = "".join(bits)
    text += "0" * (-len(text) % 8)
    return [int(text[first : first + 8], 2) for first in range(0, len(text), 8)]


def brushes(root):
    """Label Studio, painted with a brush."""
    images(root, "{split}/{name}.jpg")
    tasks = []
    for number, (split, name) in enumerate(every()):
        result = []
        for label, points in SHAPES:
            values = np.zeros((HEIGHT, WIDTH, 4), np.uint8)
            values[..., 3] = 255 * bits_of(points)
            value = {"format": "rle", "rle": pack_runs(values.ravel().tolist()), "brushlabels": [label]}
            size = {"original_width": WIDTH, "original_height": HEIGHT}
            result.append({"type": "brushlabels", **size, "value": value})
        image = f"/data/local-files/?d={split}/{name}.jpg"
        tasks.append({"id": number, "data": {"image": image}, "annotations": [{"id": 1, "result": result}]})
    write(root / "project-1.json", json.dumps(tasks))


def _packed(array):
    done = io.BytesIO()
    np.save(done, array)
    return {"$binary": {"base64": base64.b64encode(zlib.compress(done.getvalue())).decode(), "subType": "00"}}


def fiftyone_samples(root, *, objects=True):
    """FiftyOne's own format: masks of objects, or of whole images in the JSON or in files."""
    images(root, "data/{name}.jpg")
    samples = []
    for number, (_, name) in enumerate(every()):
        found = []
        for label, points in SHAPES:
            x1, y1, x2, y2 = (round(edge) for edge in box_of(points))
            part = bits_of(points)[y1:y2, x1:x2]
            box = [x1 / WIDTH, y1 / HEIGHT, (x2 - x1) / WIDTH, (y2 - y1) / HEIGHT]
            found.append({"label": label, "bounding_box": box, "mask": _packed(part)})
        ids = np.zeros((HEIGHT, WIDTH), np.uint8)
        for value, (_, points) in enumerate(SHAPES, 1):
            ids[bits_of(points)] = value
        mask = {"mask": _packed(ids)}
        if number % 2:
            write(root / f"fields/ground_truth/{name}.png", gray(ids))
            mask = {"mask_path": f"fields/ground_truth/{name}.png"}
        truth = {"detections": found} if objects else mask
        samples.append({"filepath": f"data/{name}.jpg", "ground_truth": truth})
    write(root / "samples.json", json.dumps({"samples": samples}))


def hugging_face(root):
    images(root, "{split}/{name}.jpg")
    for split, names in NAMES.items():
        boxes = [(a, b, c - a, d - b) for a, b, c, d in (box_of(points) for _, points in SHAPES)]
        objects = {"bbox": boxes, "categories": [label for label, _ in SHAPES]}
        lines = [json.dumps({"file_name": f"{name}.jpg", "objects": objects}) for name in names]
        write(root / f"{split}/metadata.jsonl", "\n".join(lines))


def open_images(root):
    codes = {"cat": "/m/01yrx", "dog": "/m/0bt9lr"}
    images(root, "{split}/{name}.jpg")
    write(root / "class-descriptions-boxable.csv", "".join(f"{code},{name}\n" for name, code in codes.items()))
    for split, names in NAMES.items():
        lines = ["ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction"]
        for name in names:
            for label, points in SHAPES:
                x, y, width, height = _fractions(points)
                lines.append(f"{name},xclick,{codes[label]},1,{x},{x + width},{y},{y + height},0,0,0,0")
        table = {"train": "oidv6-train-annotations-bbox.csv", "val": "validation-annotations-bbox.csv"}[split]
        write(root / table, "\n".join(lines))


OUTLINES = {
    "LabelMe": labelme,
    "VGG Image Annotator": via,
    "Supervisely": supervisely,
    "CVAT": cvat,
    "Label Studio": label_studio,
    "YOLO outlines": yolo_outlines,
}
BOXES = {
    "Create ML": createml,
    "FiftyOne": fiftyone,
    "Hugging Face imagefolder": hugging_face,
    "Open Images": open_images,
}
