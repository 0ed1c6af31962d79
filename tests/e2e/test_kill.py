"""Exact resume, by real processes and real SIGKILLs; and on other numbers of ranks."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from support import processes
from support.killing import CHILD, kill_until, only_run, run
from support.processes import quiet
from support.training import recipe, state

import penstock
from penstock.assembly import open_experiment

pytestmark = pytest.mark.slow

STEPS, BATCH = 12, 4


@pytest.fixture(scope="module")
def whole(packed, tmp_path_factory):
    runs = tmp_path_factory.mktemp("whole")
    assert run(packed.folder, runs) == 0
    return state(only_run(runs))


def test_kills_change_nothing(packed, whole, tmp_path):
    kinds, ended = kill_until(packed.folder, tmp_path, whole, kills=4, seed=1)

    assert kinds.total() == 4
    assert ended >= 1


@pytest.mark.parametrize("moment", [("write", 9), ("rename", 5), ("renamed", 4), ("evaluation", 5)])
def test_a_kill_in_each_critical_place_changes_nothing(packed, whole, tmp_path, moment):
    assert run(packed.folder, tmp_path, *moment) == -signal.SIGKILL
    assert run(packed.folder, tmp_path) == 0
    assert state(only_run(tmp_path)) == whole


def ranks(data, runs, count, kind="never", number=0):
    """Several ranks, and the exit code of them all."""
    done = processes.ranks(count, CHILD, data, runs, kind, number)
    return done.returncode, done.stderr


def origins(folder):
    lines = [json.loads(line) for line in (folder / "origins.jsonl").read_text().splitlines()]
    return [(line["step"], line["origins"]) for line in lines]


def test_ranks_may_change_at_every_resume(packed, tmp_path):
    """Two ranks killed, then one, then three killed, then two: the global batches are those of the plan, in order."""
    assert ranks(packed.folder, tmp_path, 2, "rename", 7)[0] != 0
    assert run(packed.folder, tmp_path, "write", 9) == -signal.SIGKILL
    assert ranks(packed.folder, tmp_path, 3, "rename", 3)[0] != 0
    code, errors = ranks(packed.folder, tmp_path, 2)
    assert code == 0, errors
    plan = open_experiment(recipe(packed.folder)).plan

    assert origins(only_run(tmp_path)) == [
        (k + 1, [plan.at(k * BATCH + i).origin for i in range(BATCH)]) for k in range(STEPS)
    ]
    metrics = [json.loads(line) for line in (only_run(tmp_path) / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in metrics if "loss" in line] == list(range(1, STEPS + 1))


@pytest.mark.soak  # ranks that change at every resume are tried above
def test_two_ranks_killed_and_resumed_are_two_ranks_undisturbed(packed, tmp_path):
    code, errors = ranks(packed.folder, tmp_path / "whole", 2)
    assert code == 0, errors
    assert ranks(packed.folder, tmp_path / "killed", 2, "renamed", 5)[0] != 0
    code, errors = ranks(packed.folder, tmp_path / "killed", 2)
    assert code == 0, errors

    assert state(only_run(tmp_path / "killed")) == state(only_run(tmp_path / "whole"))


def restarted(*words):
    """Two ranks under torchrun's agent, which starts them again when one is killed."""
    return processes.elastic(2, CHILD.with_name("restart_child.py"), *words)


def test_who_is_started_again_by_torchrun_goes_on_with_the_same_run(packed, tmp_path):
    """`--max-restarts`: no second run, and the bytes of ranks that nobody killed."""
    whole = processes.ranks(2, CHILD.with_name("restart_child.py"), packed.folder, tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    out = restarted(packed.folder, tmp_path / "killed")
    run = only_run(tmp_path / "killed")

    assert f"started again by torchrun: going on with {run}\n" in out
    assert state(run) == state(only_run(tmp_path / "whole"))


@pytest.mark.soak
def test_a_resumed_run_goes_on_when_torchrun_starts_it_again(packed, tmp_path):
    assert ranks(packed.folder, tmp_path / "resumed", 2, "rename", 5)[0] != 0
    begun = only_run(tmp_path / "resumed")
    restarted(packed.folder, tmp_path / "resumed", begun)
    assert only_run(tmp_path / "resumed") == begun
    assert [line["step"] for line in metrics(begun)] == list(range(1, STEPS + 1))


def metrics(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "loss" in line]


def test_child_processes_import_what_is_tested(tmp_path):
    code = "import penstock; from support import processes; print(penstock.__file__)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=quiet(), capture_output=True, text=True, check=True)

    assert done.stdout.strip() == penstock.__file__
