from __future__ import annotations

import json

import pytest
from support.training import Stop, recipe

from penstock.session import CheckpointStore
from penstock.training import resume, train


def test_tensorboard_shows_curves_and_what_weights_are_like(packed, tmp_path):
    """A resume replaces what it repeats."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder, _ = train(
        recipe(packed.folder, keep=9, log_every=1, save_every=3, evaluate_every=4), tmp_path, hooks=[Stop(5)]
    )
    resume(folder.path, checkpoint="step-00000003")
    found = accumulator.EventAccumulator(str(folder.path / "tensorboard"), size_guidance={"histograms": 0})
    found.Reload()
    lines = [json.loads(line) for line in (folder.path / "metrics.jsonl").read_text().splitlines()]
    losses = {line["step"]: line["loss"] for line in lines if "loss" in line}

    assert {event.step: event.value for event in found.Scalars("train/loss")} == pytest.approx(losses)
    assert [event.step for event in found.Scalars("evaluation/mean_iou")] == [4, 8, 12]
    name = "segmentation_head.0.weight"
    weight = CheckpointStore(folder.checkpoints).load().tensors["model"][name]
    last = found.Histograms(name)[-1]
    assert (last.step, last.histogram_value.num) == (12, weight.numel())
    assert last.histogram_value.sum == pytest.approx(float(weight.double().sum()), abs=1e-4)


def test_tensorboard_has_a_point_as_often_as_asked(packed, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder, _ = train(recipe(packed.folder, log_every=5, evaluate_every=99), tmp_path)
    found = accumulator.EventAccumulator(str(folder.path / "tensorboard"))
    found.Reload()
    rates = {line["step"]: line["lr"] for line in folder.lines("metrics.jsonl") if "lr" in line}

    assert [event.step for event in found.Scalars("train/loss")] == [5, 10]
    points = {event.step: event.value for event in found.Scalars("train/lr")}
    assert points == pytest.approx({step: rates[step] for step in (5, 10)})
