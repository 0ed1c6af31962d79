"""Labels follow their image through every door, whatever its Exif orientation: a network that knows the colours of the
classes has a perfect score, and what is fed, drawn and predicted shows each object in its colour.
"""

from __future__ import annotations

import shutil

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from support import truth
from support.commands import call

import penstock as ps
from penstock.datasets import LayoutOptions, inspect, pack
from penstock.kinds.fields import decode_detection
from penstock.models.detection import Detector

TASKS = ("segmentation", "detection", "instances")
COLORS = np.array([(128, 128, 128), *map(truth.color_of, truth.CLASSES)])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The truth, packed for each task."""
    root = tmp_path_factory.mktemp("turned")
    truth.yolo_outlines(root / "raw")
    for task in TASKS:
        pack(inspect(root / "raw", how=LayoutOptions(task=task)), root / task)
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


def found_by_colour(detector, image):
    """The objects of an image, float (3, height, width) from -1 to 1: one of each class that has an area of its colour;
    lines of it, as between two other colours, do not count.
    """
    del detector
    ids = nearest((image.permute(1, 2, 0).numpy() + 1) / 2 * 255)
    boxes, labels, masks = [], [], []
    for label in range(len(truth.CLASSES)):
        mask = cv2.morphologyEx((ids == label + 1).astype(np.uint8), cv2.MORPH_OPEN, np.ones((5, 5), np.uint8))
        rows, columns = np.nonzero(mask)
        if len(rows):
            boxes.append((columns.min(), rows.min(), columns.max() + 1, rows.max() + 1))
            labels.append(label)
            masks.append(mask > 0)
    return {
        "boxes": torch.tensor(np.array(boxes).reshape(-1, 4), dtype=torch.float32),
        "scores": torch.ones(len(boxes)),
        "labels": torch.tensor(labels, dtype=torch.int64),
        "masks": torch.from_numpy(np.array(masks, bool).reshape(-1, *ids.shape)),
    }


@pytest.mark.parametrize(
    ("task", "model"), [("detection", "retinanet:test_resnet"), ("instances", "maskrcnn:test_resnet")]
)
def test_a_detector_that_knows_the_colours_finds_what_is_packed_as_the_truth(
    data, tmp_path, monkeypatch, capsys, task, model
):
    options = {"steps": 1, "batch": 1, "crop": (64, 64), "device": "cpu", "weights": "none", "runs": tmp_path / "runs"}
    settings = {"augment.resize_range": (64, 96), "train.evaluate_every": 2}
    run = ps.train(data / task, model=model, settings=settings, **options)
    monkeypatch.setattr(Detector, "_found", found_by_colour)
    scores = run.evaluate("train").scores.summary()
    code, _, err = call("predict", run.path, data / "raw/images/train", "-o", tmp_path / "found", capsys=capsys)
    shutil.copytree(data / "raw/images/train", tmp_path / "again/train")
    shutil.copy(tmp_path / "found/predictions.json", tmp_path / "again/train")
    again = ps.pack(tmp_path / "again", tmp_path / "data", task=task)

    assert scores["map50"] == 1.0
    assert code == 0, err
    assert again.classes == ps.open(data / task).classes
    for before, after in zip(
        *(sorted(found["train"], key=lambda each: each.name) for found in (ps.open(data / task), again)), strict=True
    ):
        assert truth.composed(before.name) == truth.composed(after.name)
        true, read = (
            sorted(
                (each.label, each.left, each.top, each.right, each.bottom)
                for each in decode_detection(sample.record).objects
            )
            for sample in (before, after)
        )
        np.testing.assert_allclose(read, true, atol=1.01)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "settings", [{}, {"augment.flip": 1.0, "augment.view.scale": (1.0, 1.0)}, {"augment.rotate": 10.0}]
)
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
