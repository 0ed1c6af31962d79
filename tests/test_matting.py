"""Mattes: soft labels of a foreground's share, learnt, scored and predicted."""

from __future__ import annotations

import dataclasses
import json

import cv2
import numpy as np
import pytest
import torch
from miniatures import gray, picture, write
from PIL import Image
from test_cli import call
from test_packing import records
from training import Stop, recipe, state

from penstock import seeds
from penstock.assembly import open_parts
from penstock.config import apply
from penstock.datasets import FolderDataset, inspect, pack
from penstock.errors import RecipeError
from penstock.images import decode_image, decode_mask
from penstock.inference import load_model
from penstock.losses import SoftLabels
from penstock.metrics import Mattes
from penstock.records.schema import SegmentationRecord, decode_segmentation, encode_segmentation
from penstock.tasks import Augment, Matting, PrepareMatte
from penstock.training import resume, train
from penstock.values import Record


def disk(seed, size=(48, 64)):
    """The image and shares of a bright disk with a soft edge."""
    draw = np.random.default_rng(seed)
    y, x = np.mgrid[: size[0], : size[1]]
    distance = np.hypot(y - draw.integers(14, 34), x - draw.integers(14, 50))
    shares = np.clip((14 - distance) / 8 + 0.5, 0, 1)
    colors = 30 + 200 * shares[..., np.newaxis] + draw.normal(0, 8, (*size, 3))
    return np.clip(colors, 0, 255).astype(np.uint8), (255 * shares).round().astype(np.uint8)


@pytest.fixture(scope="module")
def mattes(tmp_path_factory):
    root = tmp_path_factory.mktemp("mattes")
    for split, count in (("train", 12), ("val", 4)):
        for number in range(count):
            image, shares = disk(number + 100 * (split == "val"))
            write(root / f"raw/images/{split}/{number}.png", cv2.imencode(".png", image)[1].tobytes())
            write(root / f"raw/alphas/{split}/{number}.png", gray(shares))
    return pack(inspect(root / "raw"), root / "data")


def learning(dataset, **changes):
    return recipe(dataset.folder, **{"evaluate_every": 6, "steps": 6, "save_every": 1, **changes})


def test_shares_are_packed_as_they_are(mattes):
    described = mattes.description
    found = {decode_segmentation(r).name: decode_segmentation(r) for r in records(mattes, "train")}
    shares = sum(disk(number)[1].astype(np.int64).sum() for number in range(12))

    assert (described.task, described.classes) == ("matting", ("background", "foreground"))
    assert described.splits["train"].per_class == (12 * 48 * 64 - round(shares / 255), round(shares / 255))
    for number in range(12):
        assert (decode_mask(found[f"{number}"].mask, "m") == disk(number)[1]).all()


def test_inspect_counts_pixels_by_their_shares(mattes, capsys):
    _, out, _ = call("inspect", mattes.folder.parent / "raw", capsys=capsys)
    background, foreground = mattes.description.splits["train"].per_class

    assert f"\n  background       {background:>10,} pixels, by their shares\n" in out
    assert f"\n  foreground       {foreground:>10,} pixels, by their shares\n" in out


@pytest.mark.parametrize("folders", ["{split}/images {split}/matte", "images alpha"])
def test_other_names_are_recognised(tmp_path, folders):
    for number, split in enumerate(("train", "val")):
        images, alphas = folders.format(split=split).split()
        write(tmp_path / images / f"{split}.jpg", picture(seed=number))
        write(tmp_path / alphas / f"{split}.png", gray(np.full((24, 32), 200 + number, np.uint8)))
    found = inspect(tmp_path)

    assert (found.layout.task, found.layout.name) == ("matting", "image and alpha folders")
    assert (sorted(found.splits), found.fatal) == (["train", "val"] if "{" in folders else ["train"], [])


def test_shares_go_with_the_picture_and_nothing_lies_outside_it():
    """The image is its own matte, so that both must come out the same wherever there is an image."""
    image, shares = disk(1)
    same = np.repeat(shares[..., np.newaxis], 3, axis=2)
    png = cv2.imencode(".png", same)[1].tobytes()
    record = Record("r", encode_segmentation(SegmentationRecord(png, gray(shares), "a", "png", *shares.shape)))
    prepare = PrepareMatte(2, -1, (0, 0, 0), Augment((40, 40), scale=(0.4, 1.8), scale_step=0.0, rotate=25.0))
    outside = 0
    for position in range(60):
        out = {"image": np.empty((40, 40, 3), np.uint8), "mask": np.empty((40, 40), np.int16)}
        prepare(record, seeds.generator(0, "augment", position), out)
        inside = out["mask"] >= 0
        outside += int((~inside).sum())
        off = np.abs(out["image"][..., 0].astype(int) - out["mask"])[inside]
        assert np.median(off) == 0
        assert (off > 2).mean() < 0.05  # where the border is mixed in
        assert (out["mask"][~inside] == -1).all()
    assert outside > 1000
    assert image.shape == same.shape


def test_the_loss_is_its_definition():
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 2, 5, 6, generator=draw, requires_grad=True)
    target = torch.randint(-1, 256, (3, 5, 6), generator=draw).to(torch.int16)
    share = torch.stack([1 - target.clamp(min=0) / 255, target.clamp(min=0) / 255], dim=1)
    each = torch.nn.functional.cross_entropy(logits, share, reduction="none")
    expected = each[target >= 0].sum()

    assert torch.allclose(SoftLabels().sum(logits, target, -1), expected)
    assert SoftLabels().count(target, -1) == (target >= 0).sum()


def test_in_pieces_the_gradient_is_the_same():
    draw = torch.Generator().manual_seed(1)
    logits = torch.randn(6, 2, 4, 4, generator=draw)
    target = torch.randint(-1, 256, (6, 4, 4), generator=draw).to(torch.int16)
    target[3] = -1
    whole, parts = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    count = SoftLabels().count(target, -1)
    (SoftLabels().sum(whole, target, -1) / count).backward()
    for start, stop in ((0, 1), (1, 4), (4, 6)):
        (SoftLabels().sum(parts[start:stop], target[start:stop], -1) / count).backward()

    torch.testing.assert_close(parts.grad, whole.grad)


def test_scores_are_their_definitions_however_pictures_are_divided():
    draw = np.random.default_rng(0)
    predicted, target = draw.random((6, 7, 8)).astype(np.float32), draw.integers(-1, 256, (6, 7, 8)).astype(np.int16)
    whole, parts = Mattes(-1), [Mattes(-1) for _ in range(3)]
    whole.update(torch.from_numpy(predicted), torch.from_numpy(target))
    for number, part in enumerate(parts):
        part.update(torch.from_numpy(predicted[number::3]), torch.from_numpy(target[number::3]))
    valid = target >= 0
    found, true = np.rint(predicted * 255)[valid] / 255, target[valid] / 255
    scores = whole.scores().as_json()

    assert torch.equal(sum(part.counts for part in parts), whole.counts)
    assert scores["mae"] == pytest.approx(np.abs(found - true).mean())
    assert scores["mse"] == pytest.approx(np.square(found - true).mean())
    assert scores["sad"] == pytest.approx(np.abs(found - true).sum() / 1000)
    assert scores["iou"] == pytest.approx(((found > 0.5) & (true > 0.5)).sum() / ((found > 0.5) | (true > 0.5)).sum())
    assert scores["closeness"] == 1 - scores["mae"]


def test_stopped_at_every_step_it_ends_as_if_it_had_not_been(mattes, tmp_path):
    chosen = learning(mattes)
    whole, _ = train(chosen, tmp_path / "whole")
    for step in range(1, 6):
        folder, _ = train(chosen, tmp_path / f"{step}", hooks=[Stop(step)])
        resume(folder.path)
        assert state(folder.path) == state(whole.path)


def test_it_learns_and_predicts_shares(mattes, tmp_path, capsys):
    chosen = apply(learning(mattes, steps=60, evaluate_every=60, save_every=60), ["optimizer.lr=0.1"])
    folder, _ = train(chosen, tmp_path / "runs")
    scores = [json.loads(line) for line in (folder.path / "metrics.jsonl").read_text().splitlines()][-1]["evaluation"]
    raw = mattes.folder.parent / "raw"
    code, out, _ = call("evaluate", folder.path, capsys=capsys)
    assert code == 0
    assert "mean absolute error" in out
    assert scores["closeness"] > 0.85  # all background would be 0.79
    words = ["-o", tmp_path / "out", "--window", 32]
    assert call("predict", folder.path, raw / "images/val", *words, capsys=capsys)[0] == 0
    errors = []
    for number in range(4):
        shares = decode_mask((tmp_path / f"out/{number}.png").read_bytes(), "m")
        laid = decode_image((tmp_path / f"out/{number}-overlay.png").read_bytes(), "m")
        image, true = disk(number + 100)
        share = shares[..., np.newaxis] / np.float32(255)
        expected = (image[..., ::-1] * share + np.array([0, 177, 64], np.float32) * (1 - share)).round()
        assert np.abs(laid.astype(int) - expected).max() <= 1
        errors.append(np.abs(shares.astype(int) - true).mean() / 255)
    assert np.mean(errors) < 0.15
    assert call("show", mattes.folder, "-o", tmp_path / "sheet.png", capsys=capsys)[0] == 0
    assert call("verify", mattes.folder, capsys=capsys)[0] == 0
    code, _, errors = call("predict", folder.path, raw / "images/val", "-o", tmp_path / "x", "--color", capsys=capsys)
    assert (code, "Writing masks in colour is not supported for matting. Remove --color." in errors) == (2, True)


def test_deeplabs_small_logits_and_scales_take_mattes(mattes, tmp_path):
    words = ['model.name="deeplab:test_resnet"', "model.deeplab.channels=8", "model.deeplab.upsample=false"]
    chosen = apply(learning(mattes, steps=2), [*words, "model.deeplab.pyramid=[0.5, 1.0]"])
    folder, outcome = train(chosen, tmp_path)

    assert outcome.status == "finished"
    assert isinstance(load_model(folder.path, device="cpu").parts.task, Matting)


def test_other_losses_are_refused(mattes):
    with pytest.raises(RecipeError) as caught:
        _ = open_parts(apply(learning(mattes), ["loss.dice=1"])).task

    assert str(caught.value) == "A choice of losses is not supported for matting. Remove loss.dice."


def test_a_pulled_description_says_matting(mattes):
    again = FolderDataset.open(mattes.folder)

    assert dataclasses.asdict(again.description) == dataclasses.asdict(mattes.description)


def test_a_matte_of_one_bit_is_named(tmp_path):
    write(tmp_path / "images/a.jpg", picture())
    (tmp_path / "alphas").mkdir()
    Image.fromarray(np.eye(24, 32, dtype=bool)).save(tmp_path / "alphas/a.png")

    assert [problem.message for problem in inspect(tmp_path).fatal] == [
        "alphas/a.png: expected an alpha matte of 8 bits, found 1 bits. Save it as an 8-bit gray PNG."
    ]
