from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from support.sessions import make_session
from support.training import recipe

from penstock.assembly import open_experiment
from penstock.settings import Objective, Train


def test_every_step_is_in_the_metrics_once(whole_run):
    lines = [json.loads(line) for line in (whole_run / "metrics.jsonl").read_text().splitlines()]

    assert [line["step"] for line in lines if "loss" in line] == list(range(1, 13))
    assert [line["step"] for line in lines if "evaluation" in line] == [4, 8, 12]


@pytest.mark.parametrize(
    "objective",
    [
        Objective(),
        Objective(class_weights="median", label_smoothing=0.1),
        Objective(ohem_ratio=0.25),
        Objective(ohem_threshold=0.3, dice=0.5),
        Objective(cross_entropy=0.0, focal=1.0, lovasz=1.0, tversky=0.5),
    ],
    ids=["plain", "weighted", "hardest", "threshold and dice", "focal, lovasz and tversky"],
)
def test_accumulation_is_the_same_mathematics(packed, tmp_path, objective):
    """Without batch statistics, micro-batches give the gradients of the whole batch, up to rounding."""
    losses = {}
    for pieces in (1, 2, 3):
        parts = open_experiment(dataclasses.replace(recipe(packed.folder, accumulate=pieces), loss=objective))
        session = make_session(parts, tmp_path / str(pieces), Train(steps=1, accumulate=pieces), freeze=True)
        session.train()
        losses[pieces] = (session.loss, [p.grad.clone() for p in session.model.parameters() if p.grad is not None])
    for pieces in (2, 3):
        assert losses[pieces][0] == pytest.approx(losses[1][0], rel=1e-5)
        for a, b in zip(losses[pieces][1], losses[1][1], strict=True):
            assert torch.allclose(a, b, rtol=1e-3, atol=1e-5)
