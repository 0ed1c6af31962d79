"""The samples of an evaluation that a model does worst on."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.session.best import BestMetric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ranks import Ranks
    from penstock.tasks import Task
    from penstock.tasks.roles import Tensors


class Bad(NamedTuple):
    """A sample that a model does badly on.

    Attributes:
        badness: larger is worse.
        position: in the evaluation's order.
        text: its loss or its score, for people.
    """

    badness: float
    position: int
    text: str


@dataclass
class Worst:
    """Looks at each sample of an evaluation by itself: at its mean loss or, of tasks that have none in evaluation, at
    the score that decides which checkpoint is best.

    Attributes:
        task: what is asked.
        count: how many of the worst are remembered.
    """

    task: Task
    count: int
    _found: list[Bad] = field(default_factory=list, init=False)

    def look(self, outputs: Any, tensors: Tensors, positions: Sequence[int]) -> None:
        """Look at the samples of a batch."""
        for row, position in enumerate(positions):
            part = {name: tensor[row : row + 1] for name, tensor in tensors.items()}
            self._found.append(Bad(*self._judged(outputs[row : row + 1], part, position)))
        self._found = _worst(self._found, self.count)

    def of(self, ranks: Ranks) -> list[Bad]:
        """The worst of all ranks, which call this together, the worst first."""
        texts = ranks.gather([json.dumps(each) for each in self._found])
        return _worst([Bad(*json.loads(text)) for text in texts], self.count)

    def _judged(self, outputs: Any, part: Tensors, position: int) -> tuple[float, int, str]:
        if self.task.evaluates_loss:
            counts = self.task.count(part).cpu()
            losses = self.task.loss(outputs, part).detach().cpu() / counts.clamp(min=1)
            loss = float(losses.sum())
            return loss if math.isfinite(loss) else math.inf, position, f"loss {loss:.3f}"
        metric = self.task.metric()
        metric.update(outputs, part, ["this one"])
        scores, deciding = metric.scores(), BestMetric.of(self.task, "")
        value = deciding.value(scores)
        badness = -math.inf if math.isnan(value) else -value  # there is nothing to be found
        return badness, position, f"{deciding.name} {scores.summary()[deciding.name]:.3f}"


def _worst(found: Sequence[Bad], count: int) -> list[Bad]:
    return sorted(found, key=lambda each: (-each.badness, each.position))[:count]
