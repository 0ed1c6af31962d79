from __future__ import annotations

import pytest

from penstock.assembly.presets import resolve
from penstock.config import parse_settings
from penstock.tasks import TASKS


@pytest.mark.parametrize(
    ("learnt", "model", "setting", "key"),
    [
        ("volumes", "", "loss.cross_entropy=0.0", "loss.cross_entropy"),
        ("classification", "cifar10-tutorial", "optimizer.warmup_steps=30000", "optimizer.warmup_steps"),
    ],
)
def test_settings_are_checked_beside_the_defaults_of_what_is_learnt(monkeypatch, learnt, model, setting, key):
    """Volumes have a loss besides, and the tutorial's network more steps, than where nothing is known yet."""
    from operator import attrgetter

    from penstock.assembly import resolving

    monkeypatch.setattr(resolving, "_task", lambda data: learnt)
    monkeypatch.setattr(resolving, "_opened", lambda data: None)
    monkeypatch.setattr(resolving, "with_data_defaults", lambda resolved, dataset, task: resolved)
    changes = [f"model.name={model}"] if model else []
    found = resolving.resolve_settings({"data.path": "/nowhere", **parse_settings([*changes, setting])})

    assert attrgetter(key)(found.recipe) == float(setting.partition("=")[2])


def test_the_defaults_of_a_task_follow_from_the_weights():
    """Without pretrained ones the norms of a detector have no statistics to keep."""
    found = [resolve(given, TASKS["detection"]).recipe.train.freeze_bn for given in ({}, {"model.weights": "none"})]

    assert found == [True, False]
