"""Two processes that normalise together."""

from __future__ import annotations

from support import processes


def two_ranks(*words):
    done = processes.ranks(2, *words)
    assert done.returncode == 0, done.stderr
