from __future__ import annotations

import torch
from support.training import recipe

from penstock.assembly import open_experiment
from penstock.ranks import Ranks
from penstock.training import wiring


def test_evaluations_during_training_compute_as_it_does(packed, monkeypatch):
    given = {}
    monkeypatch.setattr(wiring, "evaluate", lambda *_, **named: given.update(named))
    parts = open_experiment(recipe(packed.folder, steps=1, precision="bfloat16"))
    run = wiring.evaluation_of(parts, Ranks(), torch.device("cpu"), pin_memory=False)
    run(torch.nn.Identity(), lambda: False)

    assert (given["precision"], given["metrics"]) == ("bfloat16", parts.recipe.train.metrics)
