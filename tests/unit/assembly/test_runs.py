from __future__ import annotations

import pytest
from support.training import recipe

from penstock.errors import RunError
from penstock.training import resume, train


def test_a_run_made_before_settings_were_renamed_is_refused_in_a_sentence(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path)
    (folder.path / "settings.json").unlink()
    environment = folder.read_json("environment.json")
    environment["packages"]["penstock"] = "0.1.0"
    folder.write_json("environment.json", environment)
    text = (folder.path / "recipe.toml").read_text()
    (folder.path / "recipe.toml").write_text(text.replace("\nlr = ", "\nlearning_rate = "))
    with pytest.raises(RunError) as caught:
        resume(folder.path)

    assert str(caught.value) == (
        f"{folder.path}: this run was made by Penstock 0.1.0, in which settings had other names. Resume, evaluate and predict "
        "it with that version, or train again."
    )
