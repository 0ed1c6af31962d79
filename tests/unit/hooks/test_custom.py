from __future__ import annotations

import importlib.util

import pytest
from support.training import recipe

from penstock.config import apply
from penstock.errors import RecipeError
from penstock.hooks.custom import check_hooks
from penstock.training import train


def test_hooks_of_the_recipe_are_attached(packed, tmp_path):
    chosen = apply(recipe(packed.folder, steps=3), ["hooks=[{name='profiler', every=2}, 'fed_images']"])
    folder, _ = train(chosen, tmp_path)

    assert [path.name for path in (folder.path / "profiles").iterdir()] == ["profile-00000002.json"]


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_what_a_hook_needs_and_is_not_installed_is_named_before_a_run(packed, tmp_path, monkeypatch, name):
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    with pytest.raises(RecipeError) as caught:
        check_hooks([name])
    monkeypatch.undo()
    check_hooks([name])

    assert str(caught.value) == f"The hook {name} needs {name}. Install penstock[{name}]."
