from __future__ import annotations

from dataclasses import replace

import pytest
from support import miniatures
from support.commands import call
from support.defaults import default_recipe
from support.training import Stop, state

from penstock.config import apply
from penstock.datasets import inspect, pack
from penstock.training import resume, train


@pytest.mark.parametrize("name", ["cifar10-tutorial", "cifar10-fast"])
def test_a_run_stopped_after_every_step_is_the_same(tmp_path, name):
    """The first layer of the fast one is told from the data at the start, and must not learn after a resume."""
    miniatures.cifar10(tmp_path / "raw")
    pack(inspect(tmp_path / "raw"), tmp_path / "data")
    settings = ["train.steps=4", "train.batch=4", "train.device=cpu", "data.validation=test", "train.log_origins=true"]
    plain = default_recipe("classification", name)
    chosen = apply(replace(plain, data=replace(plain.data, path=str(tmp_path / "data"))), settings)
    whole, _ = train(chosen, tmp_path / "whole")

    stopped, _ = train(chosen, tmp_path / "stopped", hooks=[Stop(1)])
    for step in (2, 3):
        resume(stopped.path, hooks=[Stop(step)])
    resume(stopped.path)

    assert state(stopped.path) == state(whole.path)


def test_the_recipe_passes_over_all_images_eight_times():
    recipe = default_recipe("classification", "cifar10-fast")

    assert recipe.train.steps * recipe.train.batch == 8 * 50_000
    assert (recipe.augment.border, recipe.augment.alternating_flip) == ("reflect", True)
    assert (recipe.optimizer.unit_filters, recipe.optimizer.decay_biases) == (True, True)


@pytest.mark.parametrize("name", ["cifar10-tutorial", "cifar10-fast"])
def test_both_are_trained_from_the_binary_format_by_their_name(tmp_path, capsys, name):
    miniatures.cifar10(tmp_path / "raw")
    assert call("pack", tmp_path / "raw", "-o", tmp_path / "data", capsys=capsys)[0] == 0
    words = [
        "--model",
        name,
        "--steps",
        2,
        "--batch",
        4,
        "--set",
        "data.validation=test",
        "--runs",
        tmp_path / "runs",
    ]
    code, out, _ = call("train", tmp_path / "data", *words, capsys=capsys)
    (run,) = (tmp_path / "runs").iterdir()

    assert code == 0
    assert "evaluation  loss" in out
    assert call("replay", run, "--step", 2, capsys=capsys)[0] == 0
    again = call("train", "--resume", run, "--steps", 3, capsys=capsys)
    assert again[0] == 0
