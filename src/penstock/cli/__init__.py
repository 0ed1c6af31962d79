"""The command line: parsing and printing, nothing else. Commands are imported when they are called.

app.py       the commands' names, and what becomes of errors
data.py      inspect, pack, show, verify, scenes
training.py  train, recipe
runs.py      evaluate, predict, replay, report
"""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit: 0 well, 1 problems found, 2 a user's mistake, 128 + n ended by signal n."""
    try:
        from penstock.cli import app  # imports take a while, in which Ctrl-C is heard too
    except KeyboardInterrupt:
        sys.exit(130)
    app.main(arguments)


__all__ = ["main"]
