"""Early stopping: the end of a training that gets no better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.progress import counted
from penstock.session import Hook

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.session import Session
    from penstock.tasks.base import Scores


class EarlyStopping(Hook):
    """Asks for the end after some evaluations in a row of which none was better than the best before them."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self._waited = 0
        self._best: float | None = None

    def after_eval(self, session: Session, scores: Scores, loss: float | None) -> None:
        """Count the evaluations since the best one."""
        del scores, loss
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
