from __future__ import annotations

import json
import shutil

import cv2
import numpy as np
import pytest
from support.training import Stop, recipe

from penstock.hooks.drawn import batch_sheet
from penstock.session import CheckpointStore, Hook
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
    norms = {line["step"]: line["grad_norm"] for line in lines if "loss" in line}
    assert {event.step: event.value for event in found.Scalars("train/grad_norm")} == pytest.approx(norms)
    assert [event.step for event in found.Scalars("train/images_per_second")] == [*range(1, 13)]
    assert all(event.value > 0 for event in found.Scalars("train/images_per_second"))
    times = {each["step"]: each for each in map(json.loads, (folder.path / "timings.jsonl").read_text().splitlines())}
    waits = {step: each["wait"] / each["seconds"] for step, each in times.items() if step in losses}
    assert {event.step: event.value for event in found.Scalars("train/data_wait")} == pytest.approx(waits, abs=1e-3)
    assert [event.step for event in found.Scalars("evaluation/mean_iou")] == [4, 8, 12]
    name = "segmentation_head.0.weight"
    weight = CheckpointStore(folder.checkpoints).load().tensors["model"][name]
    last = found.Histograms(name)[-1]
    assert (last.step, last.histogram_value.num) == (12, weight.numel())
    assert last.histogram_value.sum == pytest.approx(float(weight.double().sum()), abs=1e-4)
    counts, edges = np.histogram(weight.double().numpy(), len(last.histogram_value.bucket))
    assert last.histogram_value.bucket == pytest.approx(counts, abs=2)  # numbers on an edge are rounded
    assert last.histogram_value.bucket_limit == pytest.approx(edges[1:])
    assert sum(last.histogram_value.bucket) == weight.numel()


class Last(Hook):
    """Keeps the gradients of the last step, and what its first batch looks like."""

    def __init__(self):
        self.gradients, self.sheet = {}, None

    def before_step(self, session):
        if self.sheet is None:
            self.sheet = batch_sheet(session.task, session.batch)

    def after_step(self, session):
        self.gradients = {name: each.grad.clone() for name, each in session.model.named_parameters()}


def test_tensorboard_shows_gradients_and_the_first_batch(packed, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    last = Last()
    folder, _ = train(recipe(packed.folder, steps=3, log_every=1, evaluate_every=99), tmp_path, hooks=[last])
    found = accumulator.EventAccumulator(str(folder.path / "tensorboard"), size_guidance={"images": 0})
    found.Reload()
    (image,) = found.Images("train/batch")
    drawn = cv2.imdecode(np.frombuffer(image.encoded_image_string, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    name = "segmentation_head.0.weight"

    assert image.step == 1
    assert np.array_equal(drawn, last.sheet)
    (event,) = found.Histograms(f"gradients/{name}")
    assert event.histogram_value.sum == pytest.approx(float(last.gradients[name].double().sum()), abs=1e-4)


def test_tensorboard_that_cannot_write_ends_nothing(packed, tmp_path):
    pytest.importorskip("tensorboard")
    folder, _ = train(recipe(packed.folder, steps=2), tmp_path, hooks=[Stop(1)])
    shutil.rmtree(folder.path / "tensorboard")
    (folder.path / "tensorboard").write_text("a file")
    _, outcome = resume(folder.path)

    assert outcome.status == "finished"
    (line,) = [line for line in (folder.path / "log.txt").read_text().splitlines() if "TensorBoard" in line]
    assert line.startswith("note: TensorBoard: FileExistsError: ")


def test_tensorboard_has_a_point_as_often_as_asked(packed, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder, _ = train(recipe(packed.folder, log_every=5, evaluate_every=99), tmp_path)
    found = accumulator.EventAccumulator(str(folder.path / "tensorboard"))
    found.Reload()
    rates = {line["step"]: line["lr"] for line in folder.lines("metrics.jsonl") if "lr" in line}

    assert [event.step for event in found.Scalars("train/loss")] == [5, 10]
    points = {event.step: event.value for event in found.Scalars("train/lr")}
    assert points == pytest.approx({step: rates[step] for step in (5, 10)})
