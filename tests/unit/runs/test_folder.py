from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from support.commands import call
from support.training import Stop, recipe, state

from penstock.config import load
from penstock.errors import RunError
from penstock.runs import RunFolder
from penstock.training import resume, train


def test_a_new_run_has_a_folder_of_its_own(packed, tmp_path):
    first, _ = train(recipe(packed.folder, steps=2), tmp_path, "same")
    before = state(first.path)
    second, _ = train(recipe(packed.folder, steps=3), tmp_path, "same")

    assert [path.name for path in sorted(tmp_path.iterdir())] == ["0001-same", "0002-same"]
    assert second.path.name == "0002-same"
    assert state(first.path) == before


def test_it_says_what_was_asked_where_it_ran_and_on_which_data(packed, tmp_path):
    chosen = recipe(packed.folder, steps=2)
    folder, _ = train(chosen, tmp_path)
    where = json.loads((folder.path / "environment.json").read_text())
    data = json.loads((folder.path / "data.json").read_text())

    assert load(folder.path / "recipe.toml") == chosen
    assert where["packages"]["torch"] == torch.__version__.partition("+")[0]
    assert where["command"]
    assert (where["ranks"], where["device"].partition(" ")[0]) == (1, "cpu")
    assert data["content"] == packed.description.content
    assert [Path(name).name for name in data["snapshots"]["train"]["source"].split()] == [
        shard.name for shard in packed.split("train").shards
    ]


def test_events_are_what_happened(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=4), tmp_path, hooks=[Stop(2)])
    resume(folder.path)
    lines = [json.loads(line) for line in (folder.path / "events.jsonl").read_text().splitlines()]

    assert [(line["event"], line["step"]) for line in lines] == [
        ("started", 0), ("stopped", 2), ("resumed", 2), ("evaluated", 4), ("finished", 4),
    ]  # fmt: skip


def test_runs_are_numbered_whatever_their_names_and_go_on_where_they_are(packed, tmp_path, capsys):
    """Another start for weights that have already moved is refused, not passed over."""
    for name in ("one", "other"):
        words = ["--name", name, "--runs", tmp_path, "--model", "unet:test_resnet", "--weights", "none", "--steps", 1]
        assert call("train", packed.folder, *words, "--batch", 4, "--crop", 32, 32, capsys=capsys)[0] == 0
    first, second = sorted(tmp_path.iterdir())
    assert (first.name, second.name) == ("0001-one", "0002-other")
    code, _, errors = call("train", "--resume", second, "--init", first, capsys=capsys)
    assert (code, "init: expected " in errors) == (2, True)
    assert call("train", "--resume", second, "--steps", 2, capsys=capsys)[0] == 0

    assert sorted(tmp_path.iterdir()) == [first, second]
    assert (second / "checkpoints" / "last").resolve().name == "step-00000002"


@pytest.mark.parametrize("name", ["a/b", "a\\b", "a\nb"])
def test_a_name_that_no_folder_can_have_is_refused_before_anything_is_written(packed, tmp_path, name):
    with pytest.raises(RunError) as caught:
        train(recipe(packed.folder, steps=2), tmp_path / "runs", name)
    assert str(caught.value) == (
        f"--name {name!r} cannot be part of a folder's name. Remove slashes and control characters; --runs sets the "
        "folder that all runs are in."
    )
    assert not (tmp_path / "runs").exists()


def test_a_file_is_no_run(tmp_path):
    (tmp_path / "data.json").write_text("{}")
    with pytest.raises(RunError) as caught:
        RunFolder.open(tmp_path / "data.json")

    assert str(caught.value) == (
        f"{tmp_path}/data.json: expected a run folder, with a recipe.toml, found a file. Name a folder that penstock train "
        "made, for example runs/0001-..."
    )
