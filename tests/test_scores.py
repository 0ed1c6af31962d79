"""What is written of scores, whole, against figures worked out by hand."""

from __future__ import annotations

import sys

import pytest
import torch

from penstock.errors import LabelError, RecipeError
from penstock.metrics import Confusion, Segments
from penstock.metrics.boxes import DetectionScores, check_extra
from penstock.metrics.cases import VolumeScores
from penstock.metrics.classes import Answers, ClassificationScores
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
        scores = Answers(count).scores([str(number) for number in range(count)])
        assert ("confusion" in scores.as_json()) is there


def test_of_boxes():
    scores = DetectionScores(("a", "b", "c"), (4, 2, 0), (0.25, 0.5, None), (0.5, 1.0, None), 0.6, 9)

    assert scores.as_json() == {
        "map": 0.375,
        "map50": 0.75,
        "recall": 0.6,
        "found": 9,
        "absent": ["c"],
        "classes": [
            {"name": "a", "ap": 0.25, "ap50": 0.5, "boxes": 4},
            {"name": "b", "ap": 0.5, "ap50": 1.0, "boxes": 2},
            {"name": "c", "ap": None, "ap50": None, "boxes": 0},
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


class TestSegments:
    def test_whole_and_half_found(self):
        """Class 0 covers 40 of the 64 pixels that either has; of class 1's 16 pixels nothing is found."""
        target, predicted = torch.zeros((1, 8, 8), dtype=torch.uint8), torch.zeros((1, 8, 8), dtype=torch.uint8)
        target[:, :2] = 1
        predicted[:, 7:] = 2
        segments = Segments(4, 255)
        segments.update(predicted, target)
        found = segments.scores().as_json(["a", "b", "c", "d"])

        both, either = 40, 64
        assert [(each["name"], each["panoptic_quality"], each["covering"]) for each in found["segments"]] == [
            ("a", pytest.approx(both / either), pytest.approx(both / either, abs=1e-5)),
            ("b", 0.0, 0.0),
            ("c", 0.0, None),
            ("d", None, None),
        ]
        assert found["panoptic_quality"] == pytest.approx(both / either / 3)
        assert found["covering"] == pytest.approx(both / either / 2, abs=1e-5)

    @pytest.mark.parametrize(("rows", "quality"), [(4, 0.0), (5, 5 / 8)])
    def test_an_overlap_of_half_is_no_match(self, rows, quality):
        target, predicted = torch.full((1, 8, 8), 255, dtype=torch.uint8), torch.ones((1, 8, 8), dtype=torch.uint8)
        target[:] = 1
        predicted[:, rows:] = 0
        segments = Segments(2, 255)
        segments.update(predicted, target)

        assert segments.scores().panoptic_quality[1] == pytest.approx(quality)

    def test_borders_are_as_wide_as_the_picture_wants_that_fills_a_corner(self):
        draw = torch.Generator().manual_seed(1)
        coarse = torch.randint(0, 3, (2, 1, 6, 8), generator=draw).repeat_interleave(20, 2).repeat_interleave(20, 3)
        predicted, target = coarse[0].to(torch.uint8), coarse[1].to(torch.uint8)
        alone, padded = Segments(3, 255), Segments(3, 255)
        alone.update(predicted[:, :40, :60], target[:, :40, :60])
        target[:, 40:], target[:, :, 60:] = 255, 255
        padded.update(predicted, target, torch.tensor([[40, 60]]))
        whole = Segments(3, 255)
        whole.update(predicted, target)

        assert padded.scores().boundary_iou == alone.scores().boundary_iou
        assert whole.scores().boundary_iou != alone.scores().boundary_iou


def test_calibration_is_counted_in_all_of_fifteen_bins():
    """Of 40 classes the surest answer may be less sure than a fifteenth."""
    draw = torch.Generator().manual_seed(2)
    logits = torch.randn((500, 40), generator=draw) * torch.linspace(0, 6, 500).unsqueeze(1)
    logits[0, 7] = 1000.0  # as sure as can be
    probabilities, target = logits.softmax(dim=1), torch.randint(0, 40, (500,), generator=draw)
    answers = Answers(40)
    answers.update(probabilities, target)
    scores = answers.scores([str(number) for number in range(40)])
    confidence, answer = probabilities.double().max(dim=1)
    gaps = 0.0
    for number in range(15):
        edge = 1.0 if number == 14 else (number + 1) / 15
        own = (confidence >= number / 15) & ((confidence < edge) | (number == 14))
        gaps += abs(float((answer == target)[own].sum() - confidence[own].sum()))
        assert scores.bins[number][0] == int(own.sum())

    assert min(count for count, *_ in scores.bins) > 0
    assert scores.calibration_error == pytest.approx(gaps / 500)


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
        "evaluating a detector: expected faster-coco-eval to be installed, found that it is not. Install "
        "penstock[detect], or train without evaluation: --set data.validation=''."
    )
