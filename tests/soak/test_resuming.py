"""Three hundred SIGKILLs at random moments, of one process, of one of two ranks, and under torchrun's agent.

Only by `make soak`; writes bench/results/soak.json.
"""

from __future__ import annotations

import common
import pytest
from support import processes
from support.killing import CHILD, adopt_orphans, kill_ranks_until, kill_until, left_behind, only_run, run
from support.paths import SUPPORT
from support.training import state

KILLS = {"one": 200, "ranks": 60, "elastic": 40}


def kill_elastically(data, folder, kills):
    """Two ranks under torchrun's agent, one of which is killed after each start; in other runs, until so many are.

    Returns:
        How many were killed, and the runs that ended.
    """
    child, died = SUPPORT / "elastic_child.py", 0
    processes.elastic(2, child, data, folder / "whole", 0, 0)
    whole = state(only_run(folder / "whole"))
    seed = 0
    while died < kills:
        runs = folder / str(seed)
        processes.elastic(2, child, data, runs, min(10, kills - died), seed, restarts=10)
        assert state(only_run(runs)) == whole
        log = runs.with_suffix(".kills")
        died += len(log.read_text().splitlines()) if log.exists() else 0
        seed += 1
    return died, seed


@pytest.mark.soak
def test_three_hundred_kills_change_nothing_and_leave_nothing(packed, tmp_path):
    adopt_orphans()
    assert run(packed.folder, tmp_path / "one") == 0
    done = processes.ranks(2, CHILD, packed.folder, tmp_path / "two", "never", 0)
    assert done.returncode == 0, done.stderr
    one, two = (state(only_run(tmp_path / name)) for name in ("one", "two"))
    before = left_behind()
    kinds, ended = kill_until(packed.folder, tmp_path / "killed", one, KILLS["one"], seed=2)
    ranks = kill_ranks_until(packed.folder, tmp_path / "ranks", two, KILLS["ranks"], seed=3)
    elastic, launches = kill_elastically(packed.folder, tmp_path / "elastic", KILLS["elastic"])
    assert left_behind() == before
    versions = common.versions("penstock", "torch")
    counts = {"kinds": dict(kinds), "ranks": KILLS["ranks"], "elastic": elastic}
    ends = {"one": ended, "ranks": ranks, "elastic": launches}
    common.write("soak", "make soak", {"kills": counts, "ended": ends, "versions": versions})

    assert kinds.total() == KILLS["one"]
    assert len(kinds) == 5
