from __future__ import annotations

import os

import pytest

from penstock import cores


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


@pytest.mark.parametrize(("available", "wanted", "threads"), [(2, 0, 4), (16, 0, 16), (16, 1, 1), (2, 8, 8)])
def test_those_that_read_files(monkeypatch, available, wanted, threads):
    monkeypatch.setattr(cores, "available", lambda: available)

    assert cores.readers(wanted) == threads
