"""Ctrl-C and SIGTERM set a flag; the session looks at it between steps."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

CAUGHT: Final = (signal.SIGINT, signal.SIGTERM)


class Flag:
    """Which signal came first, if any."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    def __bool__(self) -> bool:
        return self.signal is not None


@contextlib.contextmanager
def caught() -> Iterator[Flag]:
    """For the length of a block, Ctrl-C and SIGTERM set the flag; a second Ctrl-C acts as it always did.

    Outside the main thread, where Python cannot catch signals, the flag is never set.
    """
    flag = Flag()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    before = {number: signal.getsignal(number) for number in CAUGHT}

    def note(number: int, _: FrameType | None) -> None:
        flag.signal = signal.Signals(number)
        signal.signal(signal.SIGINT, before[signal.SIGINT])  # a second Ctrl-C means it; SIGTERM often comes twice

    for number in CAUGHT:
        signal.signal(number, note)
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
