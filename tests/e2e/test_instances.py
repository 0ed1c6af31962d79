"""Instance segmentation from the command line and from Python: trained, stopped, evaluated, predicted, replayed."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from support.commands import call
from support.datasets import learn_squares
from support.training import Stop, state

from penstock.config import apply
from penstock.images import codecs
from penstock.training import resume, train

pytestmark = pytest.mark.slow

MODEL = "maskrcnn:test_resnet"


def test_it_learns_evaluates_predicts_and_is_replayed(instances, tmp_path, capsys):
    chosen = apply(learn_squares(instances, MODEL, steps=1, evaluate_every=1), ["data.limit=2"])
    folder, outcome = train(chosen, tmp_path / "runs")
    image, out = instances.folder.parent / "raw/val/p12.png", tmp_path / "out"
    code, evaluated, _ = call("evaluate", folder.path, "--images", 1, capsys=capsys)

    assert (outcome.status, code) == ("finished", 0)
    assert {"map", "map50", "box_map"} <= set(folder.lines("metrics.jsonl")[-1]["evaluation"])
    assert "mAP" in evaluated
    code, said, _ = call("predict", folder.path, image, "-o", out, "--score", 0.1, capsys=capsys)
    rows = list(csv.DictReader((out / "predictions.csv").read_text().splitlines()))
    drawn = sum(float(row["score"]) > 0.1 for row in rows)
    assert code == 0
    assert said.splitlines()[-1] == (
        f"{out / 'predictions.csv'} holds {len(rows)} candidate objects, with boxes in pixels; NAME.png holds the numbers of "
        f"the {drawn} that score above 0.1 (0 where there is none), NAME-instances.png shows them, and "
        "predictions.json holds them as COCO does"
    )
    assert [row["number"] for row in rows] == [str(number) for number in range(1, len(rows) + 1)]
    numbers = codecs.decode_mask((out / "p12.png").read_bytes(), "")
    assert numbers.shape == (72, 88)
    assert set(np.unique(numbers)) <= set(range(drawn + 1))
    assert (out / "p12-instances.png").is_file()
    assert call("replay", folder.path, "--step", 1, capsys=capsys)[0] == 0
    assert call("show", instances.folder, "-o", tmp_path / "sheet.png", capsys=capsys)[0] == 0
    assert call("verify", instances.folder, capsys=capsys)[0] == 0


@pytest.mark.soak  # two minutes: a step of Mask R-CNN takes seconds
def test_a_run_that_is_stopped_at_any_step_ends_the_same(instances, tmp_path):
    whole, _ = train(learn_squares(instances, MODEL, steps=3), tmp_path / "whole")
    kept = {"state.json", "manifest.json"}
    expected = {name: data for name, data in state(whole.path).items() if name not in kept}
    for step in range(1, 3):
        stopped, _ = train(learn_squares(instances, MODEL, steps=3), tmp_path / f"stopped{step}", hooks=[Stop(step)])
        resume(stopped.path)
        assert {name: data for name, data in state(stopped.path).items() if name not in kept} == expected, step


def test_what_it_cannot_do_is_refused(instances, tmp_path, capsys):
    words = ("train", instances.folder, "--runs", tmp_path, "--weights", "none", "--model")
    assert call(*words, "fasterrcnn:resnet10t", capsys=capsys) == (
        2,
        "",
        "error: model.name = 'fasterrcnn:resnet10t': fasterrcnn is a network for detection, which this data is not packed "
        "for. Choose one of maskrcnn, or pack the data with --task detection.\n",
    )
