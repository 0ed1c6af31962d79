from __future__ import annotations

import json

import pytest

from penstock.errors import CheckpointError
from penstock.session.saving import Standing
from penstock.values import Cursor


@pytest.mark.parametrize("best", [None, (4, 0.25)])
def test_where_a_training_stands_is_kept_as_json(best):
    standing = Standing(7, Cursor(56, "plan"), best, pending_evaluation=True)

    assert Standing.from_json(7, json.loads(json.dumps(standing.as_json()))) == standing


def test_a_step_leaves_the_data_path_at_one_position():
    Standing(7, Cursor(56, "plan")).check_position(8, "run/step")
    with pytest.raises(CheckpointError) as caught:
        Standing(7, Cursor(55, "plan")).check_position(8, "run/step")

    assert str(caught.value) == (
        "run/step: expected a cursor at position 56, behind 7 steps, found position 55. The checkpoint is of another "
        "batch size, or damaged: use another one of the run."
    )
