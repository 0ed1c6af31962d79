"""One rank, the second of which is killed at step 6 of its first start: restart_child.py DATA RUNS [RESUMED]."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from penstock.cli.events import show
from penstock.session import Hook
from penstock.training import resume, train
from support.training import recipe


class Die(Hook):
    def after_step(self, session):
        first = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
        if session.step == 6 and first and session.ranks.rank == 1 and "whole" not in sys.argv[2]:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        resume(Path(sys.argv[3]), hooks=[Die()], on_event=show)
    else:
        train(recipe(sys.argv[1], sync_bn=False), Path(sys.argv[2]), "r", hooks=[Die()], on_event=show)
