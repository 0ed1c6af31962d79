from __future__ import annotations

import json

import pytest
from support import annotations as tools

from penstock.datasets import LayoutOptions, inspect


@pytest.mark.parametrize("place", ["", "train"])
def test_classes_have_the_order_of_the_project(tmp_path, place):
    """That of one of its datasets lies above it."""
    tools.supervisely(tmp_path)
    (tmp_path / "meta.json").write_text(json.dumps({"classes": [{"title": name} for name in ("zebra", "dog", "cat")]}))

    found = inspect(tmp_path / place, how=LayoutOptions(task="detection"))
    assert found.labels.classes == ("zebra", "dog", "cat")
    assert [box.label for box in found.items[0].item.label] == [1, 2]
