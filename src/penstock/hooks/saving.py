"""Checkpoints by the clock, for steps that are slow; and the best ones by other scores."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from penstock.session import Hook, Session
from penstock.session.best import BestMetric, is_best
from penstock.tasks.scoring import Scores


class SaveByTime(Hook):
    """Asks for a checkpoint when the last one is some minutes old; saving changes nothing that is learnt."""

    band = "decide"

    def __init__(self, minutes: float) -> None:
        self.seconds = 60 * minutes
        self._last = 0.0

    def on_start(self, session: Session) -> None:
        """Start the clock."""
        self._last = time.monotonic()

    def after_step(self, session: Session) -> None:
        """Ask, when it is time."""
        if time.monotonic() - self._last >= self.seconds:
            session.request_save()

    def state_dict(self) -> dict[str, Any]:
        """Nothing; a checkpoint is saved now, whoever asked for it."""
        self._last = time.monotonic()
        return {}


class KeepBest(Hook):
    """Keeps the best checkpoint by another score too, as `best-METRIC`, for `--checkpoint best-METRIC`.

    Args:
        metric: the score.
    """

    band = "decide"

    def __init__(self, metric: str) -> None:
        self.metric = metric
        self._best: tuple[int, float] | None = None

    def after_eval(self, session: Session, scores: Scores, loss: float | None) -> None:
        """Mark the checkpoint, where it is the best so far.

        Raises:
            RecipeError: there is no such score.
        """
        value = BestMetric.of(session.task, self.metric).value(scores, "keep_best")
        if is_best(value, self._best):
            self._best = (session.step, value)
            session.saver.mark(f"best-{self.metric}", session.step)

    def on_start(self, session: Session) -> None:
        """Mark the best of a run that went back to an earlier checkpoint; if it is gone, any later one is better."""
        if self._best and not session.saver.mark(f"best-{self.metric}", self._best[0]):
            self._best = None

    def state_dict(self) -> dict[str, Any]:
        """The best so far."""
        return {"best": self._best}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take it back."""
        best = state.get("best")
        self._best = (int(best[0]), float(best[1])) if best else None
