"""What people watch: lines, which log.txt has too, and how many steps are done."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from penstock import devices
from penstock.events import Evaluated, Event, Events, Note, StepFinished, TrainingEnded, TrainingStarted
from penstock.progress import counted
from penstock.session import Hook, NonFinite, Session
from penstock.session.options import ENDLESS
from penstock.tasks.scoring import Scores

_SLOW: Final = 15.0  # seconds without a line in an evaluation
_LONG: Final = 30.0  # seconds in which people want to hear something


class Console(Hook):
    """Tells how it goes every `interval` steps, or every half a minute where they take longer, for the last step, at
    every evaluation, and at the end; keeps it all in log.txt.
    """

    band = "persist"

    def __init__(self, log: Path, interval: int, events: Events = Events()) -> None:  # noqa: B008 - frozen
        self.log = log
        self.events = events
        self.interval = interval
        self._mark = (0, 0.0, 0.0)
        self._waited = self._said = 0.0

    def on_start(self, session: Session) -> None:
        """Say where training runs and where it begins."""
        options, ranks = session.options, session.ranks
        where = f"{devices.describe(session.device)}, {options.precision}"
        until = "on, until it is stopped," if options.steps >= ENDLESS else f"to {options.steps:,}"
        line = (
            f"{'resuming at' if session.step else 'from'} step {session.step:,} {until} on {where}, "
            f"{counted(ranks.world_size, 'rank')}, {counted(session.feed.batch, 'image')} a step"
        )
        self.emit(TrainingStarted(line, session.step))
        self._mark = (session.step, time.perf_counter(), 0.0)

    def after_step(self, session: Session) -> None:
        """Say how it goes."""
        self._waited += session.timing["wait"]
        if self.events.progress and not self.events.silent:
            self.events.progress(session.step, session.options.steps)
        last = session.step == session.options.steps
        if last or session.step % self.interval == 0 or time.perf_counter() - self._mark[1] > _LONG:
            self._progress(session)

    def on_nonfinite(self, session: Session, found: NonFinite) -> None:
        """Say which step is left out, and why; of one that ends training, the error says so."""
        done = {
            "skip": "The step is left out",
            "rewind": f"Training goes back to step {session.saver.step:,}, and this step is then left out",
        }
        if found.action in done:
            numbers = f"loss {found.loss:.4g}, gradient norm {found.norm:.4g}"
            place = self.log.parent / "nonfinite" / f"step-{found.step:08d}"
            self.note(f"step {found.step:>6,}  {numbers}; {found.cause}. {done[found.action]}: see {place}")

    def evaluating(self, done: int, total: int) -> None:
        """Say how far an evaluation is, where it takes long."""
        now = time.perf_counter()
        if done and now - self._said > _SLOW:
            self.note(f"evaluation: {done:,} of {counted(total, 'image')}")

    def _progress(self, session: Session) -> None:
        step, began, waited = self._mark
        step = min(step, session.step)  # training may have gone back
        now = time.perf_counter()
        seconds = max(now - began, 1e-9)
        speed = (session.step - step) * session.feed.batch / seconds
        wait = (self._waited - waited) / seconds
        steps = session.options.steps
        left = (steps - session.step) * seconds / max(1, session.step - step)
        remaining = f"  {_duration(left)} left" if steps < ENDLESS else ""
        self._mark = (session.step, now, self._waited)
        line = (
            f"step {session.step:>6,}  loss {session.loss:.4f}  lr {session.lr:.2e}  {speed:.1f} images/s  "
            f"data wait {wait:.0%}{remaining}"
        )
        self.emit(StepFinished(line, session.step, session.loss, session.lr, speed, wait))

    def after_eval(self, session: Session, scores: Scores, loss: float | None) -> None:
        """Say the scores."""
        shown = "  ".join(f"{name} {value:.4f}" for name, value in scores.summary().items())
        lost = "" if loss is None else f"loss {loss:.4f}  "
        best = "  (best)" if session.is_best else ""
        line = f"step {session.step:>6,}  evaluation  {lost}{shown}{best}"
        self.emit(Evaluated(line, session.step, scores.summary(), loss, session.is_best))
        self._mark = (session.step, time.perf_counter(), self._waited)

    def on_end(self, session: Session) -> None:
        """Say how it ended."""
        if session.outcome:
            step, status, reason = session.outcome.step, session.outcome.status, session.outcome.reason
            self.emit(TrainingEnded(f"{status} at step {step:,}: {reason}", step, status, reason))
            if status == "failed" and session.saver.step:
                saved = session.saver.step
                self.note(f"step {saved:,} is saved: go on with penstock train --resume {self.log.parent}")

    def note(self, line: str) -> None:
        """Emit a line as a note."""
        self.emit(Note(line))

    def emit(self, event: Event) -> None:
        """Keep the line of an event in log.txt, and pass the event on."""
        self._said = time.perf_counter()
        with self.log.open("a") as handle:
            handle.write(event.message + "\n")
        self.events(event)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
