from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, nan

import pytest

from penstock.errors import RecipeError
from penstock.session.best import BestMetric, is_best


@dataclass
class Scores:
    values: dict
    lower_is_better: frozenset = field(default_factory=frozenset)

    def summary(self):
        return self.values


@dataclass
class Task:
    best_metric: str = "iou"
    lower_is_better: frozenset = frozenset({"error"})


@pytest.mark.parametrize(
    ("value", "best", "expected"),
    [(0.1, None, True), (0.1, (3, 0.2), False), (0.2, (3, 0.2), True), (0.3, (3, 0.2), True),
     (nan, None, False), (inf, (3, 0.2), False), (-inf, None, False)],
)  # fmt: skip
def test_of_equal_scores_the_newer_is_the_best_and_what_is_not_finite_never_is(value, best, expected):
    assert is_best(value, best) is expected


def test_the_tasks_score_decides_unless_another_is_chosen():
    scores = Scores({"iou": 0.5, "error": 3.0, "distance": 2.0}, frozenset({"distance"}))

    assert BestMetric.of(Task(), "").value(scores) == 0.5
    assert BestMetric.of(Task(), "error").value(scores) == -3.0
    assert BestMetric.of(Task(), "distance").value(scores) == -2.0


def test_a_score_that_is_not_there_is_named():
    with pytest.raises(RecipeError) as caught:
        BestMetric.of(Task(), "dice").value(Scores({"iou": 0.5, "error": 3.0}))

    assert str(caught.value) == (
        "train.best_metric: expected one of iou, error, found dice. Choose one of these scores, such as iou."
    )
