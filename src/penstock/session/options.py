"""Where a session gets more from, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from penstock.feed import Feed

ENDLESS: Final = 1_000_000_000  # steps that stand for "until it is stopped"


class MoreRecords(Protocol):
    """A source of more records once a plan has ended."""

    reason: str

    def next(self, stop: Callable[[], bool]) -> Feed | None:
        """A feed whose plan goes on; waits for it until `stop`. None if nothing more comes, for the `reason`."""

    def feed(self, position: int) -> Feed:
        """The feed of all that was taken up, to be read from a position on."""

    def state_dict(self) -> dict[str, Any]:
        """The snapshots that were begun, as JSON can hold them."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How training ended: "finished", "stopped" (a hook asked), "interrupted" (a signal) or "failed".

    Attributes:
        status: one of these.
        reason: why, in words.
        step: finished steps.
        signal: its number, where one ended the training.
        is_saved: whether there is a checkpoint of the step; of a training that failed at the first there is none.
        is_paused: whether it was stopped to go on later, as at the end of its time.
    """

    status: str
    reason: str
    step: int
    signal: int = 0
    is_saved: bool = True
    is_paused: bool = False
