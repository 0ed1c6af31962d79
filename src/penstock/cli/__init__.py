"""The command line: parsing and printing, nothing else. Commands are imported when they are called.

Each makes one public call of `penstock`, and imports nothing else of it.

overview.py     the commands and what they do
app.py          how they are called, and what becomes of errors
options.py      options that several commands have
raw_options.py  those of a folder of raw images
packing.py      inspect, pack
data.py         show, verify, unpack, scenes
topics.py       publish, pull
downloads.py    download, new
training.py     train, recipe
advising.py     doctor
listing.py      models
runs.py         evaluate, replay, report
predicting.py   predict
exporting.py    export
experiments.py  runs, compare, note, prune
events.py       what a training says
demo.py         demo
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

UNFINISHED: Final = 75
"""Exit code of a training that stopped to go on later: sysexits' EX_TEMPFAIL, which schedulers take for "again"."""

STDIN: Final = "/dev/stdin"
_SPINS: Final = "1000"
_DEFAULT: Final = (signal.default_int_handler, signal.SIG_DFL)


class Interrupted(KeyboardInterrupt):
    """A signal has ended a command: Ctrl-C, or SIGTERM.

    Attributes:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit: 0 well, 1 problems found, 2 a user's mistake, 75 a training that is to go on, 128 + n
    ended by signal n.
    """
    with _caught():
        try:
            _run(sys.argv[1:] if arguments is None else arguments)
        except KeyboardInterrupt as error:
            sys.exit(exit_code(error))


def command() -> NoReturn:
    """Run one command as a process of its own, which ends although the system holds a thread that reads data, as where
    a network disk is gone: Python would wait for it.

    Threads that compute spin for a moment only while they wait for each other, unless OMP_WAIT_POLICY or GOMP_SPINCOUNT
    says otherwise: the threads of the feed need the same cores. By default, GNU's OpenMP in PyTorch for Linux
    spins 300 times as long; where something else runs too, a step on a CPU then takes up to eight times as long.
    """
    with contextlib.suppress(OSError):  # the current folder may be gone
        here = os.path.realpath(".")
        sys.path[:] = [place for place in sys.path if os.path.realpath(place or ".") != here]  # PYTHONPATH=: adds it
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)  # read when PyTorch is imported
    code: object = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    if any(thread.name.startswith("penstock-feed") for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(code if isinstance(code, int) else 1)
    sys.exit(code)  # type: ignore[arg-type]


def exit_code(error: KeyboardInterrupt) -> int:
    """The exit code of a command that a signal has ended."""
    return 128 + error.number if isinstance(error, Interrupted) else 128 + signal.SIGINT


@contextlib.contextmanager
def _caught() -> Iterator[None]:
    """For the length of a block, Ctrl-C and SIGTERM are exceptions, so that a command puts away what it has begun, and
    SIGUSR1 does nothing where there is nothing to save. A training has handlers of its own. What somebody else handles
    stays as it is.
    """
    handlers: dict[int, Callable[[int, FrameType | None], None]] = {signal.SIGINT: _end, signal.SIGTERM: _end}
    if hasattr(signal, "SIGUSR1"):
        handlers[signal.SIGUSR1] = _go_on
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in handlers}
    ours = [number for number in handlers if is_main and before[number] in _DEFAULT]
    for number in ours:
        signal.signal(number, handlers[number])
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])


def _run(words: list[str]) -> None:
    """Run one command. What the command line offers is printed without importing what runs commands."""
    if words in ([], ["--help"], ["-h"]):
        from penstock.cli.overview import overview

        print(overview())
        sys.exit(0)
    from penstock.cli import app

    app.main(words)


def _end(number: int, frame: FrameType | None) -> None:
    """An exception, but for imports, which take seconds and in which libraries may swallow one. Nothing has begun by
    then, so the process ends at once.
    """
    while frame:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(128 + number)
        frame = frame.f_back
    raise Interrupted(number)


def _go_on(number: int, frame: FrameType | None) -> None:
    """A job that sends SIGUSR1 to have trainings saved sends it to its other processes too."""


__all__ = ["UNFINISHED", "Interrupted", "command", "exit_code", "main"]
