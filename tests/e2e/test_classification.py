from __future__ import annotations

import csv
import dataclasses
import json

import pytest
from support import miniatures
from support.commands import call
from support.datasets import learn_colors
from support.training import Stop, state, stops

from penstock.assembly import open_experiment
from penstock.config import apply
from penstock.errors import LabelError, RecipeError
from penstock.kinds.fields import ClassificationRecord, encode_classification
from penstock.settings import Model, Regularize
from penstock.settings.optimizer import SGD, Muon
from penstock.training import resume, train
from penstock.values import Record

MIXED = Regularize(mixup=0.4, cutmix=1.0, random_erasing=0.5)


class TestTraining:
    @pytest.mark.parametrize("optimizer", [SGD, Muon])
    @pytest.mark.every_step
    def test_a_run_that_is_stopped_at_any_step_ends_the_same(self, colors, tmp_path, optimizer):
        chosen = learn_colors(colors, regularize=MIXED, optimizer=optimizer(lr=0.05), ema_decay=0.9)
        whole, _ = train(chosen, tmp_path / "whole")
        kept = {"state.json", "manifest.json"}  # the hook that stops is in them
        expected = {name: data for name, data in state(whole.path).items() if name not in kept}
        for step in stops(range(1, 8)):
            stopped, _ = train(chosen, tmp_path / f"stopped{step}", hooks=[Stop(step)])
            resume(stopped.path)
            assert {name: data for name, data in state(stopped.path).items() if name not in kept} == expected, step

    def test_it_learns(self, colors, tmp_path, capsys):
        folder, _ = train(learn_colors(colors, steps=24, evaluate_every=24), tmp_path)
        last = folder.lines("metrics.jsonl")[-1]["evaluation"]
        words = ["--flip", "--shift", "1", "--checkpoint", "last"]
        code, out, _ = call("evaluate", folder.path, *words, capsys=capsys)

        assert last["top1"] > 0.8
        assert code == 0
        looked = json.loads((folder.path / "evaluations" / "val-00000024-x1-flip-shift1.json").read_text())
        assert looked["tta"] == {"scales": [1.0], "flip": True, "shift": 1}
        assert looked["top1"] > 0.8
        assert "class         accuracy  precision      images" in out
        assert "calibration" in out

    def test_images_are_moved_by_less_than_their_size(self, colors, tmp_path, capsys):
        folder, _ = train(learn_colors(colors, steps=1), tmp_path)

        assert call("evaluate", folder.path, "--shift", 31, capsys=capsys)[0] == 0
        assert call("evaluate", folder.path, "--shift", 32, capsys=capsys) == (
            2,
            "",
            "error: --shift: expected fewer pixels than the crop's 32, as the border is mirrored, found 32. "
            "Use a smaller shift, such as 1.\n",
        )

    def test_predictions_are_a_table(self, colors, tmp_path, capsys):
        folder, _ = train(learn_colors(colors, steps=24), tmp_path / "runs")
        raw = colors.folder.parent / "raw" / "val"
        code, _, _ = call("predict", folder.path, raw, "-o", tmp_path / "out", capsys=capsys)
        rows = list(csv.DictReader((tmp_path / "out" / "predictions.csv").read_text().splitlines()))

        assert code == 0
        assert len(rows) == 9
        assert sum(row["class1"] in row["file"] for row in rows) >= 7
        assert all(
            sum(float(row[f"probability{rank}"]) for rank in (1, 2, 3)) == pytest.approx(1, abs=1e-5) for row in rows
        )

    def test_what_does_not_fit_a_label_a_image_is_refused(self, colors, packed):
        cases = {
            "loss.dice=1": "loss: expected cross_entropy or focal, for one label an image, found loss.dice=1.0. Leave out "
            "the others.",
            "loss.ohem_ratio=0.5": "loss: expected cross_entropy or focal, for one label an image, found loss.ohem_ratio=0.5. "
            "Leave out the others.",
            "augment.crop=[0, 4]": "augment.crop: expected a number above 0, found 0. Choose a larger number.",
        }
        for setting, message in cases.items():
            with pytest.raises(RecipeError) as caught:
                _ = open_experiment(apply(learn_colors(colors), [setting])).task
            assert str(caught.value) == message
        with pytest.raises(
            RecipeError,
            match=r"Batch augmentation \(mixup, CutMix, random erasing, brightness, contrast\) is not supported for segmentation",
        ):
            _ = open_experiment(
                dataclasses.replace(learn_colors(packed, regularize=MIXED), model=Model("unet:test_resnet", "none"))
            ).task

    def test_the_tutorials_network_is_for_its_size(self, colors):
        chosen = dataclasses.replace(learn_colors(colors), model=Model("cifar10-tutorial", "none"))
        with pytest.raises(RecipeError) as caught:
            open_experiment(chosen).model()

        assert str(caught.value) == (
            "augment.crop: expected 24 x 24, which cifar10-tutorial is made for, found 32 x 32. Use --crop 24 24."
        )

    def test_looking_at_other_sizes_is_refused(self, colors, tmp_path, capsys):
        folder, _ = train(learn_colors(colors, steps=1), tmp_path)
        capsys.readouterr()

        assert call("evaluate", folder.path, "--scales", "0.5", "1", capsys=capsys) == (
            2,
            "",
            "error: Test-time augmentation at other scales is not supported for classification. Remove --scales.\n",
        )

    def test_a_label_outside_the_classes_is_named(self, colors):
        prepare = open_experiment(learn_colors(colors)).task.prepare(train=False)
        record = Record(
            "s#1", encode_classification(ClassificationRecord(miniatures.make_image(), 3, "a", "jpeg", 24, 32))
        )
        with pytest.raises(LabelError) as caught:
            prepare(record, None, {})

        assert str(caught.value) == (
            "s#1: expected a class from 0 to 2, found 3. Check the classes in dataset.json, or pack the data again."
        )
