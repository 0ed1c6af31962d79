from __future__ import annotations

import numpy as np
import pytest
import torch

from penstock.metrics import Mattes


def test_scores_are_their_definitions_however_images_are_divided():
    draw = np.random.default_rng(0)
    predicted, target = draw.random((6, 7, 8)).astype(np.float32), draw.integers(-1, 256, (6, 7, 8)).astype(np.int16)
    whole, parts = Mattes(-1), [Mattes(-1) for _ in range(3)]
    whole.update(torch.from_numpy(predicted), torch.from_numpy(target))
    for number, part in enumerate(parts):
        part.update(torch.from_numpy(predicted[number::3]), torch.from_numpy(target[number::3]))
    valid = target >= 0
    found, true = np.rint(predicted * 255)[valid] / 255, target[valid] / 255
    scores = whole.scores().as_json()

    assert torch.equal(sum(part.counts for part in parts), whole.counts)
    assert scores["mae"] == pytest.approx(np.abs(found - true).mean())
    assert scores["mse"] == pytest.approx(np.square(found - true).mean())
    assert scores["sad"] == pytest.approx(np.abs(found - true).sum() / 1000)
    assert scores["iou"] == pytest.approx(((found > 0.5) & (true > 0.5)).sum() / ((found > 0.5) | (true > 0.5)).sum())
    assert whole.scores().summary() == {"mae": scores["mae"], "iou": scores["iou"]}


def test_nothing_is_found_where_nothing_is():
    empty = Mattes(-1)
    empty.update(torch.zeros(1, 4, 4), torch.zeros(1, 4, 4, dtype=torch.int16))
    assert empty.scores().iou == 1.0
