"""How many cores there are: in a container fewer than the machine has."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from training import Stop, recipe

from penstock import cores, devices
from penstock.cli.events import show
from penstock.training import train


def group(root, path, name, text):
    folder = root / path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("limits", "own", "expected"),
    [
        ({}, "0::/", None),
        ({".": "max 100000"}, "0::/", None),
        ({".": "150000 100000"}, "0::/", 1.5),
        ({"a/b": "400000 100000"}, "0::/a/b", 4.0),
        ({"a": "200000 100000", "a/b": "max 100000"}, "0::/a/b", 2.0),
        ({"a": "200000 100000", "a/b": "50000 100000"}, "0::/a/b", 0.5),
        ({"other": "50000 100000"}, "0::/a/b", None),
        ({".": "nonsense"}, "0::/", None),
    ],
)
def test_the_lowest_limit_above_a_process_counts(tmp_path, limits, own, expected):
    for path, text in limits.items():
        group(tmp_path / "cg", path, "cpu.max", text)
    (tmp_path / "own").write_text(own + "\n")

    assert cores.quota(tmp_path / "cg", tmp_path / "own") == expected


@pytest.mark.parametrize(("micros", "expected"), [("300000", 3.0), ("-1", None)])
def test_version_1_too(tmp_path, micros, expected):
    group(tmp_path / "cg", "cpu,cpuacct/docker/x", "cpu.cfs_quota_us", micros)
    group(tmp_path / "cg", "cpu,cpuacct/docker/x", "cpu.cfs_period_us", "100000")
    (tmp_path / "own").write_text("4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n")

    assert cores.quota(tmp_path / "cg", tmp_path / "own") == expected


def test_those_that_a_process_may_run_on_and_its_limit_and_its_ranks(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    found = []
    for limit, ranks in ((None, 1), (3.0, 1), (0.4, 1), (100.0, 1), (6.0, 2), (None, 16)):
        monkeypatch.setattr(cores, "quota", lambda limit=limit: limit)
        monkeypatch.setenv("LOCAL_WORLD_SIZE", str(ranks))
        found.append(cores.available())

    assert found == [8, 3, 1, 8, 3, 1]


CODE = """
import os, sys
from penstock import cores, devices
cores.available = lambda: 1
os.sched_getaffinity = lambda _: {0, 1, 2, 3}
import torch
torch.set_num_threads(4)
devices.use_available_cores()
print(torch.get_num_threads())
"""


@pytest.mark.parametrize(("chosen", "threads"), [({}, "1"), ({"OMP_NUM_THREADS": "3"}, "4")])
def test_commands_compute_with_as_many_threads_as_there_are_cores_unless_somebody_chose(chosen, threads):
    own = {name: value for name, value in os.environ.items() if name not in {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env={**own, **chosen}, capture_output=True, text=True, check=True
    )

    assert done.stdout == f"{threads}\n"


def test_more_threads_than_cores_are_told_of(packed, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cores, "available", lambda: 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 6)
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path, hooks=[Stop(1)], on_event=show)
    note = (
        "note: 6 threads compute on 1 core, where they wait for each other: training may be ten times slower; set "
        "OMP_NUM_THREADS=1"
    )

    assert note in capsys.readouterr().out.splitlines()
    assert note in (folder.path / "log.txt").read_text().splitlines()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert devices.too_many_threads(torch.device("cpu")) == ""
