"""A training process that kills itself with SIGKILL at an exact place; run by test_kill.py, also under torchrun.

    kill_child.py DATA RUNS KIND N     starts or resumes the one run below RUNS

KIND "write": at the N-th file opened for writing within a checkpoint; "rename": just before the N-th rename within the
checkpoints; "renamed": just after it; "step": N milliseconds into the next step; "evaluation": N milliseconds after the
save that an evaluation follows; "never".
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from penstock.session import Hook
from penstock.training import resume, train
from support.training import recipe


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def die_in(milliseconds):
    threading.Thread(target=lambda: (time.sleep(milliseconds / 1000), die()), daemon=True).start()


class Audit:
    """Counts the operating system's own events: Python announces every open and rename to audit hooks."""

    def __init__(self, kind, number):
        self.kind, self.left = kind, number
        self.pending = False

    def __call__(self, event, arguments):
        if self.pending:  # the first event after a rename: it has happened
            self.pending = False  # os.kill is an event too
            die()
        if event == "open" and self.kind == "write" and "/checkpoints/." in str(arguments[0]):
            self._count()
        if event == "os.rename" and self.kind in ("rename", "renamed") and "/checkpoints/" in str(arguments[1]):
            self._count()

    def _count(self):
        self.left -= 1
        if self.left == 0:
            if self.kind == "renamed":
                self.pending = True
            else:
                die()


class Killer(Hook):
    def __init__(self, kind, number):
        self.kind, self.number, self.armed = kind, number, False

    def before_step(self, session):
        if self.kind == "step" and not self.armed:
            self.armed = True
            die_in(self.number)

    def state_dict(self):
        if self.kind == "evaluation" and self.armed:
            die_in(self.number)
        return {}

    def after_step(self, session):
        self.armed = self.armed or session.step % session.options.evaluate_every == 0


def main():
    data, runs, kind, number = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    writer = os.environ.get("RANK", "0") == "0"
    if kind in ("write", "rename", "renamed") and writer:
        sys.addaudithook(Audit(kind, number))
    hooks = [Killer(kind, number)] if writer else []
    found = sorted(runs.glob("0*/recipe.toml"))
    if found:
        resume(found[0].parent, hooks=hooks)
    else:
        train(recipe(data), runs, "killed", hooks=hooks)


if __name__ == "__main__":
    main()
