"""Ports for servers of tests, which nobody else takes between the choice and the start.

A port that the operating system gives (`bind` to 0) may be given again, to any connection, once it is free. So ports are
taken in turn from below the range of the operating system, another part of it for each worker of pytest.
"""

from __future__ import annotations

import itertools
import os
import socket

LOWEST = 12_000
EACH = 1_000
"""Ports of a worker; up to twenty workers stay below 32,768, where Linux begins to give ports away."""

_turn = itertools.count(os.getpid() % EACH)  # another suite beside this one begins elsewhere


def free_ports(count: int) -> list[int]:
    """So many ports on which nobody listens, none of them one of the last hundreds."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 20
    turns = (LOWEST + worker * EACH + turn % EACH for turn in _turn)
    return list(itertools.islice(filter(_is_free, turns), count))


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
