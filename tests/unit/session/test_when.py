from __future__ import annotations

from types import SimpleNamespace

import pytest
from support.line import BATCH, Numbers, session

from penstock.session import AtEnd, Either, Epochs, Hook, Moment, Seconds, Steps


class Counts(Hook):
    def __init__(self, every):
        self.every, self.called = every, {"before": [], "backward": [], "after": []}

    def before_step(self, session):
        self.called["before"].append(session.step + 1)

    def after_backward(self, session):
        self.called["backward"].append(session.step + 1)

    def after_step(self, session):
        self.called["after"].append(session.step)


def called(folder, every, steps=9, records=10, end=None):
    """The steps at which the three points of a step are called, of a training on ten records, four a step."""
    hook, feed = Counts(every), Numbers(end)
    feed.plan.epoch = lambda position: position / records
    session(folder, steps, feed=feed, hooks=[hook]).train()
    assert hook.called["before"] == hook.called["backward"] == hook.called["after"]
    return hook.called["after"]


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        (Steps(), list(range(1, 10))),
        (Steps(4), [4, 8]),
        (Epochs(), [3, 5, 8]),  # 4, 8, [12, 16, [20, 24, 28, [32, 36
        (Epochs(2), [5]),
        (Epochs(0.5), [2, 3, 4, 5, 7, 8, 9]),
        (AtEnd(), [9]),
        (Either(Steps(4), AtEnd()), [4, 8, 9]),
    ],
)
def test_points_are_called_as_often_as_it_says(tmp_path, every, expected):
    assert called(tmp_path, every) == expected


def test_a_plan_that_ends_has_a_last_step(tmp_path):
    assert called(tmp_path, AtEnd(), steps=9, end=3 * BATCH) == [3]


def test_seconds_are_counted_from_call_to_call(tmp_path, monkeypatch):
    """A clock on which a step takes two seconds."""
    now = iter(range(0, 100, 2))
    monkeypatch.setattr("penstock.session.attached.time", SimpleNamespace(monotonic=lambda: next(now)))

    assert called(tmp_path, Seconds(5)) == [3, 6, 9]


@pytest.mark.parametrize("records", [3, 7, 1281167])
def test_every_pass_ends_once_however_it_is_rounded(records):
    every, passed = Epochs(), 0
    for step in range(1, 40 * records // 4 if records < 10 else 400):
        moment = Moment(step, ((step - 1) * 4 / records, step * 4 / records))
        due = every.due(moment)
        assert due == (step * 4 // records > (step - 1) * 4 // records)
        passed += due
    assert passed > 0 or records > 10
