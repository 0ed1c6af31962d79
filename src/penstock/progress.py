"""Progress of long work: live on a terminal, plain lines in a file."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self, TextIO

# All but tabulators and ends of lines, and what turns the direction of writing round.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Printable:
    """A text stream that writes control characters as Python literals do, except for a carriage return in front."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text; the number of its characters."""
        start = "\r" if text.startswith("\r") else ""
        self.stream.write(start + _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text[len(start) :]))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class Progress:
    """A context manager to call with (done, total): a bar on a terminal, elsewhere a line in at least ten seconds."""

    def __init__(self, what: str, unit: str) -> None:
        self.what = what
        self.unit = unit
        self._bar: Any = None
        self._began = self._printed = 0.0
        self._last = (0, 0)

    def __enter__(self) -> Self:
        self._began = self._printed = time.monotonic()
        if sys.stderr.isatty():
            # rich costs 60 ms that --help must not spend.
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bars

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            terminal = sys.stdout.isatty()  # what is printed elsewhere is to stay there
            stream = sys.stderr.stream if isinstance(sys.stderr, Printable) else sys.stderr
            self._bar = Bars(*columns, console=Console(file=stream), transient=True, redirect_stdout=terminal)
            self._bar.start()
            self._task = self._bar.add_task(self.what, total=None)
        return self

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` units are done."""
        self._last = (done, total)
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total)
        elif time.monotonic() - self._printed > 10:  # noqa: PLR2004 - seconds; a log is read, not watched
            self._line()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif kind is None and self._last[1]:
            self._line()

    def _line(self) -> None:
        self._printed = time.monotonic()
        done, total = self._last
        seconds = self._printed - self._began
        sys.stderr.write(f"{self.what}: {done:,} of {total:,} {self.unit}, {seconds:.0f} s\n")
        sys.stderr.flush()


def drop_output() -> None:
    """Let what is printed from now on go nowhere: whoever read it has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows as lines, with columns below one another."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def counted(number: int, what: str) -> str:
    """A number of things as people say it: "1 image", "1,234 images", "2 modalities"."""
    several = f"{what[:-1]}ies" if what.endswith("y") else f"{what}es" if what.endswith(("s", "x")) else f"{what}s"
    return f"{number:,} {what if number == 1 else several}"


def duration(seconds: float) -> str:
    """A time as people say it: "42 s", "3 min 05 s", "26 h 10 min"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def silent(done: int, total: int) -> None:
    """Ignore progress: the default of `progress` parameters."""
