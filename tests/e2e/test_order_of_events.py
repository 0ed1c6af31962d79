"""However a training comes to its end, it ends with the same weights."""

from __future__ import annotations

import dataclasses

import pytest
from support.commands import call
from support.datasets import learn_colors
from support.training import Stop, recipe

import penstock as ps
from penstock.settings import Regularize
from penstock.training import resume, train

STEPS = 4
BUSY = {"evaluate_every": 1, "save_every": 1, "keep": 9, "log_every": 1}
STATE = ("model.safetensors", "ema.safetensors", "optimizer.safetensors")


def of_masks(request, **changes):
    return recipe(request.getfixturevalue("packed").folder, accumulate=2, **changes)


def of_classes(request, **changes):
    """What is drawn beside the crops: pairs of images, their shares, what is erased."""
    drawn = Regularize(mixup=0.4, cutmix=1.0, random_erasing=0.5)
    return learn_colors(request.getfixturevalue("colors"), regularize=drawn, ema_decay=0.9, **changes)


def evaluated_and_saved(make, root):
    return train(make(**BUSY), root)[0].path


def neither(make, root):
    quiet = make(evaluate_every=STEPS, save_every=STEPS)
    return train(dataclasses.replace(quiet, data=dataclasses.replace(quiet.data, validation="")), root)[0].path


def resumed_at_every_step(make, root):
    path = train(make(**BUSY), root, hooks=[Stop(1)])[0].path
    for step in range(2, STEPS):
        resume(path, hooks=[Stop(step)])
    return resume(path)[0].path


def rolled_back(make, root):
    path = evaluated_and_saved(make, root)
    return resume(path, checkpoint="step-00000002")[0].path


def looked_at_between(make, root):
    """Everything that reads a run, and could leave something behind."""
    path = train(make(**BUSY), root, hooks=[Stop(2)])[0].path
    run = ps.Run(path)
    run.evaluate("train", checkpoint="step-00000001")
    run.note("looked at", tag=["x"])
    for words in (
        ["replay", path, "--step", 4],
        ["report", path],
        ["show", run.recipe.data.path, "-o", root / "s.png"],
    ):
        assert call(*words)[0] == 0
    return resume(path)[0].path


def made_longer(make, root):
    path = train(make(**{**BUSY, "steps": 2}), root)[0].path
    return resume(path, [f"train.steps={STEPS}"])[0].path


WAYS = (evaluated_and_saved, resumed_at_every_step, rolled_back, looked_at_between, made_longer)


def weights(path):
    last = (path / "checkpoints/last").resolve()
    assert last.name == f"step-{STEPS:08d}"
    return {name: (last / name).read_bytes() for name in STATE}


@pytest.mark.slow
@pytest.mark.parametrize("begin", [of_masks, of_classes])
def test_every_way_ends_with_the_same_weights(request, begin, tmp_path):
    def make(**changes):
        found = begin(request, **{"steps": STEPS, **changes})
        return dataclasses.replace(found, optimizer=dataclasses.replace(found.optimizer, schedule="constant"))

    wanted = weights(neither(make, tmp_path / "neither"))

    assert {way.__name__ for way in WAYS if weights(way(make, tmp_path / way.__name__)) != wanted} == set()
