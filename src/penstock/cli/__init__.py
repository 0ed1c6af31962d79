"""The command line: parsing and printing, nothing else. Commands are imported when they are called.

overview.py  the commands and what they do
app.py       how they are called, and what becomes of errors
data.py      inspect, pack, show, verify, scenes
training.py  train, recipe
runs.py      evaluate, predict, replay, report
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED: Final = 128 + signal.SIGINT
STDIN: Final = "/dev/stdin"


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit: 0 well, 1 problems found, 2 a user's mistake, 128 + n ended by signal n."""
    before = signal.getsignal(signal.SIGINT)
    ours = before is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    try:
        if ours:
            signal.signal(signal.SIGINT, _interrupted)
        _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)


def _run(words: list[str]) -> None:
    """Run one command. What the command line offers is printed without importing what runs commands."""
    if words in ([], ["--help"], ["-h"]):
        from penstock.cli.overview import overview

        print(overview())
        sys.exit(0)
    from penstock.cli import app

    app.main(words)


def _interrupted(_: int, frame: FrameType | None) -> None:
    """Ctrl-C: an exception, but for imports, which take seconds and in which libraries may swallow one. Nothing has
    begun by then, so the process ends at once.
    """
    while frame:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


__all__ = ["INTERRUPTED", "main"]
