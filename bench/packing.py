"""Images packed a second: photographs of 1024 x 1024 with eight outlines each, in COCO's JSON, inspected and packed.

python bench/packing.py [IMAGES]     images of noise, in a temporary folder; 200 by default

Beside it, what cannot be saved: reading each file and decoding it once, on as many threads.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import common
import cv2
import numpy as np
import simplejpeg

from penstock.datasets import LayoutOptions, inspect, pack

SIDE, OBJECTS, POINTS, CLASSES = 1024, 8, 40, 10
TASKS = ("detection", "segmentation", "instances")
REPEATS = common.sized(3, 1)


def make(folder: Path, images: int) -> list[Path]:
    """The images and their outlines."""
    draw = np.random.default_rng(0)
    tree: dict[str, list] = {"images": [], "annotations": []}
    tree["categories"] = [{"id": n, "name": f"class {n}"} for n in range(1, CLASSES + 1)]
    for number in range(images):
        small = draw.integers(0, 256, (48, 48, 3), np.uint8)
        name = f"{number:05d}.jpg"
        pixels = cv2.resize(small, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(folder / name), pixels, [cv2.IMWRITE_JPEG_QUALITY, 90])
        tree["images"].append({"id": number, "file_name": name, "height": SIDE, "width": SIDE})
        tree["annotations"] += [annotation(draw, number, 8 * number + each) for each in range(OBJECTS)]
    (folder / "_annotations.coco.json").write_text(json.dumps(tree))
    return sorted(folder.glob("*.jpg"))


def annotation(draw: np.random.Generator, image: int, number: int) -> dict[str, object]:
    """An object with an outline like a star's."""
    middle, angles = draw.uniform(150, SIDE - 150, 2), np.sort(draw.uniform(0, 2 * np.pi, POINTS))
    radii = draw.uniform(60, 140, POINTS)[:, None]
    points = (middle + radii * np.stack([np.cos(angles), np.sin(angles)], axis=1)).round(2)
    (left, top), (right, bottom) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
    box = {"bbox": [left, top, right - left, bottom - top], "area": (right - left) * (bottom - top)}
    label = int(draw.integers(1, CLASSES + 1))
    outline = [points.ravel().tolist()]
    return {"id": number, "image_id": image, "category_id": label, "iscrowd": 0, "segmentation": outline, **box}


def decoded(path: Path) -> None:
    simplejpeg.decode_jpeg(path.read_bytes())


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else common.sized(200, 3)
    rows: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        (raw := Path(folder, "raw", "train")).mkdir(parents=True)
        paths = make(raw, count)
        for repeat in range(REPEATS):
            for task in TASKS:
                shutil.rmtree(f"{folder}/state", ignore_errors=True)  # what was found of the files before
                began = time.perf_counter()
                pack(inspect(raw.parent, how=LayoutOptions(task=task)), Path(folder, f"{task}-{repeat}"))
                rows.setdefault(task, []).append(count / (time.perf_counter() - began))
            began = time.perf_counter()
            with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
                list(pool.map(decoded, paths))
            rows.setdefault("decoding alone", []).append(count / (time.perf_counter() - began))
    content = {name: common.summary(found) for name, found in rows.items()}
    versions = common.versions("penstock", "simplejpeg", "numpy")
    common.write("packing", "python bench/packing.py", {"versions": versions, "images": count, "rows": content})


if __name__ == "__main__":
    main()
