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
