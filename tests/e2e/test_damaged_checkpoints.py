from __future__ import annotations

import signal

import pytest
from support import processes
from support.training import Stop, recipe, state

from penstock.cli.events import show
from penstock.errors import CheckpointError
from penstock.session import CheckpointStore
from penstock.training import resume, train

KEPT = {"state.json", "manifest.json"}  # a hook of the tests is in them


def spoil(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\xee")


def test_a_damaged_newest_one_is_fallen_back_from_and_the_run_ends_the_same(packed, tmp_path, capsys):
    whole, _ = train(recipe(packed.folder, save_every=1, keep=9), tmp_path / "whole")
    stopped, _ = train(recipe(packed.folder, save_every=1, keep=9), tmp_path / "stopped", hooks=[Stop(7)])
    for step in (7, 6):
        spoil(stopped.checkpoints / f"step-{step:08d}")
    capsys.readouterr()
    resume(stopped.path, on_event=show)
    out = capsys.readouterr().out.splitlines()

    assert [line.partition(": ")[2][:62] for line in out if "damaged" in line] == [
        "going on from step 5, as a newer checkpoint is damaged: " + str(stopped.checkpoints)[:6]
    ] * 2
    assert "note: step-00000006, step-00000007 will go: the run goes on from step 5" in out
    expected, found = state(whole.path), state(stopped.path)
    assert {k: v for k, v in found.items() if k not in KEPT} == {k: v for k, v in expected.items() if k not in KEPT}


def test_where_all_are_damaged_the_newest_is_named(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=4), tmp_path)
    for name in CheckpointStore(folder.checkpoints).names():
        spoil(folder.checkpoints / name)
    with pytest.raises(CheckpointError, match=r"step-00000004/model\.safetensors: .* No other checkpoint is sound\.$"):
        resume(folder.path)


KILLED_WHILE_PRUNING = """
import os, shutil, signal, sys
from pathlib import Path
import penstock.session.checkpoint as checkpoint
from support.training import recipe
from penstock.training import train

def half(path, **_):
    os.unlink(next(path for path in Path(path).iterdir()))
    os.kill(os.getpid(), signal.SIGKILL)

def armed(self, path, before=checkpoint.CheckpointStore._discard):
    if path.name == sys.argv[3]:
        shutil.rmtree = half
    before(self, path)

checkpoint.CheckpointStore._discard = armed
train(recipe(sys.argv[1], steps=4, save_every=1, evaluate_every=9, keep=1), Path(sys.argv[2]))
"""


@pytest.mark.parametrize("step", [2, 3])
def test_a_kill_while_old_ones_are_removed_leaves_nothing(packed, tmp_path, step):
    """At step 3 the run is finished when it is killed, so nothing is saved any more by whoever resumes it."""
    done = processes.run("-c", KILLED_WHILE_PRUNING, packed.folder, tmp_path, f"step-{step:08d}")
    assert done.returncode == -signal.SIGKILL, done.stderr
    (run,) = tmp_path.glob("0*")
    assert list((run / "checkpoints").glob(".*.partial"))
    resume(run)

    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["best", "last", "step-00000004"]
