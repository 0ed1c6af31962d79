from __future__ import annotations

import json

import torch
from safetensors.torch import load_file
from support.training import recipe

from penstock.assembly import open_run
from penstock.inference import evaluate_run, load_model
from penstock.session import Hook
from penstock.session.ema import EMA
from penstock.training import train


def test_the_average_follows_the_weights_after_every_step(packed, tmp_path):
    """average += (1 - decay) * (weights - average), the decay at most (1 + step) / (10 + step), as in TensorFlow."""

    class Follows(Hook):
        def on_start(self, session):
            self.average = session.model.segmentation_head[0].weight.detach().clone()

        def after_step(self, session):
            step = session.step - 1
            share = 1 - min(0.9, (1 + step) / (10 + step))
            self.average += share * (session.model.segmentation_head[0].weight.detach() - self.average)

    hook = Follows()
    folder, _ = train(recipe(packed.folder, steps=4), tmp_path, hooks=[hook])
    found = load_file(folder.checkpoints / "last" / "ema.safetensors")

    torch.testing.assert_close(found["segmentation_head.0.weight"], hook.average, rtol=1e-5, atol=1e-7)


def test_the_average_is_what_is_evaluated(packed, tmp_path, capsys):
    """In training and after it: the moving average's weights, and not those of the last step."""
    folder, _ = train(recipe(packed.folder, steps=4), tmp_path)
    during = json.loads((folder.path / "evaluations/step-00000004.json").read_text())
    trained = load_model(folder.path, "last", "cpu", open_run(folder.path))
    found = {}
    for name in ("ema", "model"):
        trained.model.load_state_dict(load_file(folder.checkpoints / "last" / f"{name}.safetensors"))
        found[name] = evaluate_run(folder.path, trained).loss

    assert during["loss"] == found["ema"] != found["model"]


def test_buffers_are_those_of_the_model_and_no_average():
    """As TensorFlow has it: statistics of batch normalisation are averages already."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4))
    ema = EMA(EMA.copy(model), model, 0.9)
    for step in range(3):
        model(torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(step)))
        ema.update(model, step)

    for mine, own in zip(ema.model.buffers(), model.buffers(), strict=True):
        assert torch.equal(mine, own)
