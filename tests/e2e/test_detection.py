from __future__ import annotations

import csv
import dataclasses
import json

import cv2
import numpy as np
import pytest
import torch
from support import miniatures
from support.commands import call
from support.datasets import learn_squares
from support.training import Stop, state, stops

from penstock.assembly import open_experiment
from penstock.config import apply
from penstock.datasets import inspect, pack
from penstock.errors import RecipeError
from penstock.images import drawing, geometry
from penstock.inference import TrainedModel
from penstock.models import build_detector
from penstock.settings import Objective
from penstock.tasks import ReadyModel
from penstock.tasks.predictions import BoxPrediction
from penstock.training import resume, train

pytestmark = pytest.mark.slow


def predicted(monkeypatch, boxes, scores, labels):
    """Have every model find the same boxes in every image."""

    def predict(trained, pixels):
        arrays = np.array(boxes, np.float32), np.array(scores, np.float32), np.array(labels)
        return BoxPrediction(pixels, *arrays, trained.parts.task.classes)

    monkeypatch.setattr(TrainedModel, "predict", predict)


class TestTraining:
    @pytest.mark.parametrize(  # instances take the way of Faster R-CNN in every run
        "architecture", [pytest.param("fasterrcnn", marks=pytest.mark.soak), "retinanet", "fcos", "ssd"]
    )
    def test_every_detector_learns_evaluates_and_predicts(self, squares, tmp_path, capsys, architecture):
        chosen = learn_squares(squares, f"{architecture}:test_resnet", steps=1, evaluate_every=1)
        folder, outcome = train(chosen, tmp_path / "runs")
        code, out, _ = call("evaluate", folder.path, capsys=capsys)
        image = squares.folder.parent / "raw" / "p0.png"

        assert outcome.status == "finished"
        assert code == 0
        assert "mAP" in out
        assert "loss" not in out.splitlines()[-8]
        assert call("predict", folder.path, image, "-o", tmp_path / "out", capsys=capsys)[0] == 0
        assert (tmp_path / "out" / "p0-boxes.png").is_file()
        assert call("replay", folder.path, "--step", 1, capsys=capsys)[0] == 0

    def test_a_split_may_have_more_boxes_in_a_image_than_the_one_that_is_learnt(self, squares, tmp_path):
        rows = [
            f"p{n}.png,red,{split},1,1,{20 + m},30"
            for n, split, boxes in ((0, "train", 1), (1, "val", 5))
            for m in range(boxes)
        ]
        raw = tmp_path / "raw"
        for name in ("p0.png", "p1.png"):
            miniatures.write(raw / name, (squares.folder.parent / "raw" / name).read_bytes())
        miniatures.write(raw / "boxes.csv", "\n".join(["file,class,split,xmin,ymin,xmax,ymax", *rows]) + "\n")
        crowded = pack(inspect(raw), tmp_path / "data")
        _, outcome = train(learn_squares(crowded, steps=1, batch=1, evaluate_every=1), tmp_path / "runs")

        assert [split.objects for split in crowded.description.splits.values()] == [1, 5]
        assert outcome.status == "finished"

    @pytest.mark.every_step
    def test_a_run_that_is_stopped_at_any_step_ends_the_same(self, squares, tmp_path):
        whole, _ = train(learn_squares(squares), tmp_path / "whole")
        kept = {"state.json", "manifest.json"}
        expected = {name: data for name, data in state(whole.path).items() if name not in kept}
        for step in stops(range(1, 4)):
            stopped, _ = train(learn_squares(squares), tmp_path / f"stopped{step}", hooks=[Stop(step)])
            resume(stopped.path)
            assert {name: data for name, data in state(stopped.path).items() if name not in kept} == expected, step

    @pytest.mark.soak  # 250 steps, half a minute
    def test_it_finds_squares(self, squares, tmp_path):
        chosen = learn_squares(squares, "ssd:resnet10t", steps=250, batch=4, evaluate_every=250, save_every=250)
        folder, _ = train(apply(chosen, ["optimizer.lr=0.005"]), tmp_path)

        assert folder.lines("metrics.jsonl")[-1]["evaluation"]["map50"] > 0.5

    @pytest.mark.parametrize("size", [(60, 80), (200, 130)])
    def test_boxes_of_predictions_are_in_pixels_of_the_image(self, squares, size):
        task = open_experiment(apply(learn_squares(squares), ["augment.resize_range=[120, 150]"])).task
        seen = []

        class Whole(torch.nn.Module):
            """Finds one thing, as large as the image that it is shown."""

            def forward(self, inputs):
                height, width = inputs["size"][0].tolist()
                seen.append((height, width, tuple(inputs["image"].shape[2:])))
                box = torch.tensor([[0.0, 0.0, width, height]])
                return [{"boxes": box, "labels": torch.tensor([1]), "scores": torch.tensor([0.9])}]

        found = task.predictor.predict(ReadyModel(Whole()), np.zeros((*size, 3), np.uint8))

        assert seen == [(*geometry.fit_range(size, 120, 150), geometry.fit_range(size, 120, 150))]
        assert found.boxes[0] == pytest.approx([0, 0, size[1], size[0]])

    def test_predictions_are_a_table_of_boxes(self, squares, tmp_path, capsys, monkeypatch):
        folder, _ = train(learn_squares(squares, steps=1), tmp_path / "runs")
        predicted(monkeypatch, [[1, 2, 30, 40]], [0.75], [1])
        image = squares.folder.parent / "raw" / "p0.png"
        code, _, _ = call("predict", folder.path, image, "-o", tmp_path / "out", capsys=capsys)
        rows = list(csv.DictReader((tmp_path / "out" / "predictions.csv").read_text().splitlines()))

        assert code == 0
        shape = cv2.imread(str(image)).shape
        coco = json.loads((tmp_path / "out/predictions.json").read_text())
        assert coco["images"] == [{"id": 1, "file_name": image.name, "height": shape[0], "width": shape[1]}]
        assert [(each["bbox"], each["score"]) for each in coco["annotations"]] == [([1, 2, 29, 38], 0.75)]
        drawn = cv2.imread(str(tmp_path / "out" / f"{image.stem}-boxes.png"))
        scale = drawn.shape[0] // shape[0]
        assert (drawn.shape[:2], scale > 1) == ((scale * shape[0], scale * shape[1]), True)
        assert tuple(drawn[scale * 20, scale * 1, ::-1]) == tuple(drawing.palette(drawing.OBJECTS)[1])
        assert rows == [
            {"file": str(image), "class": "red", "score": "0.750000", "xmin": "1.00", "ymin": "2.00", "xmax": "30.00", "ymax": "40.00"}
        ]  # fmt: skip

    def test_boxes_are_drawn_that_score_above_what_is_said(self, squares, tmp_path, capsys, monkeypatch):
        folder, _ = train(learn_squares(squares, steps=1), tmp_path / "runs")
        predicted(monkeypatch, [[1, 2, 30, 40]] * 2, [0.75, 0.2], [1, 0])
        image, out = squares.folder.parent / "raw" / "p0.png", tmp_path / "out"
        said = [
            call("predict", folder.path, image, "-o", out, *words, capsys=capsys)[1].splitlines()[-1]
            for words in ([], ["--score", 0.75], ["--score", 0.1])
        ]

        assert said == [
            f"{out / 'predictions.csv'} holds 2 candidate boxes, in pixels; NAME-boxes.png shows the {drawn} that score above {score}, "
            "and predictions.json holds them as COCO does"
            for drawn, score in ((1, 0.3), (0, 0.75), (2, 0.1))
        ]
        assert call(
            "predict", folder.path, image, "-o", out, "--color", "--sliding-window", 64, "--score", 0.5, capsys=capsys
        ) == (
            2,
            "",
            "error: A sliding window is not supported for detection. Remove --sliding-window.\n",
        )

    def test_what_a_detector_cannot_do_is_refused(self, squares, tmp_path, capsys):
        with pytest.raises(RecipeError, match="A choice of losses is not supported for detection"):
            _ = open_experiment(dataclasses.replace(learn_squares(squares), loss=Objective(dice=1.0))).task
        with pytest.raises(RecipeError) as caught:
            build_detector("fasterrcnn:vit_tiny_patch16_224", 2, "none")
        assert str(caught.value) == (
            "model.name = 'fasterrcnn:vit_tiny_patch16_224': expected a backbone with features at strides 4, 8, 16, 32, "
            "found vit_tiny_patch16_224. Choose a convolutional one, such as resnet50 or convnext_tiny."
        )
        folder, _ = train(learn_squares(squares, steps=1), tmp_path)
        capsys.readouterr()
        assert call("evaluate", folder.path, "--flip", capsys=capsys) == (
            2,
            "",
            "error: Test-time augmentation is not supported for detection. Remove --flip.\n",
        )
        assert call("evaluate", folder.path, "--flip", "--scales", 0.5, 1, capsys=capsys)[2] == (
            "error: Test-time augmentation is not supported for detection. Remove --scales and --flip.\n"
        )
