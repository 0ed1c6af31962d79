from __future__ import annotations

import json

import pytest
from support.errors import refused
from support.training import recipe

from penstock.assembly.run_data import read_run_data, run_data_of
from penstock.errors import RunError
from penstock.training import train

SNAPSHOT = {"source": "a", "partitions": []}


@pytest.mark.parametrize("name", ["../../victim/val", "train+../val", "train+", ""])
def test_names_of_splits_become_no_paths(name):
    refused(
        run_data_of, {"content": "a", "snapshots": {name: SNAPSHOT}}, "data.json",
        message="data.json: expected snapshots by split, with their partitions, found something else. Restore the file from "
        "a copy of the run.",
    )  # fmt: skip


def test_splits_may_be_joined():
    assert run_data_of({"content": "a", "snapshots": {"train+val": SNAPSHOT}}, "data.json").snapshots.keys() == {
        "train+val"
    }


def test_data_that_was_edited_by_hand_is_refused(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path)
    path = folder.path / "data.json"
    tree = json.loads(path.read_text())
    tree["described"]["classes"].reverse()
    path.write_text(json.dumps(tree))
    with pytest.raises(RunError) as caught:
        read_run_data(folder)
    assert str(caught.value) == (
        f"{path}: expected what Penstock wrote, found an edited file. Restore the file from a copy of the run."
    )
