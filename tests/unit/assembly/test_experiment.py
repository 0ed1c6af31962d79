from __future__ import annotations

from support.training import recipe

from penstock.assembly import open_experiment
from penstock.config import apply


def test_a_limit_is_one_of_training_alone(packed):
    """What is evaluated afterwards is the whole split; while training, the part of it that training may use."""
    parts = open_experiment(apply(recipe(packed.folder, steps=1), ["data.limit=3"]))

    assert len(parts.evaluation("val")[1].plan) == packed.description.splits["val"].records > 3
    assert len(parts.evaluation("val", whole=False)[1].plan) == 3
