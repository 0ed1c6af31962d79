"""Which of two evaluations is the better one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.errors import RecipeError
from penstock.tasks import Task
from penstock.tasks.scoring import Scores


@dataclass(frozen=True)
class BestMetric:
    """The score that decides which evaluation is the best.

    Attributes:
        name: of the score.
        lower_is_better: names of the task's scores of which the smaller is the better.
    """

    name: str
    lower_is_better: frozenset[str] = frozenset()

    @classmethod
    def of(cls, task: Task, chosen: str) -> BestMetric:
        """A score that was chosen, or else the task's main one."""
        return cls(chosen or task.best_metric, frozenset(task.lower_is_better))

    def value(self, scores: Scores, setting: str = "train.best_metric") -> float:
        """The score, so that a larger one is better.

        Raises:
            RecipeError: there is no score of that name.
        """
        summary = scores.summary()
        if self.name not in summary:
            raise RecipeError(
                setting,
                expected=f"one of {', '.join(summary)}",
                found=self.name,
                remedy=f"Choose one of these scores, such as {next(iter(summary))}",
            )
        return self.signed(summary[self.name], scores)

    def signed(self, value: float, scores: Scores) -> float:
        """A value of the score, so that a larger one is better."""
        lower = {*self.lower_is_better, *getattr(scores, "lower_is_better", ())}
        return -value if self.name in lower else value


def is_best(value: float, best: tuple[int, float] | None) -> bool:
    """Whether a score is at least as good as the best so far: of equal ones the newer is the best."""
    return math.isfinite(value) and (best is None or value >= best[1])
