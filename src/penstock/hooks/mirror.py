"""What is mirrored to other tools, which may fail without harm."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.errors import reason_of
from penstock.session import Hook, Session
from penstock.tasks.scoring import Scores


def settings_of(folder: Path) -> dict[str, Any]:
    """The settings of a run by their names, such as "train.steps"."""
    return _flat(tomllib.loads((folder / "recipe.toml").read_text()))


def _flat(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= _flat(value, f"{before}{name}.") if isinstance(value, dict) else {f"{before}{name}": value}
    return found


class Mirror(Hook):
    """The base of hooks that write elsewhere what the run folder already has: an error in one of their methods is
    reported once, and they write nothing more; training goes on.

    Subclasses override `open`, `log_step`, `log_scores` and `close`.
    """

    band = "persist"
    tool = ""
    """The name of the tool, for people."""
    requires = ""
    """The package that it is written with, and the extra of that name."""

    def __init__(self) -> None:
        self._is_working = False
        self._mark = (0, 0.0)

    def open(self, session: Session) -> None:
        """Begin to write; what lies beyond `session.step` is to go."""

    def log_step(self, session: Session) -> None:
        """Write what a step has to say."""

    def log_scores(self, session: Session, scores: Scores, loss: float | None) -> None:
        """Write what an evaluation has found."""

    def close(self) -> None:
        """End."""

    def numbers(self, session: Session) -> dict[str, float]:
        """What a step has to say, by name, with throughput since the last call; no loss of a step that was left out."""
        step, began = self._mark
        self._mark = (session.step, time.perf_counter())
        images = max(0, session.step - step) * session.feed.batch
        found = {
            "train/images_per_second": images / (self._mark[1] - began),
            "train/data_wait": session.timing["wait"] / session.timing["step"],
            "train/lr": session.lr,
        }
        if not session.is_left_out:
            found |= {"train/loss": session.loss, "train/grad_norm": session.grad_norm}
        return found

    def on_start(self, session: Session) -> None:
        """Open it, on the rank that writes."""
        self._is_working = session.ranks.is_main
        self._mark = (session.step, time.perf_counter())
        self._try(session, "open", session)

    def after_step(self, session: Session) -> None:
        """Mirror a step."""
        self._try(session, "log_step", session)

    def after_eval(self, session: Session, scores: Scores, loss: float | None) -> None:
        """Mirror an evaluation."""
        self._try(session, "log_scores", session, scores, loss)

    def on_end(self, session: Session) -> None:
        """Close it."""
        self._try(session, "close")

    def _try(self, session: Session, method: str, *arguments: Any) -> None:
        if not self._is_working:
            return
        try:
            getattr(self, method)(*arguments)
        except Exception as error:  # noqa: BLE001 - of another tool, whatever it raises
            self._is_working = False
            session.note(
                f"note: {self.tool}: {reason_of(error)}. Nothing more is written to it; training goes on, and the run "
                "folder has everything"
            )
