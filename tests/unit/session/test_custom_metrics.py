from __future__ import annotations

import pytest
from support.training import recipe

import penstock as ps
from penstock.config import apply
from penstock.training import train

METRICS = '''
import torch


class Batches:
    """Counts batches: by turns more and fewer."""

    def __init__(self):
        self.state = torch.zeros(1, dtype=torch.float64)

    def update(self, outputs, tensors):
        self.state += 1

    def compute(self):
        global turn
        turn += 1
        return {"own": [3.0, 1.0, 2.0][turn % 3]}


class Errors(Batches):
    lower_is_better = True


turn = -1
'''


@pytest.mark.parametrize(("name", "best"), [("Batches", 2), ("Errors", 4)])
def test_the_metric_that_is_named_decides_which_is_best(packed, tmp_path, name, best):
    (tmp_path / "own.py").write_text(METRICS + f"# {name}\n")
    settings = [f"train.metrics=['{tmp_path}/own.py:{name}']", "train.best_metric=own", "train.evaluate_every=2"]
    folder, _ = train(apply(recipe(packed.folder, steps=6), settings), tmp_path / "runs")

    assert (folder.checkpoints / "best").resolve().name == f"step-{best:08d}"
    scores = [line["evaluation"]["own"] for line in ps.Run(folder.path).metrics if "evaluation" in line]
    assert scores == [3.0, 1.0, 2.0]
