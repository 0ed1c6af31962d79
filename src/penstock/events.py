"""What a training has to say: typed events, each with a line for people.

Events go to whoever asked for them, and to `logging` under the name penstock.training. Nothing is printed here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OnEvent = Callable[["Event"], None]

_LOGGER: Final = logging.getLogger("penstock.training")


@dataclass(frozen=True)
class Event:
    """Something that happened to a training.

    Attributes:
        message: a line, or several, for people.
    """

    message: str


@dataclass(frozen=True)
class RunCreated(Event):
    """A run has a folder now.

    Attributes:
        folder: where everything will be.
    """

    folder: Path


@dataclass(frozen=True)
class Note(Event):
    """Something that people may not expect, or an account of what was loaded."""


@dataclass(frozen=True)
class TrainingStarted(Event):
    """The first step is about to begin.

    Attributes:
        step: finished steps; above 0 where a run is resumed.
    """

    step: int


@dataclass(frozen=True)
class StepFinished(Event):
    """How it goes, every `train.log_every` steps.

    Attributes:
        step: finished steps.
        loss: of the last step.
        lr: learning rate of the last step.
        speed: images a second since the last such event.
        wait: fraction of the time that the model waited for data, from 0 to 1.
    """

    step: int
    loss: float
    lr: float
    speed: float
    wait: float


@dataclass(frozen=True)
class Evaluated(Event):
    """The scores of an evaluation.

    Attributes:
        step: finished steps.
        scores: by name.
        loss: mean loss; None where the model gives none.
        best: whether no evaluation before was better.
    """

    step: int
    scores: Mapping[str, float]
    loss: float | None = None
    best: bool = False


@dataclass(frozen=True)
class TrainingEnded(Event):
    """The training has ended.

    Attributes:
        step: finished steps.
        status: "finished", "stopped", "interrupted" or "failed".
        reason: why, in words.
    """

    step: int
    status: str
    reason: str


@dataclass(frozen=True)
class Events:
    """Where events go.

    Attributes:
        on_event: called with each; None leaves them to `logging`.
        silent: whether nobody is to hear of them, as on other ranks than the first.
        progress: called after each step with the steps that are done, and those in all.
    """

    on_event: OnEvent | None = None
    silent: bool = False
    progress: Callable[[int, int], None] | None = None

    def __call__(self, event: Event) -> None:
        """Log an event and pass it to `on_event`."""
        if self.silent:
            return
        for line in event.message.splitlines():
            _LOGGER.info("%s", line)
        if self.on_event:
            self.on_event(event)

    def note(self, *lines: str) -> None:
        """Tell of something that people may not expect."""
        if lines:
            self(Note("\n".join(lines)))
