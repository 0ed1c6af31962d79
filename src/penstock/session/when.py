"""When a hook's step points are called: every so many steps, epochs or seconds, or at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Moment:
    """A step, as it is decided whether to call a hook.

    Attributes:
        step: its number; steps count from 1.
        epochs: passes over the data that are done before it, and after it.
        seconds: since the hook was last called, or since training began.
        is_last: whether it is the last step of the training.
    """

    step: int
    epochs: tuple[float, float] = (0.0, 0.0)
    seconds: float = 0.0
    is_last: bool = False


class Every(Protocol):
    """When a hook's step points are called."""

    def due(self, moment: Moment) -> bool:
        """Whether to call at a step."""
        ...


@dataclass(frozen=True, slots=True)
class Steps:
    """Every `interval` steps."""

    interval: int = 1

    def due(self, moment: Moment) -> bool:
        """Whether the step is a multiple of the interval."""
        return moment.step % self.interval == 0


@dataclass(frozen=True, slots=True)
class Epochs:
    """At the step that ends every `interval`-th pass over the data; 0.5 is every half a pass."""

    interval: float = 1

    def due(self, moment: Moment) -> bool:
        """Whether a multiple of the interval is passed in the step."""
        before, after = (int(epochs / self.interval + _SLIGHTLY) for epochs in moment.epochs)
        return after > before


@dataclass(frozen=True, slots=True)
class Seconds:
    """When the last call is `interval` seconds ago. Each rank has its own clock."""

    interval: float

    def due(self, moment: Moment) -> bool:
        """Whether it is time."""
        return moment.seconds >= self.interval


@dataclass(frozen=True, slots=True)
class AtEnd:
    """At the last step of a training that reaches it."""

    def due(self, moment: Moment) -> bool:
        """Whether the step is the last one."""
        return moment.is_last


@dataclass(frozen=True, slots=True)
class Either:
    """Whenever one of several says so: `Either(Steps(100), AtEnd())`."""

    first: Every
    second: Every

    def due(self, moment: Moment) -> bool:
        """Whether one of them is due."""
        return self.first.due(moment) or self.second.due(moment)


_SLIGHTLY = 1e-9  # epochs are fractions, which are rounded
