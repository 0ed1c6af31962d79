from __future__ import annotations

import pytest
from support.training import Stop, recipe

from penstock.errors import RecipeError
from penstock.training import resume, train


def test_validation_may_begin_and_end(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=3), tmp_path, hooks=[Stop(2)])
    assert resume(folder.path, ["data.validation="])[1].step == 3
    with pytest.raises(RecipeError, match="no_such"):
        resume(folder.path, ["no_such=1"])
