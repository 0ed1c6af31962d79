from __future__ import annotations

import dataclasses

import pytest
import torch
from support.tasks import BOXES, MASKS, VOLUMES

from penstock.errors import RecipeError
from penstock.settings import Objective
from penstock.tasks import TASKS, Segmentation, find_task


@pytest.mark.parametrize("task", [MASKS, VOLUMES])
def test_a_task_changes_with_steps_only_where_mining_begins_slowly(task):
    slow = dataclasses.replace(task, objective=Objective(ohem_ratio=0.5, ohem_warmup_steps=10))

    assert task.after(4) is task
    assert slow.after(4).step == 4


def test_nothing_is_known_of_an_image_to_be_predicted():
    found = BOXES.blank(30, 40, torch.device("cpu"))

    assert {name: (tuple(each.shape), each.dtype) for name, each in found.items()} == {
        "size": ((1, 2), torch.int64),
        "boxes": ((1, 0, 4), torch.float32),
        "label": ((1, 0), torch.int64),
        "crowd": ((1, 0), torch.uint8),
    }
    assert found["size"].tolist() == [[30, 40]]


class TestFindTask:
    @pytest.mark.parametrize(
        ("name", "described", "message"),
        [
            ("segmentation", "detection", "task = segmentation: expected a task that learns from the dataset's records, detection, "
             "found one that learns from segmentation. Name another task, or leave it out."),
            ("penstock.extensions.volumes.task:Volumes", "segmentation", "task = penstock.extensions.volumes.task:Volumes: expected a task that learns from the "
             "dataset's records, segmentation, found one that learns from volumes. Name another task, or leave it out."),
            ("segmentation", "code/depth.py:Depth", "task = segmentation: expected a task that learns from the dataset's records, "
             "code/depth.py:Depth, found one that learns from segmentation. Name the task: --task FILE.py:NAME."),
            ("", "code/depth.py:Depth", "task: expected FILE.py:NAME of a task for records of code/depth.py:Depth, found nothing. "
             "Name the task: --task FILE.py:NAME."),
            ("", "", "task: expected one of segmentation, matting, classification, detection, instances, volumes, or FILE.py:NAME, found "
             "nothing. Name a task."),
            ("cooking", "volumes", "task: expected one of segmentation, matting, classification, detection, instances, volumes, or "
             "FILE.py:NAME, found cooking. Name a task."),
        ],
    )  # fmt: skip
    def test_what_cannot_be_found_or_learns_from_other_records_is_refused(self, name, described, message):
        with pytest.raises(RecipeError) as caught:
            find_task(name, described)

        assert str(caught.value) == message

    @pytest.mark.parametrize("described", ["", *TASKS])
    @pytest.mark.parametrize("name", ["", "segmentation", "penstock.tasks:Segmentation"])
    def test_the_dataset_decides_where_no_task_is_named(self, name, described):
        if name and described in ("", "segmentation"):
            assert find_task(name, described) is Segmentation
        elif described and not name:
            assert find_task(name, described) is TASKS[described]
        else:
            with pytest.raises(RecipeError, match=r"^task"):
                find_task(name, described)
