from __future__ import annotations

import pytest
from support.errors import refused

from penstock.assembly.run_data import run_data_of

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
