"""Real processes: killed with everything they started."""

from __future__ import annotations

import os
import signal
from pathlib import Path


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
