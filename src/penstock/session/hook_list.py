"""The hooks of a session: how their points are called, and what becomes of their errors and their state."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.feed import Batch
from penstock.session import hook as hooking
from penstock.session.kept import check_wants

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn

    from penstock.ranks import Ranks
    from penstock.session.hook import Hook
    from penstock.session.session import Session

_RANKS: Final = "ranks"  # the states of one hook, in their order


@dataclass
class HookList:
    """Some hooks, called by their bands, and within a band in their order.

    Attributes:
        hooks: what is attached.
        absent: the saved state of hooks that a run had and has no longer, by their keys; it is kept.
    """

    hooks: tuple[Hook, ...]
    absent: dict[str, Any] = field(default_factory=dict)
    _due: list[Hook] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.hooks = tuple(sorted(self.hooks, key=lambda hook: hooking.BANDS.index(hook.band)))

    def decide(self, step: int, *, is_last: bool) -> None:
        """Choose the hooks whose points of a step are called; once for all points, so that they hear of whole steps."""
        self._due = [hook for hook in self.hooks if hook.every.due(step, is_last=is_last)]

    def check(self, model: nn.Module, *, compiled: bool) -> None:
        """Raise a RecipeError unless steps can keep what the hooks want."""
        for hook in self.hooks:
            check_wants(type(hook).__name__, hook.wants, model, compiled=compiled)

    def wanted(self) -> set[str]:
        """What the hooks want that were chosen for the step at hand."""
        return {name for hook in self._due for name in hook.wants}

    def change(self, session: Session, batch: Batch) -> Batch:
        """The batch as the hooks that were chosen for its step change it.

        Raises:
            TypeError: one of them gives something that cannot take its place.
        """
        for hook in self._due:
            if type(hook).change_batch is not hooking.Hook.change_batch:
                changed = _call(hook, session, "change_batch", batch)
                if problem := _unfit(batch, changed):
                    message = (
                        f"{type(hook).__name__}.change_batch must return a batch like the one that it got: {problem}"
                    )
                    raise TypeError(message)
                batch = changed
        return batch

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

    def state_dict(self, ranks: Ranks) -> dict[str, Any]:
        """The state of every hook by its key, also of hooks that are gone. All ranks call it; the main one gets it."""
        own = {}
        for key, hook in zip(hooking.keys(self.hooks), self.hooks, strict=True):
            if hook.per_rank:
                own[key] = {_RANKS: [json.loads(text) for text in ranks.gather([json.dumps(hook.state_dict())])]}
            elif ranks.is_main:
                own[key] = hook.state_dict()
        return {**own, **self.absent}

    def load_state_dict(self, saved: Mapping[str, Any] | None, rank: int) -> None:
        """Give every hook its state; None starts from nothing. A hook that is new to a run starts as it is."""
        keys = hooking.keys(self.hooks)
        for key, hook in zip(keys, self.hooks, strict=True):
            if saved is None or key in saved:
                state = (saved or {}).get(key, {})
                if hook.per_rank:
                    state = dict(enumerate(state.get(_RANKS, []))).get(rank, {})
                hook.load_state_dict(state)
        self.absent = {key: state for key, state in (saved or {}).items() if state and key not in keys}


def _unfit(before: Batch, after: Any) -> str:
    """Why a batch cannot take the place of another one; "" if it can."""
    if not isinstance(after, Batch):
        return f"it returned {type(after).__name__}"
    if (after.cursor, after.origins) != (before.cursor, before.origins):
        return "cursor and origins must stay the same"
    lengths = [{name: len(tensor) for name, tensor in each.tensors.items()} for each in (before, after)]
    if lengths[0] != lengths[1] or len(after.weight) != len(before.weight):
        return f"expected tensors of lengths {lengths[0]}, found {lengths[1]}"
    return ""


def _call(hook: Hook, session: Session, point: str, *arguments: Any) -> Any:
    """Call a point of a hook; an error names both in a note."""
    try:
        return getattr(hook, point)(session, *arguments)
    except Exception as error:
        error.add_note(f"in {type(hook).__name__}.{point}, step {session.step}")
        raise
