"""Trainings with norms, momentum and an average that fail at every step, and go on to the bytes of one that did not."""

from __future__ import annotations

import pytest
import torch
from support.commands import call
from support.training import recipe, state

from penstock.errors import NonFiniteError
from penstock.session import CheckpointStore, Hook
from penstock.training import resume, train

STEPS = 6


class Breaks(Hook):
    """Makes the gradient of one step infinite, or raises after the forward and backward pass."""

    def __init__(self, step, error):
        self.step, self.error = step, error

    def after_backward(self, session):
        if session.step + 1 == self.step:
            if self.error is NonFiniteError:
                next(p for p in session.model.parameters() if p.grad is not None).grad[0] = torch.nan
            else:
                raise self.error("the test breaks it")


@pytest.fixture(scope="module")
def whole(packed, tmp_path_factory):
    folder, _ = train(
        recipe(packed.folder, steps=STEPS, evaluate_every=3, save_every=100), tmp_path_factory.mktemp("whole")
    )
    return state(folder.path)


@pytest.mark.parametrize("error", [NonFiniteError, ConnectionError])
def test_a_run_that_fails_at_each_step_in_turn_is_the_run_that_did_not(packed, whole, tmp_path, error):
    """One run, which fails in its second step, is resumed, fails in its third, and so on."""
    chosen = recipe(packed.folder, steps=STEPS, evaluate_every=3, save_every=100)
    with pytest.raises(error):
        train(chosen, tmp_path, hooks=[Breaks(2, error)])
    (run,) = tmp_path.iterdir()
    for step in range(3, STEPS + 1):
        assert CheckpointStore(run / "checkpoints").load().step == step - 2
        with pytest.raises(error):
            resume(run, hooks=[Breaks(step, error)])
    resume(run)

    assert state(run) == whole


HOOK = """
from penstock.session import Hook

class Breaks(Hook):
    def after_backward(self, session):
        if session.step == 2:
            raise ValueError("the test breaks it")
"""


def test_people_are_told_that_it_is_saved_and_how_to_go_on(packed, tmp_path, capsys):
    (tmp_path / "mine.py").write_text(HOOK)
    words = ("train", packed.folder, "--model", "unet:test_resnet", "--weights", "none", "--crop", 32, 32, "--batch", 4)
    with pytest.raises(ValueError, match="the test breaks it"):
        call(
            *words,
            "--steps",
            4,
            "--device",
            "cpu",
            "--runs",
            tmp_path / "runs",
            "--hook",
            f"{tmp_path}/mine.py:Breaks",
            capsys=capsys,
        )
    (run,) = (tmp_path / "runs").iterdir()
    lines = capsys.readouterr().out.splitlines()

    assert lines[-2:] == ["failed at step 2", f"step 2 is saved: go on with penstock train --resume {run}"]
    assert CheckpointStore(run / "checkpoints").load().step == 2
