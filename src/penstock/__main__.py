"""`python -m penstock` is `penstock`; torchrun needs it."""

import sys
from pathlib import Path

if sys.path and Path(sys.path[0] or ".").resolve() == Path.cwd():  # put there by -m: a run may be the current folder
    del sys.path[0]

from penstock.cli import command

command()
