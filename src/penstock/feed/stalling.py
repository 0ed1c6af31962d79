"""A batch that does not come: which records it waits for, and where the threads are that should bring them."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from penstock.errors import StalledError
from penstock.progress import counted

THREADS: Final = "penstock-feed"
"""How the names of a feed's threads begin."""

_POOL: Final = Path("concurrent/futures/thread.py").parts


def stalled(origins: Sequence[str], seconds: float) -> StalledError:
    """The error of a batch that has not come in time."""
    others = f" and {counted(len(origins) - 1, 'other record')}" if len(origins) > 1 else ""
    stacks = "".join(f"\n{stack}" for stack in stacks_of_threads())
    return StalledError(
        origins[0],
        expected=f"to be read within {seconds:g} seconds (train.stall_timeout)",
        found="nothing",
        remedy="Check the disk or the network that holds them, or make the time longer. Threads of the feed are here:"
        f"{stacks or ' none is at work.'}",
        message=f"{origins[0]}{others}: expected to be read within {seconds:g} seconds (train.stall_timeout), found "
        "nothing.",
    )


def stacks_of_threads() -> list[str]:
    """The stacks of the feed's threads that are at work, each as text, without what is the same in all of them."""
    frames = sys._current_frames()  # noqa: SLF001 - documented; its name says that it is CPython's
    stacks = []
    for thread in threading.enumerate():
        if thread.name.startswith(THREADS) and thread.ident in frames:
            calls = traceback.extract_stack(frames[thread.ident])
            pool = [number for number, call in enumerate(calls) if Path(call.filename).parts[-3:] == _POOL]
            own = calls[pool[-1] + 1 :] if pool else calls
            if own:
                stacks.append(f"{thread.name}:\n{''.join(traceback.format_list(own)).rstrip()}")
    return stacks
