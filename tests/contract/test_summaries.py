from __future__ import annotations

import sys

import pytest
import torch

from penstock.errors import LabelError, RecipeError
from penstock.extensions.volumes.scores import VolumeScores
from penstock.metrics import Confusion
from penstock.metrics.boxes import DetectionScores, check_extra
from penstock.metrics.classes import ClassificationScores, PredictionCounts
from penstock.metrics.confusion import SegmentationScores
from penstock.metrics.means import mean_of_present


def test_of_masks():
    scores = SegmentationScores(("a", "b", "c"), ((3, 1, 0), (2, 4, 0), (0, 0, 0)))

    assert scores.as_json() == {
        "mean_iou": (3 / 6 + 4 / 7) / 2,
        "pixel_accuracy": 0.7,
        "absent": ["c"],
        "classes": [
            {"name": "a", "iou": 0.5, "recall": 0.75, "precision": 0.6, "f_score": pytest.approx(2 / 3), "pixels": 4},
            {
                "name": "b",
                "iou": 4 / 7,
                "recall": 4 / 6,
                "precision": 0.8,
                "f_score": pytest.approx(8 / 11),
                "pixels": 6,
            },
            {"name": "c", "iou": None, "recall": None, "precision": None, "f_score": None, "pixels": 0},
        ],
        "confusion": [[3, 1, 0], [2, 4, 0], [0, 0, 0]],
    }


def test_of_classes():
    names = ("a", "b", "c", "d", "e", "f")
    matrix = ((3, 1, 0, 0, 0, 0), (2, 4, 0, 0, 0, 0), *[(0,) * 6] * 4)
    bins = ((4, 1, 1.5), (6, 6, 5.5), *[(0, 0, 0.0)] * 13)
    absent = [{"name": name, "accuracy": None, "precision": None, "images": 0} for name in "cdef"]

    assert ClassificationScores(names, matrix, 9, bins).as_json() == {
        "top1": 0.7,
        "top5": 0.9,
        "calibration_error": (0.5 + 0.5) / 10,
        "absent": ["c", "d", "e", "f"],
        "classes": [
            {"name": "a", "accuracy": 0.75, "precision": 0.6, "images": 4},
            {"name": "b", "accuracy": 4 / 6, "precision": 0.8, "images": 6},
            *absent,
        ],
        "confusion": [list(row) for row in matrix],
    }


def test_the_matrix_of_many_classes_is_left_out():
    for count, there in ((100, True), (101, False)):
        scores = PredictionCounts(count).scores([str(number) for number in range(count)])
        assert ("confusion" in scores.as_json()) is there


def test_of_boxes():
    curves = ((1.0, 0.12345), (0.5,), ())
    scores = DetectionScores(("a", "b", "c"), (4, 2, 0), (0.25, 0.5, None), (0.5, 1.0, None), 0.6, 9, curves)

    assert scores.as_json() == {
        "map": 0.375,
        "map50": 0.75,
        "recall": 0.6,
        "found": 9,
        "absent": ["c"],
        "classes": [
            {"name": "a", "ap": 0.25, "ap50": 0.5, "boxes": 4, "precision_at_recall": [1.0, 0.1235]},
            {"name": "b", "ap": 0.5, "ap50": 1.0, "boxes": 2, "precision_at_recall": [0.5]},
            {"name": "c", "ap": None, "ap50": None, "boxes": 0, "precision_at_recall": []},
        ],
    }


def test_of_volumes():
    """The second case has none of c; b is 2 x 4 of 11 voxels in the first case, 2 x 1 of 4 in the second."""
    cases = {"one": ((3, 1, 0), (2, 4, 0), (1, 0, 1)), "two": ((5, 1, 0), (1, 1, 0), (0, 0, 0))}
    found = VolumeScores(("ground", "b", "c"), cases).as_json()

    assert found["cases"] == {"one": [8 / 11, 2 / 3], "two": [0.5, None]}
    assert found["dice"] == [
        {"name": "b", "dice": (8 / 11 + 0.5) / 2, "lowest": 0.5},
        {"name": "c", "dice": 2 / 3, "lowest": 2 / 3},
    ]
    assert found["mean_dice"] == ((8 / 11 + 0.5) / 2 + 2 / 3) / 2
    assert found["confusion"] == [[8, 2, 0], [3, 5, 0], [1, 0, 1]]
    assert found["pixel_accuracy"] == 14 / 20


def test_no_more_than_five_ids_are_named():
    target = torch.arange(10, 22, dtype=torch.uint8).view(1, 3, 4)
    with pytest.raises(LabelError) as caught:
        Confusion(10, 255).update(torch.zeros_like(target), target, ["r#1"])
    assert str(caught.value) == (
        "r#1: expected class ids from 0 to 9, or the ignore label 255, found id 10, 11, 12, 13, 14. Check the number of "
        "classes and the ignore label in dataset.json."
    )


def test_the_mean_of_nothing_is_zero():
    assert (mean_of_present([None, None]), mean_of_present([]), mean_of_present([None, 0.5, 1.0])) == (0.0, 0.0, 0.75)


def test_who_lacks_the_extra_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "faster_coco_eval", None)
    with pytest.raises(RecipeError) as caught:
        check_extra()
    assert str(caught.value) == (
        "Evaluating a detector needs faster-coco-eval. Install "
        "penstock[detect], or train without evaluation: --set data.validation=''."
    )
