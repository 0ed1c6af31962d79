"""Images of 16 bits and of many channels, from the raw folder to predictions and exported files."""

from __future__ import annotations

import csv
import io
import re

import cv2
import numpy as np
import onnxruntime
import pytest
import tifffile
from support.commands import call
from support.miniatures import gray, write
from support.training import NARROW

import penstock as ps
from penstock.datasets import FolderDataset

SIZE = (32, 32)
CLASSES = ("bright", "dark")
SMALL = {"weights": "none", "steps": 40, "batch": 8, "crop": SIZE}


@pytest.fixture(scope="module")
def faint(tmp_path_factory):
    """Two classes of 12-bit images that differ by less than one step of 8 bits: 16 to train on, 8 to evaluate."""
    root, draw = tmp_path_factory.mktemp("faint"), np.random.default_rng(0)
    for split, count in (("train", 8), ("val", 4)):
        for level, name in ((1000, "dark"), (1040, "bright")):
            for number in range(count):
                pixels = draw.normal(level, 8, SIZE).round().astype(np.uint16)
                assert set(np.unique(pixels >> 8)) <= {3, 4}
                write(root / f"raw/{split}/{name}/{number}.png", cv2.imencode(".png", pixels)[1].tobytes())
    ps.pack(root / "raw", root / "data")
    return root


def learnt(data, folder, **settings):
    given = {"augment.view.name": "pad-crop", "train.evaluate_every": 40, **settings}
    return ps.train(data / "data", model="test_resnet", runs=folder, settings=given, **SMALL)


def test_what_eight_bits_cannot_tell_apart_is_learnt(faint, tmp_path, capsys):
    assert FolderDataset.open(faint / "data").description.bits == 16
    run = learnt(faint, tmp_path / "runs")
    blind = learnt(faint, tmp_path / "blind", **{"model.normalization": "backbone"})

    assert run.evaluate("val").scores.summary()["top1"] == 1.0
    assert blind.evaluate("val").scores.summary()["top1"] < 1.0
    folder = str(faint / "raw/val")
    assert call("predict", run.path, folder, "-o", tmp_path / "found", capsys=capsys)[0] == 0
    with (tmp_path / "found/predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["class1"] for row in rows] == [row["file"].split("/")[-2] for row in rows]
    pixels = cv2.imread(f"{folder}/dark/0.png", cv2.IMREAD_UNCHANGED)[..., np.newaxis].repeat(3, axis=2)
    assert run.load().predict(pixels).best[0] == CLASSES.index("dark")


def test_it_is_exported_for_sixteen_bits(faint, tmp_path, capsys):
    run = learnt(faint, tmp_path / "runs")
    code, said = call("export", run.path, "-o", tmp_path / "m.onnx", capsys=capsys)[:2]
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    raw = faint / "raw/val"

    assert code == 0
    assert "takes: image, uint16 (n, 32, 32, 3), RGB" in said
    for name in ("dark", "bright"):
        pixels = cv2.imread(str(raw / name / "1.png"), cv2.IMREAD_UNCHANGED)[np.newaxis, ..., np.newaxis].repeat(
            3, axis=3
        )
        (found,) = session.run(["classes"], {"image": pixels})[0]
        assert CLASSES[found] == name


@pytest.fixture(scope="module")
def bands(tmp_path_factory):
    """Images of seven bands, of which the sixth alone shows a square: 12 to train on, 4 to evaluate."""
    root, draw = tmp_path_factory.mktemp("bands"), np.random.default_rng(0)
    for split, count in (("train", 12), ("val", 4)):
        for number in range(count):
            ids = np.zeros((48, 64), np.uint8)
            y, x = draw.integers(2, 20), draw.integers(2, 30)
            ids[y : y + 24, x : x + 30] = 1
            pixels = draw.normal(2000 + 300 * np.arange(7), 30, (48, 64, 7))
            pixels[..., 5] += 200.0 * ids
            done = io.BytesIO()
            tifffile.imwrite(done, pixels.round().astype(np.uint16), photometric="minisblack", planarconfig="contig")
            write(root / f"raw/{split}/images/{number}.tif", done.getvalue())
            write(root / f"raw/{split}/masks/{number}.png", gray(ids))
    ps.pack(root / "raw", root / "data")
    return root


def test_bands_are_learnt_drawn_predicted_replayed_and_exported(bands, tmp_path, capsys):
    run = ps.train(
        bands / "data",
        model="unet:test_resnet",
        runs=tmp_path / "runs",
        settings={"train.evaluate_every": 60, "model.decoder": NARROW, "optimizer.lr": 0.1},
        **{**SMALL, "steps": 60},
    )
    raw = bands / "raw"

    assert run.evaluate("val").scores.summary()["mean_iou"] > 0.7
    assert call("predict", run.path, raw / "val/images", "-o", tmp_path / "found", capsys=capsys)[0] == 0
    for number in range(4):
        found, true = (
            cv2.imread(str(path), 0) for path in (tmp_path / f"found/{number}.png", raw / f"val/masks/{number}.png")
        )
        assert (found == true).mean() > 0.85
    assert cv2.imread(str(tmp_path / "found/0-overlay.png")).shape == (48, 64, 3)
    for words in (
        ("show", bands / "data", "-o", tmp_path / "sheet.png"),
        ("show", bands / "data", "--augmented", "-o", tmp_path / "fed.png"),
        ("replay", run.path, "--step", "3"),
        ("verify", bands / "data"),
        ("report", run.path),
    ):
        assert call(*words, capsys=capsys)[0] == 0
    code, said = call("export", run.path, "-o", tmp_path / "m.onnx", capsys=capsys)[:2]
    assert code == 0
    assert "takes: image, uint16 (n, 64, 64, 7); gives" in said
    assert re.search("give it images .* padded .* with 20\\d\\d, 23\\d\\d", said)


def test_classes_of_bands_are_learnt_predicted_and_exported(tmp_path, capsys):
    """Five bands, of which the last alone tells the classes apart."""
    draw = np.random.default_rng(0)
    for split, count in (("train", 8), ("val", 4)):
        for label, name in enumerate(("high", "low")):
            for number in range(count):
                pixels = draw.normal(2000 + 300 * np.arange(5), 30, (*SIZE, 5))
                pixels[..., 4] += 200.0 * (1 - label)
                done = io.BytesIO()
                tifffile.imwrite(
                    done, pixels.round().astype(np.uint16), photometric="minisblack", planarconfig="contig"
                )
                write(tmp_path / f"raw/{split}/{name}/{number}.tif", done.getvalue())
    ps.pack(tmp_path / "raw", tmp_path / "data")
    run = learnt(tmp_path, tmp_path / "runs")

    assert run.evaluate("val").scores.summary()["top1"] == 1.0
    assert call("predict", run.path, tmp_path / "raw/val", "-o", tmp_path / "found", capsys=capsys)[0] == 0
    with (tmp_path / "found/predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["class1"] for row in rows] == [row["file"].split("/")[-2] for row in rows]
    code, said = call("export", run.path, "-o", tmp_path / "m.onnx", capsys=capsys)[:2]
    assert (code, "takes: image, uint16 (n, 32, 32, 5); gives" in said) == (0, True)
    image = tifffile.imread(tmp_path / "raw/val/low/0.tif")
    (classes,) = onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).run(["classes"], {"image": image[np.newaxis]})
    assert classes.tolist() == [1]
    for words in (
        ("show", tmp_path / "data", "--augmented", "-o", tmp_path / "s.png"),
        ("replay", run.path, "--step", "3"),
    ):
        assert call(*words, capsys=capsys)[0] == 0


def test_a_model_of_bands_refuses_other_images(bands, tmp_path, capsys):
    run = ps.train(bands / "data", model="unet:test_resnet", runs=tmp_path / "runs", **{**SMALL, "steps": 1})
    write(tmp_path / "x.png", cv2.imencode(".png", np.zeros((20, 20, 3), np.uint8))[1].tobytes())
    code, said = call("predict", run.path, tmp_path / "x.png", "-o", tmp_path / "found", capsys=capsys)[:2]

    assert code == 1
    assert (
        f"{tmp_path}/x.png: expected 7 channels, as the dataset says, found 3 channels (png). Use images with the same"
        in said
    )


def test_boxes_in_deep_images_are_learnt_and_exported(tmp_path, capsys):
    draw, rows = np.random.default_rng(0), ["file,class,split,xmin,ymin,xmax,ymax"]
    for number in range(8):
        pixels = draw.integers(800, 900, (48, 64), np.uint16)
        x, y = draw.integers(0, 30), draw.integers(0, 20)
        pixels[y : y + 24, x : x + 30] += 300
        write(tmp_path / f"raw/{number}.png", cv2.imencode(".png", pixels)[1].tobytes())
        rows.append(f"{number}.png,a,{'train' if number < 6 else 'val'},{x},{y},{x + 30},{y + 24}")
    write(tmp_path / "raw/boxes.csv", "\n".join(rows) + "\n")
    ps.pack(tmp_path / "raw", tmp_path / "data")
    words = ["--model", "ssd:test_resnet", "--weights", "none", "--crop", 64, 64, "--batch", 2, "--steps", 2]
    assert call("train", tmp_path / "data", *words, "--runs", tmp_path / "runs", capsys=capsys)[0] == 0
    (run,) = (tmp_path / "runs").iterdir()
    assert call("predict", run, tmp_path / "raw", "-o", tmp_path / "out", capsys=capsys)[0] == 0
    code, said, _ = call("export", run, "-o", tmp_path / "m.onnx", capsys=capsys)
    pixels = cv2.imread(str(tmp_path / "raw/0.png"), cv2.IMREAD_UNCHANGED)[..., np.newaxis].repeat(3, axis=2)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    boxes, scores = session.run(["boxes", "scores"], {"image": pixels.astype(np.int32)})
    found = ps.load(run).predict(pixels)

    assert code == 0
    assert "takes: image, int32 (height, width, 3), RGB" in said
    assert np.abs(np.sort(scores)[::-1][:20] - found.scores[:20]).max() < 0.01
    assert len(boxes) == len(scores)
