"""Trainings that are killed and resumed until they have died often enough, and what they leave behind."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

from penstock import files
from support import processes
from support.paths import SUPPORT
from support.training import state

CHILD = SUPPORT / "kill_child.py"
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, prctl(2)


def run(data, runs, kind="never", number=0):
    """One process; its exit code."""
    done = processes.run(CHILD, data, runs, kind, number)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def only_run(runs):
    (folder,) = runs.glob("0*")
    return folder


def moments(draw):
    """Endless random moments: between steps, inside a save, before and after a rename, during an evaluation."""
    while True:
        yield draw.choice(
            [
                ("step", draw.randrange(0, 400)),
                ("write", draw.randrange(1, 14)),
                ("rename", draw.randrange(1, 9)),
                ("renamed", draw.randrange(1, 9)),
                ("evaluation", draw.randrange(0, 150)),
            ]
        )


def kill_until(data, runs, whole, kills, seed):
    """Kill and resume one process until it has died so often; every run that comes to its end must equal the whole one.

    Returns:
        How often it was killed at each kind of moment, and the runs that ended.
    """
    kinds, ended = Counter(), 0
    for kind, number in moments(random.Random(seed)):
        if run(data, runs, kind, number):
            kinds[kind] += 1
        else:
            ended += 1
            _compare(runs, whole)
        if kinds.total() >= kills:
            break
    if list(runs.glob("0*")):
        assert run(data, runs) == 0
        ended += 1
        _compare(runs, whole)
    return kinds, ended


def kill_ranks_until(data, runs, whole, kills, seed):
    """Kill one of two ranks at a random time, and resume both, until ranks have died so often.

    Returns:
        The runs that ended.
    """
    draw, died, ended = random.Random(seed), 0, 0
    while died < kills or list(runs.glob("0*")):
        ranks = processes.Ranks(2, [CHILD, data, runs, "never", 0], log=runs.with_suffix(".log"))
        if died < kills:
            end = time.monotonic() + draw.uniform(0, 5)
            while ranks.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
            if ranks.poll() is None:
                died += 1
                processes.kill_tree(draw.choice(ranks.children))
        if ranks.wait() == 0:
            ended += 1
            _compare(runs, whole)
    return ended


def _compare(runs, whole):
    folder = only_run(runs)
    assert state(folder) == whole
    with files.locked(folder):  # nobody else holds it
        assert [path for path in folder.rglob("*") if path.name.endswith((".partial", ".tmp"))] == []
    shutil.rmtree(folder)


def adopt_orphans():
    """Become the parent of all processes that lose theirs, so that `left_behind` sees them."""
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)


def left_behind():
    """What a process might leave: children, shared memory, and temporary files."""
    children, found = processes.children(os.getpid()), []
    for pid in children:
        children += processes.children(pid)
        command = Path(f"/proc/{pid}/cmdline")
        words = command.read_text().split("\0")[1:4] if command.exists() else []
        found += [words] if words else []  # what has ended and nobody has asked for has none
    temporary = [path.name for path in Path(tempfile.gettempdir()).iterdir()]
    # Those of torchrun's agent, which this process runs, live as long as it does.
    shared = [path.name for path in Path("/dev/shm").iterdir() if not path.name.startswith("sem.mp-")]
    names = ("pymp", "torch", "penstock", "none_", "tmp")
    return (
        sorted(found),
        sorted(shared),
        sorted(name for name in temporary if name.startswith(names)),
    )
