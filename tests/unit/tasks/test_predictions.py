from __future__ import annotations

from penstock.assembly import open_run
from penstock.report.sheets import telling_positions


def test_predictions_show_every_class_that_can_be_shown(trained):
    parts = open_run(trained)
    task, feed = parts.evaluation("val")
    chosen = telling_positions(task, feed, 3)
    shown = {int(i) for p in chosen for i in set(feed[p].arrays["mask"].ravel().tolist())} - {255}
    there = {int(i) for p in range(len(feed.plan)) for i in set(feed[p].arrays["mask"].ravel().tolist())} - {255}

    assert len(chosen) == 3
    assert shown == there
    assert len(telling_positions(task, feed, 100)) == len(feed.plan)
