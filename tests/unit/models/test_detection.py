from __future__ import annotations

import numpy as np
import pytest
import torch
from support.commands import call
from support.defaults import default_recipe

from penstock.config import load
from penstock.models import build_detector
from penstock.session.optimizer import make_optimizer
from penstock.settings.optimizer import Muon
from penstock.tasks import Detection, ReadyModel


def test_detectors_have_a_backbone():
    model = build_detector("ssd:test_resnet", 2, "none")
    optimizer = make_optimizer(Muon(lr=0.1, head_lr_mult=10), model)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    filters = {names[id(p)] for g in optimizer.param_groups if g.get("orthogonal") for p in g["params"]}
    faster = {names[id(p)] for g in optimizer.param_groups if g["lr_mult"] == 10 for p in g["params"]}

    assert filters
    assert all(name.startswith("network.backbone.encoder.") for name in filters)
    assert not any(name.startswith("network.backbone.encoder.") for name in faster)


def test_half_of_the_digits_do_not_move_boxes():
    torch.manual_seed(0)
    model = build_detector("ssd:test_resnet", 2, "none").eval()
    task = Detection("ssd:test_resnet", ("a", "b"), 4)
    pixels = np.random.default_rng(0).integers(0, 255, (320, 512, 3), np.uint8)
    found = task.predictor.predict(ReadyModel(model, precision="bfloat16"), pixels)

    assert found.boxes.dtype == np.float32
    assert len(found.boxes) > 0
    rounded = torch.from_numpy(found.boxes).bfloat16().float().numpy()
    assert (np.abs(rounded - found.boxes) > 0.01).any()  # finer than bfloat16 could tell


@pytest.mark.parametrize("without", [("--weights", "none"), ("--set", "model.weights=none")])
def test_norms_keep_their_statistics_where_there_are_any(squares, tmp_path, capsys, without):
    words = ["--model", "ssd:test_resnet", "--crop", 64, 64, "--batch", 2, "--steps", 1, "--runs", tmp_path]
    call("train", squares.folder, *without, *words, capsys=capsys)
    (run,) = tmp_path.iterdir()

    assert default_recipe("detection").train.freeze_bn
    assert not load(run / "recipe.toml").train.freeze_bn
