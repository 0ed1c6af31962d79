from __future__ import annotations

import torch
from safetensors.torch import load_file
from support.training import recipe

from penstock.config import load
from penstock.inference import load_model
from penstock.training import train


def test_weights_of_a_run_are_those_of_its_average(packed, tmp_path):
    """What `--init` begins with."""
    folder, _ = train(recipe(packed.folder, steps=2), tmp_path)
    average = load_file(folder.checkpoints / "last" / "ema.safetensors")

    assert load(folder.path / "recipe.toml").train.ema_decay == 0.9
    weights = load_model(folder.path, device="cpu").model.state_dict()
    assert all(torch.equal(weights[name], average[name]) for name in average)
