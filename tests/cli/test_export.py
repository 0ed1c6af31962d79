from __future__ import annotations

import importlib

import pytest
import torch
from support.commands import call
from support.defaults import default_recipe
from support.shaking import normalised
from torch.nn import functional

from penstock.errors import RecipeError
from penstock.inference.export import export
from penstock.tasks import Classification


class TestExport:
    def test_the_command_exports_several_looks(self, shaken_run, tmp_path, capsys):
        words = ["--checkpoint", "last", "--size", 64, 96, "-o", tmp_path / "a.pt2", "--scales", 0.5, 1, "--flip"]
        assert call("export", shaken_run, *words, capsys=capsys)[0] == 0
        task, model = normalised(shaken_run)
        images = torch.randint(0, 256, (2, 64, 96, 3), dtype=torch.uint8)
        _, found = torch.export.load(tmp_path / "a.pt2").module()(images)
        seen, looks = task.inputs({"image": images}), []
        for height, width in ((32, 64), (64, 96)):
            view = functional.interpolate(
                seen, (height, width), mode="bilinear", align_corners=False, antialias=height < 64
            )
            with torch.inference_mode():
                predictions = model(view).softmax(dim=1), model(view.flip(3)).softmax(dim=1).flip(3)
            looks += [
                functional.interpolate(each, (64, 96), mode="bilinear", align_corners=False) for each in predictions
            ]

        torch.testing.assert_close(found, torch.stack(looks).mean(dim=0), rtol=1e-3, atol=1e-4)

    def test_predictions_that_differ_are_counted_and_said(self, shaken_run, tmp_path, capsys, monkeypatch):
        export = importlib.import_module("penstock.inference.export")

        def otherwise(path, images, names):
            classes, found = read(path, images, names)
            classes = classes.clone()
            classes[:, ::2, ::2] += 1  # a quarter of them
            return classes, found

        read = export._read_pt2
        monkeypatch.setattr(export, "_read_pt2", otherwise)
        code, out, _ = call("export", shaken_run, "-o", tmp_path / "a.pt2", capsys=capsys)

        assert code == 1
        assert "compared with the PyTorch model on random images: 75.00 % of 12,288 pixels are equal, " in out


def test_a_size_that_a_network_cannot_take_is_refused(tmp_path):
    task = Classification("cifar10-fast", ("a", "b"), default_recipe("classification", "cifar10-fast").augment)
    with pytest.raises(RecipeError, match="--size: expected a size of images that the network takes, found 50 x 50"):
        export(task, task.model().eval(), tmp_path / "a.pt2", (50, 50))
