"""Failures that may pass by themselves: which they are, and how long to wait before training goes on."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import Final, TypeVar

from penstock.errors import AwayError, StalledError

T = TypeVar("T")

LONGEST: Final = 60.0
"""Seconds between two attempts at most."""

_PASSING: Final = frozenset(
    getattr(errno, name)
    for name in (
        "EIO", "ENOENT", "ESTALE", "ETIMEDOUT", "ENETDOWN", "ENETUNREACH", "ENETRESET", "ECONNRESET", "ECONNABORTED",
        "ECONNREFUSED", "EHOSTDOWN", "EHOSTUNREACH", "ENOTCONN", "EREMOTEIO", "EPIPE",
    )
    if hasattr(errno, name)
)  # fmt: skip
"""What a disk on a network says while it is away; a mount that is gone says that there is no such file."""


def may_pass(error: BaseException) -> bool:
    """Whether an error may be gone after a while: a broker or a disk that does not answer."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, (AwayError, StalledError)) or (isinstance(found, OSError) and found.errno in _PASSING):
            return True
        found = found.__cause__
    return False


def with_retries(
    first: Callable[[], T],
    again: Callable[[], T],
    *,
    retries: int,
    step: Callable[[], int],
    note: Callable[[str], None],
) -> T:
    """What a training gives, begun again after failures that may pass, with longer and longer pauses: 1, 2, 4, ... up
    to 60 seconds.

    Args:
        first: trains.
        again: goes on with the training.
        retries: attempts in a row that may fail without any new step, beside the first one.
        step: the last step that is saved.
        note: tells people a line.

    Raises:
        Exception: what the last attempt raised, or the first one that does not pass.
    """
    attempt, done, failed = first, -1, 0
    while True:
        try:
            return attempt()
        except Exception as error:
            if not may_pass(error):
                raise
            if step() > done:
                done, failed = step(), 0
            if failed == retries:
                if retries:
                    error.add_note(f"gave up after {retries} retries without a new step")
                raise
            reason = str(error).splitlines()[0]
        pause = min(LONGEST, 2.0**failed)
        failed += 1
        note(f"retry {failed} of {retries} in {pause:g} s: {reason}")
        time.sleep(pause)
        attempt = again
