"""Labels follow their image through every door, whatever its Exif orientation: a network that knows the colours of the
classes has a perfect score, and what is fed, drawn and predicted shows each object in its colour.
"""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from support import truth
from support.commands import call

import penstock as ps
from penstock.datasets import How, inspect, pack

TASKS = ("segmentation", "detection", "instances")
COLORS = np.array([(128, 128, 128), *map(truth.color_of, truth.CLASSES)])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The truth, packed for each task."""
    root = tmp_path_factory.mktemp("turned")
    truth.yolo_outlines(root / "raw")
    for task in TASKS:
        pack(inspect(root / "raw", how=How(task=task)), root / task)
    return root


@pytest.fixture(scope="module")
def run(data):
    options = {"steps": 1, "batch": 2, "crop": (64, 64), "lr": 1e-9, "device": "cpu", "runs": data / "runs"}
    return ps.train(data / "segmentation", model="support.truth:Colors", **options)


PLAIN = {f"augment.jitter.{name}": 0.0 for name in ("brightness", "contrast", "saturation", "hue")}


def ids_of(photo):
    ids = np.zeros(photo.size, np.uint8)
    for name, left, top, right, bottom in photo.objects:
        ids[top:bottom, left:right] = 1 + truth.CLASSES.index(name)
    return ids


def nearest(pixels):
    """The class whose colour is nearest, 0 for gray: of uint8 (..., 3)."""
    return ((pixels[..., None, :].astype(int) - COLORS) ** 2).sum(axis=-1).argmin(axis=-1)


@pytest.mark.parametrize("split", ["train", "val"])
def test_a_network_that_knows_the_colours_has_a_perfect_score(run, split):
    scores = run.evaluate(split).scores

    assert scores.pixel_accuracy > 0.99
    assert scores.mean_iou > 0.97


def test_predictions_are_upright(run, data, tmp_path, capsys):
    model = ps.load(run)
    code, _, err = call("predict", run.path, data / "raw/images/train", "-o", tmp_path / "found", capsys=capsys)

    assert code == 0, err
    for photo in truth.photos_of("train"):
        (path,) = (p for p in (data / "raw/images/train").iterdir() if truth.composed(p.name) == photo.file)
        (written,) = (p for p in (tmp_path / "found").rglob("*.png") if truth.composed(p.stem) == photo.name)
        for mask in (model.predict(path).mask, np.asarray(Image.open(written))):
            assert mask.shape == photo.size
            assert (mask == ids_of(photo)).mean() > 0.99, photo


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("settings", [{}, {"augment.flip": 1.0, "augment.scale": (1.0, 1.0)}, {"augment.rotate": 10.0}])
def test_what_is_fed_has_its_labels_where_its_objects_are(data, task, settings):
    feed = ps.open(data / task)["train"].feed(batch=8, crop=(96, 96), seed=2, settings={**PLAIN, **settings})
    batch = next(iter(feed.batches())).tensors
    seen = 0
    for image, tensors in zip(batch["image"].numpy(), zip(*batch.values(), strict=True), strict=True):
        named = dict(zip(batch, tensors, strict=True))
        if task == "segmentation":
            mask = named["mask"].numpy()
            inside = mask != 255
            assert (nearest(image)[inside] == mask[inside]).mean() > 0.9
            seen += inside.any()
            continue
        for label, box in zip(named["label"].tolist(), named["boxes"].tolist(), strict=True):
            left, top, right, bottom = map(round, box)
            if label >= 0 and min(right - left, bottom - top) > 12:
                middle = image[(top + bottom) // 2, (left + right) // 2]
                assert nearest(middle) == label + 1
                seen += 1

    assert seen > 5
