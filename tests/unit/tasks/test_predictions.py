from __future__ import annotations

import numpy as np
import pytest

from penstock.assembly import open_run
from penstock.report.sheets import telling_positions
from penstock.tasks.predictions import MaskPrediction


def test_predictions_show_every_class_that_can_be_shown(trained):
    parts = open_run(trained)
    task, feed = parts.evaluation("val")
    chosen = telling_positions(task, feed, 3)
    shown = {int(i) for p in chosen for i in set(feed[p].arrays["mask"].ravel().tolist())} - {255}
    there = {int(i) for p in range(len(feed.plan)) for i in set(feed[p].arrays["mask"].ravel().tolist())} - {255}

    assert len(chosen) == 3
    assert shown == there
    assert len(telling_positions(task, feed, 100)) == len(feed.plan)


@pytest.mark.parametrize(("classes", "same"), [(("cat", "Background"), True), (("cat", "sky"), False)])
def test_overlays_leave_the_background_as_it_is(classes, same):
    image = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    mask = np.ones((8, 8), np.uint8)
    mask[4:] = 0
    drawn = MaskPrediction(image, mask, classes, 255).draw()

    assert np.array_equal(drawn[:4], image[:4]) == same
    assert not np.array_equal(drawn[5:], image[5:])
