from __future__ import annotations

from support.training import recipe

from penstock.config import apply
from penstock.training import train


def test_hooks_of_the_recipe_are_attached(packed, tmp_path):
    chosen = apply(recipe(packed.folder, steps=3), ["hooks=[{name='profiler', every=2}, 'checkpoint_saver']"])
    folder, _ = train(chosen, tmp_path)

    assert [path.name for path in (folder.path / "profiles").iterdir()] == ["profile-00000002.json"]
