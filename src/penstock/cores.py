"""How many cores this process may use."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

_CGROUPS: Final = Path("/sys/fs/cgroup")
_CGROUP: Final = Path("/proc/self/cgroup")
_READERS: Final = 4


def available() -> int:
    """The cores that this process may use, 1 at least: those of the machine that it may run on, no more than its
    container's limit, divided by the ranks on this machine where torchrun started some.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = quota()
    if limit is not None:
        cores = min(cores, max(1, round(limit)))
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def readers(threads: int) -> int:
    """Threads that read and decode files. 0 is one per core, but at least four, as some wait for a disk."""
    return threads or max(_READERS, available())


def quota(root: Path = _CGROUPS, own: Path = _CGROUP) -> float | None:
    """The processor time that control groups (Linux, 1 or 2) leave this process, in cores; None for no limit."""
    found = [_limit(folder) for folder in _groups(root, own)]
    limits = [each for each in found if each is not None]
    return min(limits, default=None)


def _groups(root: Path, own: Path) -> list[Path]:
    """The folders of this process's groups and of those above: inside a container, the group that it sees as root."""
    folders = [root, root / "cpu", root / "cpu,cpuacct"]
    with contextlib.suppress(OSError):
        for line in own.read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            base = root if not kinds else root / kinds
            parts = Path(path.strip("/")).parts
            folders += [base.joinpath(*parts[:number]) for number in range(1, len(parts) + 1)]
    return folders


def _limit(folder: Path) -> float | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        allowed, period = (folder / "cpu.max").read_text().split()  # version 2: "max 100000" or "150000 100000"
        return None if allowed == "max" else int(allowed) / int(period)
    with contextlib.suppress(OSError, ValueError):
        micros = int((folder / "cpu.cfs_quota_us").read_text())
        return micros / int((folder / "cpu.cfs_period_us").read_text()) if micros > 0 else None
    return None
