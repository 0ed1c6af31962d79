"""`python -m penstock` is `penstock`; torchrun needs it."""

import os
import sys

# -m puts the current folder first, which may be a run: nothing may be imported before it is gone.
try:
    if sys.path and os.path.realpath(sys.path[0] or ".") == os.path.realpath("."):
        del sys.path[0]
except OSError:  # there is no current folder any more
    pass

from penstock.cli import command

command()
