from __future__ import annotations

from dataclasses import replace

from support.training import recipe

from penstock.assembly import open_experiment
from penstock.config import apply


def test_a_limit_is_one_of_training_alone(packed):
    """What is evaluated afterwards is the whole split, though the run was begun with a part of it."""
    parts = open_experiment(apply(recipe(packed.folder, steps=1), ["data.limit=3"]))
    part = parts.evaluation("val", whole=False)[1].plan.snapshot
    begun = replace(parts, pinned={"val": part})

    assert len(part) == 3
    assert len(begun.evaluation("val", whole=False)[1].plan) == 3
    assert len(begun.evaluation("val")[1].plan) == packed.description.splits["val"].records > 3
