from __future__ import annotations

import json

import numpy as np
import pytest

from penstock.assembly import open_run
from penstock.report.sheets import telling_positions
from penstock.tasks.predictions import (
    BoxPrediction,
    ClassPrediction,
    InstancePrediction,
    MaskPrediction,
    MattePrediction,
    Style,
)
from penstock.unpacked import CocoDocument


def test_predictions_show_every_class_that_can_be_shown(trained):
    parts = open_run(trained)
    described, (_, feed) = parts.dataset.description, parts.evaluation("val")
    chosen = telling_positions(described, feed, 3)
    shown = {int(i) for p in chosen for i in set(feed[p].arrays["mask"].ravel().tolist())} - {255}
    there = {int(i) for p in range(len(feed.plan)) for i in set(feed[p].arrays["mask"].ravel().tolist())} - {255}

    assert len(chosen) == 3
    assert shown == there
    assert len(telling_positions(described, feed, 100)) == len(feed.plan)


def said_of_one_image():
    image = np.zeros((4, 6, 3), np.uint8)
    mask = np.array([[0, 0, 0, 0, 0, 2]] * 4, np.uint8)
    probabilities = np.array([0.25, 0.7, 0.05], np.float32)
    names = ("cat", "dog", "elk")
    boxes = np.zeros((7, 4), np.float32)
    scores, labels = np.array([0.9, 0.5, 0.4, 0.3, 0.2, 0.1, 0.1], np.float32), np.array([2, 0, 0, 0, 0, 0, 1])
    masks = np.zeros((7, 4, 6), bool)
    listed = "elk 90.0%, cat 50.0%, cat 40.0%; 4 of 30% or less"
    return [
        (MaskPrediction(image, mask, names, 255), "<MaskPrediction of 4 x 6 pixels: cat 83.3%, elk 16.7%>"),
        (MattePrediction(image, mask * 51), "<MattePrediction of 4 x 6 pixels: 6.7% foreground>"),
        (
            ClassPrediction(image, probabilities, names),
            "<ClassPrediction of 4 x 6 pixels: dog 70.0%, cat 25.0%, elk 5.0%>",
        ),
        (BoxPrediction(image, boxes, scores, labels, names), f"<BoxPrediction of 4 x 6 pixels: {listed}>"),
        (
            BoxPrediction(image, boxes[:0], scores[:0], labels[:0], names),
            "<BoxPrediction of 4 x 6 pixels: nothing>",
        ),
        (
            BoxPrediction(image, boxes, scores + 1, labels, names),
            "<BoxPrediction of 4 x 6 pixels: elk 190.0%, cat 150.0%, cat 140.0%, cat 130.0%, cat 120.0%, and 2 more>",
        ),
        (
            BoxPrediction(image, boxes[5:], scores[5:], labels[5:], names),
            "<BoxPrediction of 4 x 6 pixels: nothing; 2 of 30% or less>",
        ),
        (
            InstancePrediction(image, boxes, scores, labels, names, masks),
            f"<InstancePrediction of 4 x 6 pixels: {listed}>",
        ),
    ]


@pytest.mark.parametrize(("prediction", "line"), said_of_one_image())
def test_a_prediction_is_printed_as_a_line(prediction, line):
    assert repr(prediction) == str(prediction) == line


@pytest.mark.parametrize(("classes", "same"), [(("cat", "Background"), True), (("cat", "sky"), False)])
def test_overlays_leave_the_background_as_it_is(classes, same):
    image = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    mask = np.ones((8, 8), np.uint8)
    mask[4:] = 0
    drawn = MaskPrediction(image, mask, classes, 255).draw()

    assert np.array_equal(drawn[:4], image[:4]) == same
    assert not np.array_equal(drawn[5:], image[5:])


def test_only_what_is_drawn_is_in_the_json():
    boxes = np.array([[1, 1, 9, 9], [2, 2, 8, 8]], np.float32)
    found = BoxPrediction(
        np.zeros((16, 16, 3), np.uint8), boxes, np.array([0.9, 0.2], np.float32), np.array([0, 0]), ("fig",)
    )
    document = CocoDocument(("fig",))
    found.add_to(document, "a.png", Style(score=0.5))
    assert [each["score"] for each in json.loads(document.encoded())["annotations"]] == [0.9]


def test_a_low_score_is_in_the_json_if_it_is_asked_for_and_one_at_the_limit_is_not():
    boxes = np.array([[1, 1, 9, 9], [2, 2, 8, 8]], np.float32)
    found = BoxPrediction(
        np.zeros((16, 16, 3), np.uint8), boxes, np.array([0.25, 0.125], np.float32), np.array([0, 0]), ("fig",)
    )
    document = CocoDocument(("fig",))
    found.add_to(document, "a.png", Style(score=0.125))
    assert [each["score"] for each in json.loads(document.encoded())["annotations"]] == [0.25]
