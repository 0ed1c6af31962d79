"""The weights that a run begins with are kept in it."""

from __future__ import annotations

import shutil

import pytest
import timm
import torch
from support.commands import call
from support.training import recipe

from penstock.config import apply
from penstock.runs.comparing import compare
from penstock.session import Hook
from penstock.training import resume, train


def last(run):
    return (run / "checkpoints/last/model.safetensors").read_bytes()


@pytest.fixture
def runs(packed, tmp_path):
    """A run, and one that begins with its weights."""
    first, _ = train(recipe(packed.folder, steps=2), tmp_path / "runs")
    second, _ = train(apply(recipe(packed.folder, steps=2), {"init": str(first.path), "seed": 5}), tmp_path / "runs")
    return first.path, second.path


def test_a_run_is_trained_again_although_what_it_began_with_is_gone(runs, capsys):
    first, second = runs
    shutil.rmtree(first)
    code, out, _ = call("train", second / "recipe.toml", "--runs", second.parent, "--name", "again", capsys=capsys)

    (again,) = second.parent.glob("*-again")
    assert (code, f"init from {second / 'initial.safetensors'}:" in out) == (0, True)
    assert last(again) == last(second)
    found = compare([second, again])
    assert (found.recipe, found.code) == ({}, {})


def test_weights_of_a_file_are_copied(packed, tmp_path, runs, capsys):
    second = runs[1]
    file = tmp_path / "mine.safetensors"
    shutil.copyfile(second / "initial.safetensors", file)
    begun, _ = train(apply(recipe(packed.folder, steps=2), {"init": str(file), "seed": 5}), tmp_path / "others")
    assert last(begun.path) == last(second)

    backbone = tmp_path / "backbone.pth"
    torch.save(timm.create_model("test_resnet").state_dict(), backbone)
    of_file, _ = train(
        apply(recipe(packed.folder, steps=2), {"model.name": "unet:test_resnet", "model.weights": str(backbone)}),
        tmp_path / "others",
    )
    backbone.unlink()
    call("train", of_file.path / "recipe.toml", "--runs", tmp_path / "others", "--name", "again", capsys=capsys)
    (again,) = (tmp_path / "others").glob("*-again")
    assert last(again) == last(of_file.path)


class Broken(Hook):
    """Ends a training before its first step."""

    def on_start(self, session):
        raise RuntimeError


def test_a_run_that_was_broken_off_before_its_first_step_begins_with_the_same_weights(packed, tmp_path, runs):
    first, second = runs
    settings = apply(recipe(packed.folder, steps=2), {"init": str(first), "seed": 5})
    with pytest.raises(RuntimeError):
        train(settings, tmp_path / "broken", hooks=[Broken()])
    shutil.rmtree(first)
    (broken,) = (tmp_path / "broken").iterdir()
    resume(broken)

    assert last(broken) == last(second)


def test_other_weights_in_their_place_are_refused(runs, capsys):
    first, second = runs
    began = (second / "settings.json").read_text().partition('"initial": "')[2][:64]
    shutil.copyfile(first / "checkpoints/last/model.safetensors", second / "initial.safetensors")
    code, _, err = call("train", second / "recipe.toml", "--runs", second.parent, capsys=capsys)

    assert code == 2
    assert err.startswith(
        f"error: {second}/initial.safetensors: expected the weights that the run began with (SHA-256 {began}), found "
    )
    assert len([*second.parent.iterdir()]) == 2


def test_a_run_that_was_gone_on_with_by_other_settings_says_so(runs, capsys):
    first, _ = runs
    call("train", "--resume", first, "--lr", 0.5, "--steps", 4, capsys=capsys)
    kept = first / "recipe-until-step-00000002.toml"
    assert "lr = 0.5" not in kept.read_text()
    assert "lr = 0.5" in (first / "recipe.toml").read_text()
    out = call("train", first / "recipe.toml", "--runs", first.parent, "--steps", 2, capsys=capsys)[1]

    assert f"note: {first} was resumed with other settings; it began with those of {kept.name}\n" in out
