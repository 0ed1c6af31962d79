"""Ctrl-C and SIGTERM set a flag, SIGUSR1 another one; the session looks at them between steps."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Final

CAUGHT: Final = (signal.SIGINT, signal.SIGTERM)


SAVE: Final = getattr(signal, "SIGUSR1", None)  # which Windows has not


class Flag:
    """Records the first signal that asks training to end, and requests for a checkpoint.

    Attributes:
        signal: the first such signal; None until one arrives.
        save: whether a checkpoint was requested since the session last looked.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self.save = False

    def __bool__(self) -> bool:
        return self.signal is not None


@contextlib.contextmanager
def caught() -> Iterator[Flag]:
    """For the length of a block, Ctrl-C and SIGTERM set the flag, and SIGUSR1 asks for a checkpoint; a second Ctrl-C
    acts as it always did.

    Outside the main thread, where Python cannot catch signals, the flag is never set.
    """
    flag = Flag()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    numbers = (*CAUGHT, SAVE) if SAVE else CAUGHT
    before = {number: signal.getsignal(number) for number in numbers}

    def note(number: int, _: FrameType | None) -> None:
        flag.signal = signal.Signals(number)
        signal.signal(signal.SIGINT, before[signal.SIGINT])  # a second Ctrl-C means it; SIGTERM often comes twice

    def ask(_: int, __: FrameType | None) -> None:
        flag.save = True

    for number in numbers:
        signal.signal(number, ask if number == SAVE else note)
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
