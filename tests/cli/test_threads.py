from __future__ import annotations

import os
import sys

import pytest
import torch
from support.training import Stop, recipe

from penstock import cores, devices
from penstock.cli import command
from penstock.cli.events import show
from penstock.training import train


@pytest.mark.parametrize(
    ("chosen", "threads"), [({}, [1]), ({"OMP_NUM_THREADS": "3"}, []), ({"MKL_NUM_THREADS": "3"}, [])]
)
def test_commands_compute_with_as_many_threads_as_there_are_cores_unless_somebody_chose(monkeypatch, chosen, threads):
    set_to = []
    monkeypatch.setattr(os, "environ", chosen)
    monkeypatch.setattr(cores, "available", lambda: 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(torch, "set_num_threads", set_to.append)
    devices.use_available_cores()

    assert set_to == threads


@pytest.mark.parametrize(
    ("chosen", "spins"), [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)]
)
def test_threads_that_wait_leave_their_core_to_others_unless_somebody_chose(monkeypatch, capsys, chosen, spins):
    monkeypatch.setattr(os, "environ", {**chosen})
    monkeypatch.setattr(sys, "argv", ["penstock", "--version"])
    with pytest.raises(SystemExit):
        command()

    assert os.environ.get("GOMP_SPINCOUNT") == spins


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
