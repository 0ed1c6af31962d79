from __future__ import annotations

import json
import shutil

import pytest
from support.errors import refused
from support.training import recipe

import penstock as ps
from penstock.errors import CheckpointError
from penstock.runs import manifests


def test_a_checkpoint_of_another_run_is_refused(packed, tmp_path):
    runs = [
        ps.train(recipe(packed.folder, steps=2), runs=tmp_path, settings={"optimizer.lr": lr}).path for lr in (0.1, 0.2)
    ]
    copied = tmp_path / "copied"
    shutil.copytree(runs[0], copied, symlinks=True)
    assert ps.Run(copied).evaluate().step == 2

    shutil.rmtree(copied / "checkpoints/step-00000002")
    shutil.copytree(runs[1] / "checkpoints/step-00000002", copied / "checkpoints/step-00000002")
    place = f"{copied}/checkpoints/step-00000002: expected a checkpoint of this run, found that of another run. "
    for door in (lambda: ps.Run(copied).evaluate(), lambda: ps.load(copied), lambda: ps.resume(copied, steps=4)):
        with pytest.raises(CheckpointError) as caught:
            door()
        assert str(caught.value).startswith(place)


def test_a_run_that_says_nothing_of_itself_has_any_checkpoint(tmp_path):
    checkpoint = tmp_path / "run/checkpoints/step-00000003"
    checkpoint.mkdir(parents=True)
    for name in ("model.safetensors", "state.json"):
        (checkpoint / name).write_text("{}")
    (tmp_path / "run/settings.json").write_text('{"run": "a"}')
    manifests.write(checkpoint, 3)

    assert json.loads((checkpoint / "manifest.json").read_text())["run"] == "a"
    for text in ('{"run": "a"}', "{}", "[]", "damaged"):
        (tmp_path / "run/settings.json").write_text(text)
        assert manifests.check(checkpoint) == (3, ["model.safetensors", "state.json"])
    (tmp_path / "run/settings.json").write_text('{"run": "b"}')
    refused(
        manifests.check, checkpoint,
        message=f"{checkpoint}: expected a checkpoint of this run, found that of another run. Remove it, and use another "
        "checkpoint of the run.",
    )  # fmt: skip
