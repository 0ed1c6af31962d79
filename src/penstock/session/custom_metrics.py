"""Custom metrics beside a task's, by their places: `FILE.py:NAME` or `package.module:NAME`.

A metric is a class that is called with those of `classes` (names) and `ignore` (the label that does not count) that it
has parameters for. What it counts lies in `state`, a tensor that is added up over all ranks. `update(outputs, tensors)`
counts one batch, of which the padding is left out; `compute()` gives scores by name. Where smaller scores are better,
`lower_is_better` is true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import torch

from penstock import custom
from penstock.errors import RecipeError
from penstock.metrics import number_table
from penstock.tasks import Task
from penstock.tasks.scoring import Collective, Scores

_SETTING: Final = "train.metrics"
_PARTS: Final = ("state", "update", "compute")


class CustomMetric(Protocol):
    """What a custom metric has."""

    state: torch.Tensor

    def update(self, outputs: Any, tensors: Mapping[str, torch.Tensor]) -> None:
        """Count one batch."""

    def compute(self) -> Mapping[str, float]:
        """The scores of what has been counted."""


@dataclass(frozen=True)
class MergedScores:
    """A task's scores and those of metrics beside them.

    Attributes:
        of_task: the scores of the task.
        more: by name.
        lower_is_better: those of which smaller ones are better.
    """

    of_task: Scores
    more: Mapping[str, float]
    lower_is_better: frozenset[str] = frozenset()

    def summary(self) -> dict[str, float]:
        """All scores in one line."""
        return {**self.of_task.summary(), **self.more}

    def as_json(self) -> dict[str, Any]:
        """Everything, for a file."""
        return {**self.of_task.as_json(), **self.more}

    def table(self) -> str:
        """The task's table, and a line for each of the others."""
        return f"{self.of_task.table()}\n{number_table(self.more)}"


def load_metrics(places: Sequence[str], task: Task) -> list[CustomMetric]:
    """The metrics at some places, that have counted nothing yet.

    Raises:
        RecipeError: one is not there, or lacks a part.
    """
    return [_metric(text, task) for text in places]


def _metric(text: str, task: Task) -> CustomMetric:
    place = custom.import_path_of(text)
    if place is None:
        raise RecipeError(
            _SETTING, expected="FILE.py:NAME or package.module:NAME", found=text, remedy="Name places alone"
        )
    offered = {"classes": task.classes, "ignore": task.ignore}
    metric: CustomMetric = custom.call(custom.load(place, _SETTING), place, _SETTING, offered)
    if missing := [part for part in _PARTS if not hasattr(metric, part)]:
        raise RecipeError(
            f"{_SETTING} = {place}",
            expected=f"an object with {', '.join(_PARTS)}",
            found=f"one without {', '.join(missing)}",
            remedy="Add them",
        )
    return metric


def merged(scores: Scores, metrics: Sequence[CustomMetric], ranks: Collective) -> Scores:
    """A task's scores with those of some metrics, once all ranks have counted."""
    if not metrics:
        return scores
    more: dict[str, float] = {}
    lower: set[str] = set()
    for metric in metrics:
        ranks.sum(metric.state)
        found = {name: float(value) for name, value in metric.compute().items()}
        more |= found
        if getattr(metric, "lower_is_better", False):
            lower |= set(found)
    return MergedScores(scores, more, frozenset(lower))
