"""The end of a training before its last step: it gets no better, has reached a step, or has had its time."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any, Final

from penstock.errors import RecipeError
from penstock.progress import counted
from penstock.session import Hook, Session
from penstock.session.best import BestMetric
from penstock.tasks.scoring import Scores

_TIME: Final = re.compile(
    r"(?:(?P<days>\d+)d)?(?:(?P<hours>\d+)h)?(?:(?P<minutes>\d+)m)?(?:(?P<seconds>\d+)s)?", re.ASCII
)


class EarlyStopping(Hook):
    """Asks for the end after some evaluations in a row of which none was better than the best before them."""

    band = "decide"

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self._waited = 0
        self._best: float | None = None

    def after_eval(self, session: Session, scores: Scores, loss: float | None) -> None:
        """Count the evaluations since the best one."""
        best = session.best[1] if session.best else None
        better = best is not None and (self._best is None or best > self._best)
        self._best = best
        self._waited = 0 if better else self._waited + 1
        if self._waited >= self.patience:
            session.request_stop(f"no better score in {counted(self._waited, 'evaluation')} (train.patience)")

    def state_dict(self) -> dict[str, Any]:
        """The evaluations so far."""
        return {"waited": self._waited, "best": self._best}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on counting."""
        self._waited, self._best = state.get("waited", 0), state.get("best")


class StopAtScore(Hook):
    """Asks for the end once an evaluation has reached a score.

    Args:
        score: to be reached: at least this value, or at most for a metric of which smaller values are better.
        metric: one of the scores; by default the one that decides which checkpoint is best.
    """

    band = "decide"

    def __init__(self, score: float, metric: str = "") -> None:
        self.score, self.metric = score, metric

    def after_eval(self, session: Session, scores: Scores, loss: float | None) -> None:
        """Ask, where the score is reached.

        Raises:
            RecipeError: there is no such score.
        """
        deciding = BestMetric.of(session.task, self.metric or session.options.best_metric)
        if deciding.value(scores, "stop_at_score") >= deciding.signed(self.score, scores):
            value = scores.summary()[deciding.name]
            session.request_stop(f"{deciding.name} is {value:.4g} (stop_at_score)")


class MaxTime(Hook):
    """Asks for the end in time: when one more step as long as the longest so far would end too late.

    Args:
        limit: such as 3h55m, 90m or 1d12h, from the start of this training on.

    Raises:
        RecipeError: it is no time.
    """

    band = "decide"

    def __init__(self, limit: str) -> None:
        self.limit, self.seconds = limit, seconds_of(limit)
        self._began = self._last = self._longest = 0.0

    def on_start(self, session: Session) -> None:
        """Start the clock, which goes on where a training is tried again after a failure."""
        self._last = time.monotonic()
        self._began = self._began or self._last

    def after_step(self, session: Session) -> None:
        """Ask, when it is time."""
        now = time.monotonic()
        self._longest, self._last = max(self._longest, now - self._last), now
        if now - self._began + self._longest > self.seconds:
            session.request_stop(f"its time of {self.limit} is over", pause=True)


def seconds_of(text: str) -> int:
    """A time such as 3h55m in seconds.

    Raises:
        RecipeError: it is none.
    """
    match = _TIME.fullmatch(text)
    found = {name: int(value) for name, value in match.groupdict().items() if value} if match else {}
    seconds = 0
    for name, length in (("days", 86_400), ("hours", 3600), ("minutes", 60), ("seconds", 1)):
        seconds += length * found.get(name, 0)
    if not seconds:
        raise RecipeError(
            "--max-time",
            expected="a time above 0, such as 3h55m",
            found=text or "nothing",
            remedy="Write for example 90m",
        )
    return seconds
