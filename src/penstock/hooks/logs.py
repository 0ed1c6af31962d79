"""The run's logs: one JSON object a line."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from penstock import files
from penstock.feed import Batch
from penstock.ranks import Ranks
from penstock.runs import RunFolder, manifests
from penstock.runs.folder import cut_back
from penstock.session import Hook, NonFinite, Session
from penstock.session.evaluation import with_loss
from penstock.tasks.scoring import Scores


class _Log(Hook):
    """A file of lines that a resume cuts back: the checkpoint remembers how long it was, so no step is in it twice."""

    band = "persist"

    def __init__(self, path: Path, ranks: Ranks) -> None:
        self.path = path
        self.ranks = ranks
        self._file: TextIO | None = None

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Cut the file back to where the checkpoint left it."""
        self._close()  # a training that goes back has lines that are not yet written
        if type(size := state.get("bytes", 0)) is not int:
            raise manifests.damaged(self.path, "the number of its bytes in the checkpoint", repr(size))
        if self.ranks.is_main:
            cut_back(self.path, size)

    def state_dict(self) -> dict[str, Any]:
        """Make the file durable, and tell how long it is."""
        handle = self._open()
        with files.named(self.path):
            handle.flush()
            os.fsync(handle.fileno())
        return {"bytes": handle.tell()}

    def on_end(self, session: Session) -> None:
        """Close the file."""
        self._close()

    def write(self, line: dict[str, Any]) -> None:
        """Append a line."""
        with files.named(self.path):
            self._open().write(files.to_line(line))

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> TextIO:
        if self._file is None:
            self._file = self.path.open("a")
        return self._file


class MetricsLog(_Log):
    """metrics.jsonl: a line for every step and every evaluation, nothing in it decided by a clock."""

    def after_step(self, session: Session) -> None:
        """Write the step's loss, learning rate and gradient norm; a step that was left out is marked instead."""
        line = {"step": session.step, "epoch": session.feed.plan.epoch(session.cursor.position), "lr": session.lr}
        numbers = {"loss": session.loss, "grad_norm": session.grad_norm}
        self.write({**line, **({"left_out": True} if session.is_left_out else numbers)})

    def after_eval(self, session: Session, scores: Scores, loss: float | None) -> None:
        """Write the scores."""
        self.write({"step": session.step, "evaluation": with_loss(loss, scores.summary()), "best": session.is_best})
        self._open().flush()


class OriginsLog(_Log):
    """origins.jsonl: the origins of the records of every global batch, whatever the number of ranks; runs on all."""

    def after_step(self, session: Session) -> None:
        """Gather and write the step's origins."""
        origins = self.ranks.gather(_marked(session.batch) if session.batch else ())
        if self.ranks.is_main:
            left_out = {"left_out": True} if session.is_left_out else {}
            self.write({"step": session.step, **left_out, "origins": origins})


def _marked(batch: Batch) -> list[str]:
    """A batch's origins; those that hold no record are called blank, as they taught nothing."""
    weighed = zip(batch.origins, batch.weight.tolist(), strict=True)
    return [origin if weight else f"{origin} (blank)" for origin, weight in weighed]


class TimingsLog(Hook):
    """timings.jsonl: seconds of every step, of them waiting for data, and peak memory in MiB."""

    band = "persist"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: list[str] = []

    def after_step(self, session: Session) -> None:
        """Note the step's times; they are written a hundred at a time, and with each checkpoint."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
        seconds, wait = round(session.timing["step"], 6), round(session.timing["wait"], 6)
        line = {"step": session.step, "seconds": seconds, "wait": wait, "memory": round(peak)}
        self._lines.append(files.to_line(line))
        if len(self._lines) >= 100:  # noqa: PLR2004 - one write for many short lines
            self._flush()

    def state_dict(self) -> dict[str, Any]:
        """Write what is left, with each checkpoint. Lines of steps that are undone stay, as they took their time."""
        self._flush()
        return {}

    def on_end(self, session: Session) -> None:
        """Write what is left."""
        self._flush()

    def _flush(self) -> None:
        with self.path.open("a") as handle:
            handle.writelines(self._lines)
        self._lines.clear()


class EventsLog(Hook):
    """events.jsonl: when the run was started, resumed, evaluated and ended."""

    band = "persist"

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def on_start(self, session: Session) -> None:
        """Note the start, or where it goes on."""
        self.folder.event("resumed" if session.step else "started", step=session.step, ranks=session.ranks.world_size)

    def after_eval(self, session: Session, scores: Scores, loss: float | None) -> None:
        """Note the scores."""
        self.folder.event("evaluated", step=session.step, best=session.is_best, **scores.summary())

    def on_nonfinite(self, session: Session, found: NonFinite) -> None:
        """Note a step that was not finite."""
        values = {"began_in": found.cause.place, "samples": list(found.cause.samples)}
        self.folder.event("not finite", step=found.step, action=found.action, **values)

    def on_end(self, session: Session) -> None:
        """Note how it ended."""
        outcome = session.outcome
        if outcome:
            self.folder.event(outcome.status, step=outcome.step, reason=outcome.reason)
