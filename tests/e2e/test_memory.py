"""Memory that runs out in a training, on a device that has room for two images at a time."""

from __future__ import annotations

import pytest
from support.commands import call
from support.training import recipe, state

from penstock.config import apply, dump
from penstock.session import CheckpointStore
from penstock.session.step import Gradients
from penstock.training import train


@pytest.fixture
def small(monkeypatch):
    """From the fifth pass on, as memory may have gone to something else."""
    own, passes = Gradients.outputs, []

    def outputs(self, network, task, part):
        given = own(self, network, task, part)
        passes.append(len(part["image"]))
        if len(passes) > 5 and len(part["image"]) > 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return given

    monkeypatch.setattr(Gradients, "outputs", outputs)
    return passes


def test_a_training_goes_on_in_micro_batches_that_fit(packed, tmp_path, small, monkeypatch):
    """As one whose memory was enough until then, and that computes its steps in two parts from there on."""
    frozen = apply(recipe(packed.folder), ["train.freeze_bn=true"])
    folder, outcome = train(apply(frozen, ["train.halve_on_oom=true"]), tmp_path / "halved")
    assert outcome.status == "finished"
    assert small == [*[4] * 6, *[2] * 14]
    line = "step 6 ran out of memory: from here on, batches are computed in 2 micro-batches of 2 images (train.halve_on_oom)"
    assert line in (folder.path / "log.txt").read_text().splitlines()

    monkeypatch.undo()
    cuts = Gradients.cuts
    seen = []

    def cut(self, rows, size):
        seen.append(size)
        self.accumulate = 2 if len(seen) > 5 else 1
        return cuts(self, rows, size)

    monkeypatch.setattr(Gradients, "cuts", cut)
    right, _ = train(frozen, tmp_path / "right")
    assert state(folder.path)["model.safetensors"] == state(right.path)["model.safetensors"]


def test_the_command_says_what_fits_and_has_lost_no_step(packed, tmp_path, small, capsys):
    (tmp_path / "recipe.toml").write_text(dump(recipe(packed.folder, save_every=99, evaluate_every=99)))
    code, _, err = call("train", tmp_path / "recipe.toml", "--runs", tmp_path / "runs", capsys=capsys)
    (run,) = (tmp_path / "runs").iterdir()

    assert code == 2
    assert err == (
        "error: step 6: expected memory for 4 images on cpu, found too little (RuntimeError: CUDA out of memory. Tried to "
        "allocate 2.00 GiB). 2 images at a time fit: go on with --set train.accumulate=2, which computes a batch in 2 parts, "
        "or start with --batch 2. With train.halve_on_oom this is done at once.\n"
    )
    assert CheckpointStore(run / "checkpoints").load().step == 5
    words = ["--resume", run, "--set", "train.accumulate=2"]
    assert call("train", *words, capsys=capsys)[0] == 0
    assert CheckpointStore(run / "checkpoints").load().step == 12
