"""Data that does not come any more, as from a network disk that is gone: training ends, and has lost nothing."""

from __future__ import annotations

import threading

import pytest
from support.processes import Child, kill_tree
from support.training import recipe, state

from penstock.config import apply
from penstock.errors import StalledError
from penstock.session import CheckpointStore, Hook
from penstock.sources import FilesSource
from penstock.training import resume, train


class Hold(Hook):
    """Holds all reading at a point of step 4, until the test lets it go."""

    def __init__(self, point):
        setattr(self, point, self.hold)
        self.holds, self.free, read = False, threading.Event(), FilesSource.read

        def held(source, *place):
            if self.holds:
                self.free.wait(60)
            return read(source, *place)

        self.read = held

    def hold(self, session):
        self.holds = session.step >= 4


@pytest.mark.parametrize(("point", "step"), [("before_step", 4), ("after_step", 4)])
def test_a_training_and_its_evaluation_end_and_save(packed, whole_run, tmp_path, monkeypatch, point, step):
    """A feed works ahead, so some more steps may be made; an evaluation reads at once."""
    hook = Hold(point)
    monkeypatch.setattr(FilesSource, "read", hook.read)
    monkeypatch.setattr("penstock.feed.feed._PATIENCE", 0.5)  # of the training's own feed, where an evaluation stalls
    chosen = recipe(packed.folder, evaluate_every=4 if point == "after_step" else 12, save_every=12)
    try:
        with pytest.raises(StalledError, match=r" seconds \(train\.stall_timeout\), found nothing") as caught:
            train(apply(chosen, ["train.stall_timeout=0.5"]), tmp_path, hooks=[hook])
    finally:
        hook.free.set()
        hook.holds = False
    (folder,) = tmp_path.iterdir()
    saved = CheckpointStore(folder / "checkpoints").load().step

    assert saved == step if point == "after_step" else step <= saved < 12
    assert "self.free.wait(60)" in str(caught.value)
    resume(folder, ["train.evaluate_every=4", "train.save_every=3", "train.stall_timeout=1800"])
    assert state(folder)["model.safetensors"] == state(whole_run)["model.safetensors"]


def test_the_command_ends_although_the_system_holds_its_threads(packed, tmp_path):
    (tmp_path / "gone.py").write_text(
        "import time\nimport penstock as ps\nfrom penstock.sources import FilesSource\n\n\n"
        "class Gone(ps.Hook):\n    def after_step(self, session):\n"
        "        if session.step == 3:\n            FilesSource.read = lambda *_: time.sleep(1000)\n"
    )
    words = ["--model", "unet:test_resnet", "--weights", "none", "--crop", 32, 32, "--batch", 4, "--steps", 1000]
    more = ["--device", "cpu", "--hook", f"{tmp_path / 'gone.py'}:Gone", "--stall-timeout", 1]
    child = Child(["-m", "penstock", "train", packed.folder, *words, *more, "--runs", tmp_path / "runs"])
    try:
        code = child.wait(60)
    finally:
        kill_tree(child)
    err = child.printed()[1]
    (run,) = (tmp_path / "runs").iterdir()

    assert code == 2
    assert err.startswith("error: ")
    assert " seconds (train.stall_timeout), found nothing. Check the disk or the network that holds them" in err
    assert "time.sleep(1000)" in err
    assert "Traceback" not in err
    assert CheckpointStore(run / "checkpoints").load().step >= 3
