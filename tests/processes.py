"""Real processes: started again, sampled, and killed with everything they started."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path


def quiet():
    """The environment of a child: one thread, and this checkout's packages (conftest.py)."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def kill_tree(process):
    """SIGKILL for a process and all that it started, in whatever session: torchrun puts each rank into its own."""
    found = [process.pid]
    for pid in found:
        found += [int(child) for child in children(pid)]
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    process.wait()
    return len(found)


def children(pid):
    return " ".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")).split()


class Program:
    """A process that is started again whenever it was killed, and sampled while it runs."""

    def __init__(self, command, log):
        self.command, self.log = command, log
        self.samples = []
        self.start()

    def start(self):
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(self.command(), env=quiet(), stdout=out, stderr=out, start_new_session=True)
        self.samples.append([])

    def sample(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
        self.samples[-1].append(int(line.split()[1]) >> 10)

    def alive(self):
        assert self.process.poll() is None, self.log.read_text()[-3000:]

    def kill_and_restart(self):
        kill_tree(self.process)
        self.start()
