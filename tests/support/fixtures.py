"""Datasets, runs and servers that tests of several folders share."""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import tarfile
import threading

import cv2
import numpy as np
import pytest

from penstock.datasets import LayoutOptions, inspect, pack
from penstock.datasets.download import Archive
from penstock.training import train
from support import miniatures
from support.datasets import disk
from support.miniatures import gray, write
from support.shaking import Shakes
from support.shelf import Shelf
from support.training import recipe


@pytest.fixture(scope="module")
def trained(packed, tmp_path_factory):
    folder, _ = train(recipe(packed.folder, wide=True, steps=4), tmp_path_factory.mktemp("runs"))
    return folder.path


@pytest.fixture(scope="module")
def shaken_run(packed, tmp_path_factory):
    """Of two steps, both evaluated and kept."""
    chosen = recipe(packed.folder, wide=True, steps=2, keep=9, save_every=1, evaluate_every=1, ema_decay=0.0)
    return train(chosen, tmp_path_factory.mktemp("runs"), hooks=[Shakes()])[0].path


@pytest.fixture
def shelf(tmp_path):
    """An archive of a miniature of CIFAR-10 on a server of our own."""
    miniatures.cifar10(tmp_path / "made" / "cifar-10-batches-bin")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.add(tmp_path / "made" / "cifar-10-batches-bin", "cifar-10-batches-bin")
    Shelf.data, Shelf.cut, Shelf.ranges, Shelf.asked = buffer.getvalue(), None, True, []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shelf)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/mini.tar.gz"
    yield Archive(url, hashlib.md5(Shelf.data, usedforsecurity=False).hexdigest(), "cifar-10-batches-bin")
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def colors(tmp_path_factory):
    """Three classes of plain colours with noise: 24 training images, 9 to validate, 40 x 36."""
    root = tmp_path_factory.mktemp("colors")
    noise = np.random.default_rng(0)
    for split, count in (("train", 8), ("val", 3)):
        for name, color in (("red", (200, 30, 30)), ("green", (30, 200, 30)), ("blue", (30, 30, 200))):
            for number in range(count):
                pixels = np.clip(noise.normal(color, 25, (40, 36, 3)), 0, 255).astype(np.uint8)
                miniatures.write(
                    root / "raw" / split / name / f"{number}.png", cv2.imencode(".png", pixels[..., ::-1])[1].tobytes()
                )
    return pack(inspect(root / "raw"), root / "data")


@pytest.fixture(scope="module")
def squares(tmp_path_factory):
    """Red and blue rectangles on gray: 12 training images, 6 to validate, of several sizes, as a table of boxes."""
    root = tmp_path_factory.mktemp("squares") / "raw"
    draw, rows = np.random.default_rng(0), ["file,class,split,xmin,ymin,xmax,ymax"]
    for number in range(18):
        height, width = (int(side) for side in draw.integers(60, 90, 2))
        pixels = np.full((height, width, 3), 128, np.uint8)
        for name, color in (("red", (30, 30, 220)), ("blue", (220, 30, 30))):
            x, y = int(draw.integers(0, width - 30)), int(draw.integers(0, height - 30))
            x2, y2 = x + int(draw.integers(12, 30)), y + int(draw.integers(12, 30))
            pixels[y:y2, x:x2] = color
            rows.append(f"p{number}.png,{name},{'train' if number < 12 else 'val'},{x},{y},{x2},{y2}")
        miniatures.write(root / f"p{number}.png", cv2.imencode(".png", pixels)[1].tobytes())
    miniatures.write(root / "boxes.csv", "\n".join(rows) + "\n")
    return pack(inspect(root), root.parent / "data")


@pytest.fixture(scope="module")
def instances(tmp_path_factory):
    """Red rectangles and blue triangles on gray: 12 training images, 2 to validate, as LabelMe's polygons."""
    root, draw = tmp_path_factory.mktemp("instances") / "raw", np.random.default_rng(0)
    for number in range(14):
        split, shapes = "train" if number < 12 else "val", []
        pixels = np.full((72, 88, 3), 128, np.uint8)
        for name, color in (("red", (30, 30, 220)), ("blue", (220, 30, 30))):
            x, y = int(draw.integers(0, 50)), int(draw.integers(0, 36))
            right, low = x + int(draw.integers(16, 34)), y + int(draw.integers(16, 34))
            corners = [(x, y), (right, y), (right, low), (x, low)] if name == "red" else [(x, y), (right, y), (x, low)]
            cv2.fillPoly(pixels, [np.array(corners)], color)
            shapes.append({"label": name, "points": corners, "shape_type": "polygon"})
        miniatures.write(root / f"{split}/p{number}.png", cv2.imencode(".png", pixels)[1].tobytes())
        tree = {"version": "5", "shapes": shapes, "imagePath": f"p{number}.png", "imageHeight": 72, "imageWidth": 88}
        miniatures.write(root / f"{split}/p{number}.json", json.dumps(tree))
    return pack(inspect(root, how=LayoutOptions(task="instances")), root.parent / "data")


@pytest.fixture(scope="module")
def mattes(tmp_path_factory):
    root = tmp_path_factory.mktemp("mattes")
    for split, count in (("train", 12), ("val", 4)):
        for number in range(count):
            image, shares = disk(number + 100 * (split == "val"))
            write(root / f"raw/images/{split}/{number}.png", cv2.imencode(".png", image)[1].tobytes())
            write(root / f"raw/alphas/{split}/{number}.png", gray(shares))
    return pack(inspect(root / "raw"), root / "data")


@pytest.fixture(scope="module")
def whole_run(packed, tmp_path_factory):
    """An uninterrupted run."""
    folder, outcome = train(recipe(packed.folder), tmp_path_factory.mktemp("runs"))
    assert outcome.status == "finished"
    return folder.path
