from __future__ import annotations

import numpy as np
import pytest
import torch
import torchmetrics
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import LabelError
from penstock.metrics import Confusion


@given(st.integers(0, 2**31), st.integers(1, 7))
def test_scores_are_what_sets_say(seed, classes):
    """Intersection over union by its definition on sets of pixels, against the confusion matrix."""
    rng = np.random.default_rng(seed)
    target = rng.integers(0, classes, (3, 9, 11))
    predicted = rng.integers(0, classes, (3, 9, 11))
    target[rng.random(target.shape) < 0.2] = 255
    confusion = Confusion(classes, 255)
    for k in range(3):
        confusion.update(torch.from_numpy(predicted[k : k + 1]), torch.from_numpy(target[k : k + 1]), ["x"])
    scores = confusion.scores([str(c) for c in range(classes)])
    valid = target != 255
    for c in range(classes):
        inter = ((target == c) & (predicted == c) & valid).sum()
        union = (((target == c) | (predicted == c)) & valid).sum()
        assert scores.iou[c] == (inter / union if union else None)
    present = [iou for iou in scores.iou if iou is not None]
    assert scores.mean_iou == pytest.approx(np.mean(present) if present else 0)
    assert scores.pixel_accuracy == pytest.approx((target == predicted)[valid].mean() if valid.any() else 0)


def test_absent_classes_are_named_and_false_ones_count():
    confusion = Confusion(4, 255)
    confusion.update(torch.tensor([[[0, 0, 2]]]), torch.tensor([[[0, 0, 0]]]), ["x"])
    scores = confusion.scores("abcd")

    assert scores.iou == [2 / 3, None, 0.0, None]
    assert scores.mean_iou == pytest.approx(1 / 3)
    assert scores.absent == ["b", "d"]
    assert scores.table().splitlines() == [
        "class             IoU   recall          pixels  fraction",
        "a              66.67%   66.67%               3    100.0%",
        "b                   -        -               0      0.0%",
        "c               0.00%        -               0      0.0%",
        "d                   -        -               0      0.0%",
        "mean IoU       33.33%",
        "pixel acc.     66.67%",
        "neither labelled nor predicted, and not in the mean: b, d",
    ]


def test_labels_outside_the_classes_are_refused_and_nothing_is_counted():
    confusion = Confusion(3, 255)
    target = torch.zeros((2, 2, 2), dtype=torch.uint8)
    target[1, 0] = torch.tensor([7, 3])
    with pytest.raises(LabelError) as caught:
        confusion.update(torch.zeros((2, 2, 2)), target, ["a#1", "a#2"])
    assert str(caught.value) == (
        "a#2: expected class ids from 0 to 2, or the ignore label 255, found id 3, 7. Check the number of classes and "
        "the ignore label in dataset.json."
    )
    assert confusion.matrix.sum() == 0


def test_counts_do_not_overflow_or_round():
    confusion = Confusion(2, 255)
    confusion.matrix += 2**53
    confusion.update(torch.tensor([[[1]]]), torch.tensor([[[1]]]), ["x"])

    assert confusion.matrix[1, 1].item() == 2**53 + 1


IGNORED, COUNT = 255, 5


NAMES = [str(number) for number in range(COUNT)]


def drawn(seed):
    """Predicted and true ids, the latter with ignored ones; every class occurs."""
    rng = np.random.default_rng(seed)
    target, found = rng.integers(0, COUNT, (2, 3, 17, 23))
    target[rng.random(target.shape) < 0.2] = IGNORED
    return torch.from_numpy(found), torch.from_numpy(target)


@pytest.mark.parametrize("seed", range(4))
def test_scores_of_masks_are_those_of_torchmetrics(seed):
    found, target = drawn(seed)
    confusion = Confusion(COUNT, IGNORED)
    confusion.update(found, target, list("xyz"))
    scores = confusion.scores(NAMES)
    options = {"task": "multiclass", "num_classes": COUNT, "ignore_index": IGNORED, "average": "none"}
    for mine, name in (
        (scores.iou, "JaccardIndex"),
        (scores.recall, "Recall"),
        (scores.precision, "Precision"),
        (scores.f_score, "F1Score"),
    ):
        theirs = getattr(torchmetrics, name)(**options)(found, target)
        assert mine == pytest.approx(theirs.tolist(), rel=1e-6), name
    matrix = torchmetrics.ConfusionMatrix("multiclass", num_classes=COUNT, ignore_index=IGNORED)(found, target)
    assert [list(row) for row in scores.matrix] == matrix.tolist()
    accuracy = torchmetrics.Accuracy("multiclass", num_classes=COUNT, ignore_index=IGNORED, average="micro")
    assert scores.pixel_accuracy == pytest.approx(accuracy(found, target).item(), rel=1e-6)
