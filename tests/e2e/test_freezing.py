from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file
from support.training import Stop, recipe, state
from torch import nn

from penstock.assembly import open_experiment
from penstock.assembly.experiment import freeze_backbone
from penstock.errors import RecipeError
from penstock.training import resume, train


def test_frozen_norms_keep_their_statistics_and_learn_their_weights(packed, tmp_path):
    chosen = recipe(packed.folder, batch=2, freeze_bn=True)
    before = open_experiment(chosen).model().state_dict()
    run, _ = train(chosen, tmp_path)
    after = load_file(run.path / "checkpoints" / "last" / "model.safetensors")
    statistics = [name for name in before if "running_" in name]

    assert statistics
    assert all(torch.equal(before[name], after[name]) for name in statistics)
    assert not torch.equal(before["encoder.model.bn1.weight"], after["encoder.model.bn1.weight"])


def test_a_frozen_backbone_stays_as_it_is_and_all_else_learns(packed, tmp_path):
    chosen = recipe(packed.folder, steps=3, evaluate_every=3, freeze_backbone=True, ema_decay=0.0)
    before = open_experiment(chosen).model().state_dict()
    folder, _ = train(chosen, tmp_path / "whole")
    stopped, _ = train(chosen, tmp_path / "stopped", hooks=[Stop(2)])
    resume(stopped.path)
    after = load_file(folder.path / "checkpoints" / "last" / "model.safetensors")

    assert state(stopped.path) == state(folder.path)
    for name, tensor in after.items():
        assert torch.equal(tensor, before[name]) == name.startswith("encoder."), name


def test_what_has_no_backbone_cannot_freeze_it():
    with pytest.raises(RecipeError) as caught:
        freeze_backbone(nn.Linear(2, 2), "cifar10-fast")

    assert str(caught.value) == (
        "train.freeze_backbone: expected a model with a backbone: one for segmentation, mattes or classes, found "
        "cifar10-fast. Leave it out; train.freeze_bn keeps the statistics of norms."
    )
