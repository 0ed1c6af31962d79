"""Checkpoints by the clock, for steps that are slow."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from penstock.session import Hook

if TYPE_CHECKING:
    from penstock.session import Session


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
