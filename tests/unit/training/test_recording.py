from __future__ import annotations

from support.training import recipe

from penstock.config import apply, load
from penstock.training import train
from penstock.training.recording import record_changes


def test_what_is_given_to_a_resume_is_given_from_then_on(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path)
    before = folder.read_json("settings.json")["given"]
    record_changes(folder, apply(load(folder.path / "recipe.toml"), ["optimizer.lr=0.5"]), 1)

    assert folder.read_json("settings.json")["given"] == {**before, "optimizer.lr": 0.5}


def test_the_recipe_of_a_step_is_kept_as_it_was_first(packed, tmp_path):
    """A resume that fails before its first step may be followed by one with yet another setting."""
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path)
    before = load(folder.path / "recipe.toml")
    for lr in (0.5, 0.25):
        record_changes(folder, apply(load(folder.path / "recipe.toml"), [f"optimizer.lr={lr}"]), 1)

    assert load(folder.path / "recipe-until-step-00000001.toml") == before
