"""Settings of a training combine freely: every pair of them, in few trainings; each resumes exactly, and has the loss of
one process on two ranks.
"""

from __future__ import annotations

import itertools
import json

import pytest
from support.norms import two_ranks
from support.training import Stop, recipe, state

from penstock.config import apply, dump
from penstock.training import resume, train

pytestmark = pytest.mark.slow

CHOICES = {
    "train.accumulate": (1, 2),
    "train.precision": ("float32", "bfloat16"),
    "train.ema_decay": (0.0, 0.9),
    "train.freeze_bn": ("false", "true"),
    "train.freeze_backbone": ("false", "true"),
    "train.nonfinite": ("stop", "skip", "rewind"),
    "train.async_save": ("true", "false"),
    "train.deterministic": ("false", "true"),
    "train.activation_checkpointing": ("false", "true"),
    "train.fsdp": ("false", "true"),
    "train.compile": ("false", "true"),
    "train.grad_clip": (0.0, 0.1),
    "optimizer.name": ("sgd", "adamw", "muon"),
    "loss.ohem_ratio": (1.0, 0.5),
    "model.name": ("deeplabv3plus:test_resnet", "segformer:mit_b0"),
}


IMPOSSIBLE = {("train.fsdp", "true"), ("optimizer.name", "muon")}


def pairs(row):
    return set(itertools.combinations(row.items(), 2))


def rows():
    """Trainings that have every pair of choices between them: each the one of many that has most of what is left."""
    whole = [dict(zip(CHOICES, values, strict=True)) for values in itertools.product(*CHOICES.values())][::67]
    whole = [row for row in whole if not set(row.items()) >= IMPOSSIBLE]
    left = set().union(*(pairs(row) for row in whole))
    found = []
    while left:
        best = max(whole, key=lambda row: len(pairs(row) & left))
        found.append(best)
        left -= pairs(best)
    return sorted(found, key=lambda row: row["train.compile"])  # what takes longest comes last


ROWS = rows()
QUICK = (3, 4)
"""Of those that compile nothing, one with a fused optimizer of its own and one that cuts weights; `make soak` tries all."""


def chosen(packed, row, **settings):
    made = recipe(packed.folder, row["model.name"], steps=4, save_every=3, evaluate_every=9, keep=9, **settings)
    words = [f"{name}={value}" for name, value in row.items() if name != "model.name"]
    return apply(made, [*words, "optimizer.lr=0.001", "train.batch=4"])


def test_every_pair_is_tried():
    tried = set().union(*map(pairs, ROWS))
    for (one, ones), (other, others) in itertools.combinations(CHOICES.items(), 2):
        for values in itertools.product(ones, others):
            pair = (one, values[0]), (other, values[1])
            assert (pair in tried) is (set(pair) != IMPOSSIBLE)
    assert len(ROWS) < 20
    assert all(ROWS[n]["train.compile"] == "false" for n in QUICK)


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=str(n), marks=[] if n in QUICK else pytest.mark.soak) for n, row in enumerate(ROWS)]
)
def test_a_combination_resumes_exactly_and_does_not_depend_on_ranks(packed, tmp_path, row):
    made = chosen(packed, row)
    whole, outcome = train(made, tmp_path / "whole")
    stopped, _ = train(made, tmp_path / "stopped", hooks=[Stop(2)])
    resume(stopped.path)
    assert outcome.status == "finished"
    assert state(stopped.path) == state(whole.path)

    (tmp_path / "recipe.toml").write_text(dump(apply(made, ["train.steps=1"])))
    two_ranks("-m", "penstock", "train", tmp_path / "recipe.toml", "--runs", tmp_path / "two")
    (two,) = (tmp_path / "two").iterdir()
    one, other = (
        json.loads((path / "metrics.jsonl").read_text().splitlines()[0])["loss"] for path in (whole.path, two)
    )
    alike = row["train.accumulate"] == 1 or row["train.freeze_bn"] == "true"  # else norms see other micro-batches
    if alike:
        assert other == pytest.approx(one, rel=2e-2 if row["train.precision"] == "bfloat16" else 1e-4)
