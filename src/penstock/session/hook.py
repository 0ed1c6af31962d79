"""What can be attached to a session: `Hook` has ten points, and says how often it is called."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from penstock.feed import Batch
    from penstock.session.diagnosis import NonFinite
    from penstock.session.session import Session
    from penstock.tasks.scoring import Scores

POINTS: Final = (
    "on_start", "change_batch", "before_step", "after_backward", "after_step", "after_save", "after_eval",
    "on_nonfinite", "on_exception", "on_end",
)  # fmt: skip
BANDS: Final = ("measure", "decide", "persist")
"""In which order hooks are called: those that measure, those that decide, those that write down."""


@dataclass(frozen=True, slots=True)
class Steps:
    """When a hook's points of a step are called: every `interval` steps, and, with `last`, at the last step too."""

    interval: int = 1
    last: bool = False

    def due(self, step: int, *, is_last: bool) -> bool:
        """Whether to call at a step; steps count from 1."""
        return step % self.interval == 0 or (self.last and is_last)


class Hook:
    """The base of all hooks: override the points you need.

    A hook observes and asks (`session.request_stop(reason)`, `request_save()`, `request_eval()`); the session acts. An
    exception in a point ends training, with the hook and the point named in a note; the last good step is saved. One in
    `on_exception` or `on_end` is noted on the original one and hides nothing.

    Attributes:
        every: how often `before_step`, `after_backward` and `after_step` are called.
        band: hooks that measure are called first, then those that decide, then those that write down what was measured
            and decided; hooks of one band in the order in which they are attached. `on_end` is called in reverse.
        per_rank: whether each rank has a state of its own to remember; otherwise that of the main rank is all ranks'.
            A rank that there was not before starts from nothing.
        wants: what a step is to keep for the hook in `session.values`, at the steps at which it is called: "outputs" of
            the model, "loss_parts", or names of modules such as "encoder.model.layer4".
    """

    per_rank: ClassVar[bool] = False
    every: Steps = Steps()
    wants: Collection[str] = ()
    band: ClassVar[Literal["measure", "decide", "persist"]] = "measure"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, value in vars(cls).items():
            if name.startswith(("on_", "before_", "after_", "change_")) and not hasattr(Hook, name):
                points = ", ".join(POINTS)
                message = f"{cls.__name__}.{name} is not a method of penstock.Hook. A hook can override {points}"
                raise TypeError(_place(value) + message)
            if inspect.isfunction(value) and name in (*POINTS, "state_dict", "load_state_dict"):
                _check_parameters(cls, name, value)

    def on_start(self, session: Session) -> None:
        """Training begins, or goes on after a restore: `session.step` is where."""

    def change_batch(self, session: Session, batch: Batch) -> Batch:
        """The batch to learn from instead of one that was read, at the steps that `every` says, on every rank.

        The tensors may have other values, but must have the same names and lengths. A resumed run is the same as one
        that was not stopped if they follow from the batch, the settings of the hook, and `session.step`.
        """
        return batch

    def before_step(self, session: Session) -> None:
        """A batch is there; `session.step` still counts the finished steps."""

    def after_backward(self, session: Session) -> None:
        """Gradients are there, the optimizer has not stepped."""

    def after_step(self, session: Session) -> None:
        """The optimizer has stepped and `session.step` counts this step; `session.loss` is its loss."""

    def after_save(self, session: Session, path: Path) -> None:
        """A checkpoint was written, which is the folder `path`; called on every rank.

        Training has gone on meanwhile: `session.step` may be later than the step of the checkpoint, unless
        `train.async_save` is off.
        """

    def after_eval(self, session: Session, scores: Scores, loss: float | None) -> None:
        """An evaluation has ended; `session.is_best` tells whether it is the best so far."""

    def on_nonfinite(self, session: Session, found: NonFinite) -> None:
        """The loss or gradients of `session.batch` are not finite, and no weight was changed. Called on every rank."""

    def on_exception(self, session: Session, error: BaseException) -> None:
        """Training is ending with an error."""

    def on_end(self, session: Session) -> None:
        """Training is over; always called. `session.outcome` tells how it ended."""

    def state_dict(self) -> dict[str, Any]:
        """What the hook must remember across restarts, as JSON can hold it; called just before a save."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave; `{}` when training starts from nothing."""


def _check_parameters(cls: type, name: str, method: Any) -> None:
    """Whether a method can be called as the session calls it."""
    wanted = [*inspect.signature(getattr(Hook, name)).parameters]
    try:
        inspect.signature(method).bind(*wanted)
    except TypeError:
        found = ", ".join(inspect.signature(method).parameters)
        message = f"{cls.__name__}.{name}({found}) is called as {name}({', '.join(wanted)}). Give it these parameters"
        raise TypeError(_place(method) + message) from None


def _place(value: Any) -> str:
    """The file and the line of a function, in front of a message; "" for anything else."""
    code = getattr(value, "__code__", None)
    return f"{code.co_filename}, line {code.co_firstlineno}: " if code else ""


def keys(hooks: Sequence[Hook]) -> list[str]:
    """One key per hook for its state: the class's name, numbered where it occurs again."""
    seen: dict[str, int] = {}
    result = []
    for hook in hooks:
        name = type(hook).__name__
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return result
