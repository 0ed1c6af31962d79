from __future__ import annotations

import dataclasses

import pytest
import torch
from support.tasks import BOXES, MASKS, VOLUMES

from penstock.tasks import Objective


@pytest.mark.parametrize("task", [MASKS, VOLUMES])
def test_a_task_changes_with_steps_only_where_mining_begins_slowly(task):
    slow = dataclasses.replace(task, objective=Objective(ohem_ratio=0.5, ohem_warmup_steps=10))

    assert task.after(4) is task
    assert slow.after(4).step == 4


def test_nothing_is_known_of_a_image_to_be_predicted():
    found = BOXES.blank(30, 40, torch.device("cpu"))

    assert {name: (tuple(each.shape), each.dtype) for name, each in found.items()} == {
        "size": ((1, 2), torch.int64),
        "boxes": ((1, 0, 4), torch.float32),
        "label": ((1, 0), torch.int64),
        "crowd": ((1, 0), torch.uint8),
    }
    assert found["size"].tolist() == [[30, 40]]
