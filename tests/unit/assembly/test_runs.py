from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from support.training import recipe

from penstock.assembly.runs import open_on
from penstock.datasets import FolderDataset
from penstock.errors import DatasetError, RunError
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


@pytest.mark.parametrize(("field", "value"), [("value_range", (0.0, 9.0)), ("modalities", 2)])
def test_data_that_was_packed_otherwise_is_not_scored_on(packed, tmp_path, field, value):
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path / "runs")
    shutil.copytree(packed.folder, tmp_path / "data")
    other = replace(packed.description, **{field: value})
    FolderDataset(tmp_path / "data", replace(other, content=other.digest())).save()
    with pytest.raises(DatasetError) as caught:
        open_on(folder.path, str(tmp_path / "data"))

    assert str(caught.value) == (
        f"{tmp_path / 'data'}: {field.replace('_', ' ')}: expected {getattr(packed.description, field)}, as {folder.path} "
        f"learnt, found {value}. Choose a dataset that was packed in the same way."
    )
