"""`python -m penstock` is `penstock`; torchrun needs it."""

import contextlib
import sys
from pathlib import Path

with contextlib.suppress(OSError):  # the current folder may be gone
    if sys.path and Path(sys.path[0] or ".").resolve() == Path.cwd():  # -m puts it there, and it may be a run
        del sys.path[0]

from penstock.cli import command

command()
