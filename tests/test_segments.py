"""Boundary IoU, panoptic quality, raw ids and palettes."""

from __future__ import annotations

import cv2
import miniatures
import numpy as np
import pytest
import torch
from test_cli import call

from penstock.datasets import FolderDataset, inspect, pack
from penstock.images import drawing, palettes
from penstock.metrics import Segments


def random_masks(seed, size=(2, 48, 64), classes=4, ignored=True):
    draw = np.random.default_rng(seed)
    masks = np.stack(
        [cv2.resize(draw.integers(0, classes, (6, 8), np.uint8), size[:0:-1], interpolation=0) for _ in range(size[0])]
    )
    if ignored:
        masks[:, :5, :9] = 255
    return masks


def brute(found, true, classes, ignore=255):
    """The definitions, by OpenCV's morphology."""
    counts = np.zeros((classes, 7))
    width = max(1, round(0.02 * np.hypot(*true.shape[1:])))
    square, edge = np.ones((3, 3), np.uint8), {"borderType": cv2.BORDER_CONSTANT, "borderValue": 0}
    for mine, theirs in zip(np.where(true == ignore, ignore, found), true, strict=True):
        for label in range(classes):
            a, b = mine == label, theirs == label
            if not a.any() and not b.any():
                continue
            edges = [m & ~cv2.erode(m.astype(np.uint8), square, iterations=width, **edge).astype(bool) for m in (a, b)]
            counts[label, 0] += (edges[0] & edges[1]).sum()
            counts[label, 1] += (edges[0] | edges[1]).sum()
            overlap = (a & b).sum() / (a | b).sum()
            counts[label, 5:] += b.sum(), b.sum() * overlap
            if overlap > 0.5:
                counts[label, 2:4] += overlap, 1
            else:
                counts[label, 4] += (a.any() + b.any()) / 2
    quality = counts[:, 2] / (counts[:, 3] + counts[:, 4])
    return counts[:, 0] / counts[:, 1], quality, counts[:, 6] / counts[:, 5]


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_their_definitions(seed):
    true = random_masks(seed)
    found = np.where(
        np.random.default_rng(seed).random(true.shape) < 0.02, 1, np.roll(random_masks(seed, ignored=False), 1, axis=2)
    )
    segments = Segments(4, 255)
    for i in range(len(true)):
        segments.update(torch.from_numpy(found[i : i + 1]), torch.from_numpy(true[i : i + 1]))
    scores = segments.scores()
    boundary, quality, covering = brute(found, true, 4)
    assert scores.covering == pytest.approx(covering.tolist(), abs=1e-6)

    assert scores.boundary_iou == pytest.approx(boundary.tolist())
    assert scores.panoptic_quality == pytest.approx(quality.tolist(), abs=1e-9)


def test_perfect_masks_are_perfect_and_absent_classes_have_none():
    true = torch.from_numpy(random_masks(1, classes=3))
    segments = Segments(4, 255)
    segments.update(true, true)
    found = segments.scores().as_json(["a", "b", "c", "d"])

    assert (found["boundary_iou"], found["panoptic_quality"]) == (1.0, 1.0)
    assert found["segments"][3] == {"name": "d", "boundary_iou": None, "panoptic_quality": None, "covering": None}


def test_evaluate_prints_them(packed, tmp_path, capsys):
    words = ["--model", "unet:test_resnet", "--weights", "none", "--batch", 4, "--crop", 32, 32, "--steps", 2]
    call("train", packed.folder, *words, "--runs", tmp_path, capsys=capsys)
    (run,) = tmp_path.iterdir()
    code, out, _ = call("evaluate", run, "--segments", capsys=capsys)

    assert code == 0
    assert ["class", "bound.", "panopt.", "cover."] in [line.split() for line in out.splitlines()]


def test_masks_may_have_the_ids_and_colours_of_the_raw_data(tmp_path, capsys):
    """Cityscapes: train ids are learnt, label ids are what its benchmark wants."""
    miniatures.cityscapes_(tmp_path / "raw")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    words = ["--model", "unet:test_resnet", "--weights", "none", "--batch", 1, "--crop", 32, 32, "--steps", 1]
    call("train", dataset.folder, *words, "--set", "train.freeze_bn=true", "--runs", tmp_path / "runs", capsys=capsys)
    (run,) = (tmp_path / "runs").iterdir()
    pictures = tmp_path / "raw" / "leftImg8bit" / "val"
    for name, more in (("plain", []), ("raw", ["--ids", "original", "--palette", "cityscapes", "--color"])):
        assert call("predict", run, pictures, "-o", tmp_path / name, *more, capsys=capsys)[0] == 0
    (plain,) = (cv2.imread(str(path), 0) for path in (tmp_path / "plain").rglob("*8bit.png"))
    (raw,) = (cv2.imread(str(path), 0) for path in (tmp_path / "raw").glob("bonn/*8bit.png"))
    (color,) = (cv2.imread(str(path))[..., ::-1] for path in (tmp_path / "raw").glob("bonn/*-color.png"))
    original = FolderDataset.open(dataset.folder).description.original

    assert original == (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
    assert (raw == np.array(original)[plain]).all()
    assert (color == np.array(palettes.CITYSCAPES)[plain]).all()


def test_palettes_are_the_published_ones():
    voc = drawing.palette_of("voc", 255)

    assert [tuple(color) for color in voc[[0, 1, 2, 15, 20, 255]]] == [
        (0, 0, 0), (128, 0, 0), (0, 128, 0), (192, 128, 128), (0, 64, 128), (224, 224, 192),
    ]  # fmt: skip
    assert tuple(drawing.palette_of("cityscapes", 255)[13]) == (0, 0, 142)
    ade20k = drawing.palette_of("ade20k", 255)
    assert tuple(ade20k[0]) == (120, 120, 120)  # wall
    assert tuple(ade20k[2]) == (6, 230, 230)  # sky
    assert tuple(ade20k[149]) == (92, 0, 255)  # flag
    assert len(np.unique(ade20k[:150], axis=0)) == 149  # two classes share a gray, as published
    assert not ade20k[150:].any()


def test_what_is_only_for_masks_is_refused_for_classes(tmp_path, capsys):
    miniatures.folders(tmp_path / "raw")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    words = ["--model", "test_resnet", "--weights", "none", "--batch", 2, "--crop", 32, 32, "--steps", 1]
    call("train", dataset.folder, *words, "--runs", tmp_path / "runs", capsys=capsys)
    (run,) = (tmp_path / "runs").iterdir()

    assert call("predict", run, tmp_path / "raw", "-o", tmp_path / "out", "--color", capsys=capsys) == (
        2,
        "",
        "error: Writing masks in colour is not supported for classification. Remove --color.\n",
    )
    assert call("evaluate", run, "--segments", capsys=capsys) == (
        2,
        "",
        "error: Scoring boundaries and segments is not supported for classification. Remove --segments.\n",
    )
