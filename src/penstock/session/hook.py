"""What can be attached to a session: `Hook` has seven points and says how often the step's points are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.session.session import Session
    from penstock.tasks.base import Scores

POINTS: Final = ("on_start", "before_step", "after_backward", "after_step", "after_eval", "on_exception", "on_end")


class Every(Protocol):
    """When a hook's step points are called."""

    def due(self, step: int) -> bool:
        """Whether to call at a step; steps count from 1."""
        ...


@dataclass(frozen=True, slots=True)
class Steps:
    """Every `interval` steps."""

    interval: int = 1

    def due(self, step: int) -> bool:
        """Whether `step` is a multiple of the interval."""
        return step % self.interval == 0


class Hook:
    """The base of all hooks: override the points you need.

    A hook observes and asks (`session.request_stop(reason)`, `request_save()`, `request_eval()`); the session acts. An
    exception in a point ends training, with the hook and the point named in a note; one in `on_exception` or `on_end`
    is noted on the original one and hides nothing.
    """

    every: Every = Steps(1)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        known = set(dir(Hook))
        for name in vars(cls):
            if name.startswith(("on_", "before_", "after_")) and name not in known:
                points = ", ".join(POINTS)
                message = f"{cls.__name__}.{name} is not a method of penstock.Hook. A hook can override {points}"
                raise TypeError(message)

    def on_start(self, session: Session) -> None:
        """Training begins, or goes on after a restore: `session.step` is where."""

    def before_step(self, session: Session) -> None:
        """A batch is there; `session.step` still counts the finished steps."""

    def after_backward(self, session: Session) -> None:
        """Gradients are there, the optimizer has not stepped."""

    def after_step(self, session: Session) -> None:
        """The optimizer has stepped and `session.step` counts this step; `session.loss` is its loss."""

    def after_eval(self, session: Session, scores: Scores, loss: float | None) -> None:
        """An evaluation has ended; `session.is_best` tells whether it is the best so far."""

    def on_exception(self, session: Session, error: BaseException) -> None:
        """Training is ending with an error."""

    def on_end(self, session: Session) -> None:
        """Training is over; always called. `session.outcome` tells how it ended."""

    def state_dict(self) -> dict[str, Any]:
        """What the hook must remember across restarts, as JSON can hold it; called just before a save."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave; `{}` when training starts from nothing."""


def keys(hooks: Sequence[Hook]) -> list[str]:
    """One key per hook for its state: the class's name, numbered where it occurs again."""
    seen: dict[str, int] = {}
    result = []
    for hook in hooks:
        name = type(hook).__name__
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return result
