"""The hooks of a session: how their points are called, and what becomes of their errors and their state."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from penstock.session import hook as hooking

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.session.hook import Hook
    from penstock.session.session import Session
    from penstock.session.when import Moment


@dataclass
class Attached:
    """Some hooks, called by their bands, and within a band in their order.

    Attributes:
        hooks: what is attached.
        absent: the saved state of hooks that a run had and has no longer, by their keys; it is kept.
    """

    hooks: tuple[Hook, ...]
    absent: dict[str, Any] = field(default_factory=dict)
    _due: list[Hook] = field(default_factory=list, init=False)
    _called: dict[int, float] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.hooks = tuple(sorted(self.hooks, key=lambda hook: hooking.BANDS.index(hook.band)))

    def begin(self) -> None:
        """Start the clocks of hooks that are called by the second."""
        now = time.monotonic()
        self._called = {id(hook): now for hook in self.hooks}

    def decide(self, moment: Moment) -> None:
        """Choose the hooks whose points of a step are called; once for all points, so that they hear of whole steps."""
        now = time.monotonic()
        since = {id(hook): now - self._called.get(id(hook), now) for hook in self.hooks}
        self._due = [hook for hook in self.hooks if hook.every.due(replace(moment, seconds=since[id(hook)]))]
        self._called |= {id(hook): now for hook in self._due}

    def call_due(self, session: Session, point: str) -> None:
        """Call a point of the step at hand on the hooks that were chosen for it."""
        for hook in self._due:
            _call(hook, session, point)

    def call(self, session: Session, point: str, *arguments: Any) -> None:
        """Call a point of every hook."""
        for hook in self.hooks:
            _call(hook, session, point, *arguments)

    def close(self, session: Session) -> None:
        """Call on_end on every hook, the last one first; the first error is raised once all have been called."""
        first: Exception | None = None
        for hook in reversed(self.hooks):
            try:
                hook.on_end(session)
            except Exception as error:  # noqa: BLE001 - raised below
                error.add_note(f"in {type(hook).__name__}.on_end, step {session.step}")
                first = first or error
        if first:
            raise first

    def wind_down(self, session: Session, point: str, original: BaseException, *arguments: Any) -> None:
        """Call a point on every hook although training failed; what goes wrong here is noted on the original error."""
        for hook in reversed(self.hooks) if point == "on_end" else self.hooks:
            try:
                getattr(hook, point)(session, *arguments)
            except Exception as error:  # noqa: BLE001 - it must not hide the original
                original.add_note(f"{type(hook).__name__}.{point} then failed too: {error!r}")

    def state_dict(self) -> dict[str, Any]:
        """The state of every hook by its key, and of those that the run had before."""
        own = {key: hook.state_dict() for key, hook in zip(hooking.keys(self.hooks), self.hooks, strict=True)}
        return {**own, **self.absent}

    def load_state_dict(self, saved: Mapping[str, Any] | None) -> None:
        """Give every hook its state; None where training starts from nothing. A hook that is new to a run starts as it
        is.
        """
        keys = hooking.keys(self.hooks)
        for key, hook in zip(keys, self.hooks, strict=True):
            if saved is None or key in saved:
                hook.load_state_dict((saved or {}).get(key, {}))
        self.absent = {key: state for key, state in (saved or {}).items() if state and key not in keys}


def _call(hook: Hook, session: Session, point: str, *arguments: Any) -> None:
    """Call a point of a hook; an error names both in a note."""
    try:
        getattr(hook, point)(session, *arguments)
    except Exception as error:
        error.add_note(f"in {type(hook).__name__}.{point}, step {session.step}")
        raise
