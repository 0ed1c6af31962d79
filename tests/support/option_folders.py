"""Folders of raw data, each of a kind that an option of inspect and pack is for."""

from __future__ import annotations

import io

import cv2
import numpy as np
from PIL import Image

from support import miniatures, raw_folders
from support.miniatures import gray, make_image, write


def fill(root):
    """Make all of them, with a legend, a recipe and a loss beside them; their places by name."""
    ids = np.zeros((24, 32), np.uint8)
    ids[:9] = 1
    corner = np.zeros_like(ids)
    corner[:3, :3] = 1
    makers = {
        "masks": miniatures.masks,
        "odd": lambda at: _pairs(at, "shots/train/{}.jpg", "truth/train/{}.png", gray(ids)),
        "palettes": lambda at: _pairs(at, "images/train/{}.jpg", "masks/train/{}.png", _with_palette(ids)),
        "raters": lambda at: [
            _pairs(at, "images/{}.jpg", f"masks/{{}}_{rater}.png", gray(mask * 255))
            for rater, mask in (("rater1", ids), ("rater2", corner), ("rater3", np.flipud(ids)))
        ],
        "clips": lambda at: _pairs(at, "images/p{0}_{0}.jpg", "masks/p{0}_{0}.png", gray(ids), range(9)),
        "drawn": lambda at: _pairs(at, "images/train/{}.jpg", "masks/train/{}.png", gray(ids * 251 + 2)),
        "colored": lambda at: _pairs(at, "images/train/{}.jpg", "masks/train/{}.png", _in_colours(ids)),
        "views": _views,
        "objects": miniatures.coco,
        "named": lambda at: [write(at / f"{name}_{n}.jpg", make_image(seed=n + 5 * len(name.strip("dog")))) for n in range(2) for name in ("cat", "dog")],
        "boxes": lambda at: miniatures.csv_boxes(at, "bbox", "2,3,9,9"),
        "outside": _outside,
        "resized": _resized,
        "evaluated": lambda at: _pairs(at, "images/val/{}.jpg", "masks/val/{}.png", gray(ids)),
        "floats": _floats,
        "fields": raw_folders.own_fields,
        "cut": _cut,
    }  # fmt: skip
    for name, make in makers.items():
        make(root / name)
    write(root / "legend.csv", "name,r,g,b\nground,0,0,0\ntop,250,10,10\n")
    write(root / "small.toml", "augment.crop = [16, 16]\n")
    write(root / "losses.py", "def mine(logits, target, ignore):\n    return logits.sum()\n")
    return {name: root / name for name in makers}


def _pairs(root, image, mask, data, numbers=range(3)):
    for number in numbers:
        write(root / image.format(number), make_image(seed=number))
        write(root / mask.format(number), data)


def _with_palette(ids):
    """A mask of three colours, of which two look the same."""
    image = Image.fromarray(ids)
    image.putpalette([9, 9, 9, 9, 9, 9, 200, 0, 0])
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def _in_colours(ids):
    return cv2.imencode(".png", np.array([[0, 0, 0], [10, 10, 250]], np.uint8)[ids])[1].tobytes()


def _views(root):
    """Two classes in folders that look like images and their masks."""
    for number, name in enumerate(("images", "masks")):
        for count in range(2):
            pixels = np.full((20, 20, 3), 10 + 60 * number + count, np.uint8)
            write(root / name / f"{count}.png", cv2.imencode(".png", pixels)[1].tobytes())


def _outside(root):
    miniatures.yolo(root)
    write(root / "labels/train/a.txt", "1 0.5 0.5 1.5 0.5\n")


def _resized(root):
    """Boxes whose file states another size than the image has."""
    for number in range(2):
        write(root / f"JPEGImages/{number}.jpg", make_image(seed=number))
        write(root / f"Annotations/{number}.xml", miniatures.voc_xml(str(number), [("cat", 2, 3, 12, 20)], (48, 64)))


def _floats(root):
    for split in ("train", "val"):
        for number in range(4):
            values = np.linspace(number / 9 + len(split) / 99, 3.7, 24 * 32, dtype=np.float32).reshape(24, 32)
            write(root / split / ("low", "high")[number % 2] / f"{number}.tif", raw_folders.tiff(values))


def _cut(root):
    miniatures.masks(root)
    write(root / "images/train/b.jpg", make_image(seed=9)[:300])
    write(root / "masks/train/b.png", gray(np.zeros((24, 32), np.uint8)))
