"""Whether anybody still wants what a thread reads: sources that wait for what may never come ask now and then."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Final

_THREAD: Final = threading.local()


def bind(given_up: Callable[[], bool]) -> None:
    """Set the callback of this thread, which returns True once the result of the thread is no longer wanted."""
    _THREAD.given_up = given_up


@contextlib.contextmanager
def bound(given_up: Callable[[], bool]) -> Iterator[None]:
    """As `bind`, for the length of a block."""
    before = getattr(_THREAD, "given_up", _never)
    bind(given_up)
    try:
        yield
    finally:
        bind(before)


def check() -> None:
    """Come back if what this thread reads is still wanted.

    Raises:
        InterruptedError: whoever asked for it has given up.
    """
    given_up: Callable[[], bool] = getattr(_THREAD, "given_up", _never)
    if given_up():
        raise InterruptedError


def _never() -> bool:
    return False
