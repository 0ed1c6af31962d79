"""What becomes of a training whose disk is full, read-only or broken, or whose folder goes away."""

from __future__ import annotations

import errno
import os

import pytest
from support.training import recipe, state

from penstock import files
from penstock.errors import PenstockError
from penstock.session import CheckpointStore, Hook
from penstock.session import state as states
from penstock.training import resume, train

pytestmark = pytest.mark.slow

STEPS = 4
FILES = ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"]
FAULTS = {
    errno.ENOSPC: "no space left on device",
    errno.EROFS: "read-only file system",
    errno.EIO: "input/output error",
    errno.EDQUOT: "disk quota exceeded",
}


@pytest.fixture(scope="module")
def chosen(packed):
    return recipe(packed.folder, steps=STEPS, save_every=2, evaluate_every=4)


@pytest.fixture(scope="module")
def whole(chosen, tmp_path_factory):
    folder, _ = train(chosen, tmp_path_factory.mktemp("whole"))
    return state(folder.path)


def broken(write, file, fault, after):
    """A function that writes files, which has the fault from the `after`-th file of a name on."""
    seen = []

    def instead(path, *arguments, **named):
        seen.extend([path] if path.name == file else [])
        if path.name == file and len(seen) >= after:
            raise OSError(fault, os.strerror(fault), str(path))
        return write(path, *arguments, **named)

    return instead


@pytest.mark.parametrize(
    ("fault", "file", "after"),
    [
        *((errno.ENOSPC, file, after) for file in FILES for after in (1, 2)),
        *((fault, "model.safetensors", 2) for fault in FAULTS if fault != errno.ENOSPC),
    ],
)
def test_a_checkpoint_that_cannot_be_written_costs_no_other(chosen, whole, tmp_path, monkeypatch, fault, file, after):
    """The disk breaks at the first or at the second checkpoint, and is mended before the run is resumed."""
    place, name = (states, "write_tensors") if file.endswith(".safetensors") else (files, "write_synced")
    with monkeypatch.context() as patch:
        patch.setattr(place, name, broken(getattr(place, name), file, fault, after))
        with pytest.raises((PenstockError, OSError)) as caught:
            train(chosen, tmp_path)
    (run,) = tmp_path.iterdir()
    store = CheckpointStore(run / "checkpoints")
    lines = (run / "log.txt").read_text().splitlines()

    assert os.strerror(fault).lower() in str(caught.value).lower()
    assert FAULTS[fault] == os.strerror(fault).lower()
    assert store.names() == ([] if after == 1 else ["step-00000002"])
    told = [line for line in lines if "is saved: go on with" in line]
    assert told == ([] if after == 1 else [f"step 2 is saved: go on with penstock train --resume {run}"])
    resume(run)
    assert state(run) == whole
    assert not list((run / "checkpoints").glob(".*"))


class Moves(Hook):
    """Moves the run's folder away after a step, before that is logged or, of the band "persist", before it is saved."""

    def __init__(self, step, root, band):
        self.step, self.root, self.band = step, root, band

    def after_step(self, session):
        if session.step == self.step:
            (run,) = self.root.iterdir()
            run.rename(self.root.with_name("moved"))


@pytest.mark.parametrize(("step", "band"), [(1, "measure"), (3, "measure"), (2, "persist")])
def test_a_run_whose_folder_is_moved_ends_and_goes_on_from_there(chosen, whole, tmp_path, step, band):
    root = tmp_path / "runs"
    with pytest.raises((PenstockError, OSError)):
        train(chosen, root, hooks=[Moves(step, root, band)])
    assert not list(root.iterdir())
    resume(tmp_path / "moved")

    assert state(tmp_path / "moved") == whole
