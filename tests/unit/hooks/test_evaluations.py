from __future__ import annotations

from types import SimpleNamespace

import pytest
from support.training import Stop, recipe

from penstock.errors import RecipeError
from penstock.hooks.evaluations import EvaluationFiles
from penstock.training import resume, train


def test_validation_may_begin_and_end(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=3), tmp_path, hooks=[Stop(2)])
    assert resume(folder.path, ["data.validation="])[1].step == 3
    with pytest.raises(RecipeError, match="no_such"):
        resume(folder.path, ["no_such=1"])


def test_evaluations_of_steps_that_are_undone_go(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=4, evaluate_every=2, save_every=2), tmp_path)
    kept = (folder.path / "evaluations/step-00000002.json").read_bytes()
    session = SimpleNamespace(step=2)
    EvaluationFiles(folder, "val").on_start(session)

    assert [path.name for path in sorted((folder.path / "evaluations").glob("step-*.json"))] == ["step-00000002.json"]
    assert (folder.path / "evaluations/step-00000002.json").read_bytes() == kept
