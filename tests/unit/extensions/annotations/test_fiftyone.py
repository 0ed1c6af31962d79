from __future__ import annotations

import json

import numpy as np
from support import annotations as tools
from support.miniatures import make_image, write

from penstock.datasets import LayoutOptions, inspect


def samples(root, **fields):
    """One sample."""
    write(root / "data/a.jpg", make_image(tools.SIZE))
    write(root / "samples.json", json.dumps({"samples": [{"filepath": "data/a.jpg", **fields}]}))


def test_the_ground_truth_counts_and_not_what_a_model_found(tmp_path):
    truth, found = (
        {"detections": [{"label": label, "bounding_box": [0.25, 0.25, 0.5, 0.5]}]} for label in ("dog", "wolf")
    )
    samples(tmp_path, predictions=found, ground_truth=truth)

    assert inspect(tmp_path).labels.classes == ("dog",)


def test_inner_outlines_are_holes(tmp_path):
    square = [[[0.125, 0.125], [0.875, 0.125], [0.875, 0.875], [0.125, 0.875]]]
    hole = [[[0.25, 0.25], [0.75, 0.25], [0.75, 0.75], [0.25, 0.75]]]
    samples(tmp_path, ground_truth={"polylines": [{"label": "ring", "points": square + hole, "closed": True}]})

    (item,) = inspect(tmp_path, how=LayoutOptions(task="instances")).items
    expected = np.zeros(tools.SIZE, bool)
    expected[3:21, 4:28] = True
    expected[6:18, 8:24] = False
    np.testing.assert_array_equal(item.item.label[0].pixels(tools.SIZE), expected)
