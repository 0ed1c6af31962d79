from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from support.commands import call
from support.datasets import disk
from support.training import Stop, recipe, state, stops

from penstock.assembly import open_experiment
from penstock.config import apply
from penstock.datasets import FolderDataset
from penstock.errors import RecipeError
from penstock.images import decode_image, decode_mask
from penstock.inference import load_model
from penstock.tasks import Matting
from penstock.training import resume, train


def learning(dataset, **changes):
    return recipe(dataset.folder, **{"evaluate_every": 6, "steps": 6, "save_every": 1, **changes})


@pytest.mark.every_step
def test_stopped_at_every_step_it_ends_as_if_it_had_not_been(mattes, tmp_path):
    chosen = learning(mattes)
    whole, _ = train(chosen, tmp_path / "whole")
    for step in stops(range(1, 6)):
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
    assert scores["mae"] < 0.15  # all background would be 0.21
    assert "best mae" in (folder.path / "report.html").read_text()
    words = ["-o", tmp_path / "out", "--sliding-window", 32]
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
    chosen = learning(mattes, model="deeplab:test_resnet", steps=2)
    words = ["model.deeplab.channels=8", "model.deeplab.upsample=false", "model.deeplab.image_pyramid=[0.5, 1.0]"]
    chosen = apply(chosen, words)
    folder, outcome = train(chosen, tmp_path)

    assert outcome.status == "finished"
    assert isinstance(load_model(folder.path, device="cpu").parts.task, Matting)


def test_other_losses_are_refused(mattes):
    with pytest.raises(RecipeError) as caught:
        _ = open_experiment(apply(learning(mattes), ["loss.dice=1"])).task

    assert str(caught.value) == "A choice of losses is not supported for matting. Remove loss.dice."


def test_a_pulled_description_says_matting(mattes):
    again = FolderDataset.open(mattes.folder)

    assert dataclasses.asdict(again.description) == dataclasses.asdict(mattes.description)


def test_the_best_mattes_have_the_smallest_error(mattes, tmp_path):
    chosen = apply(learning(mattes, steps=4, evaluate_every=1, save_every=1, keep=9), ["optimizer.lr=0.1"])
    folder, _ = train(chosen, tmp_path / "runs")
    lines = [line for line in folder.lines("metrics.jsonl") if "evaluation" in line]
    smallest = min(reversed(lines), key=lambda line: line["evaluation"]["mae"])

    assert len({line["evaluation"]["mae"] for line in lines}) == 4
    assert (folder.checkpoints / "best").resolve().name == f"step-{smallest['step']:08d}"
    assert [line["best"] for line in lines if line["step"] == smallest["step"]] == [True]
