from __future__ import annotations

import shutil

import pytest
from support.commands import call
from support.errors import refused
from support.training import Stop, recipe

from penstock.training import resume, train


@pytest.fixture(scope="module")
def ended(packed, tmp_path_factory):
    folder, _ = train(recipe(packed.folder, steps=2), tmp_path_factory.mktemp("runs"))
    return folder.path


@pytest.fixture
def copied(ended, tmp_path):
    shutil.copytree(ended, tmp_path / "run", symlinks=True)
    return tmp_path / "run"


def test_a_run_whose_checkpoints_are_gone_keeps_its_metrics(copied):
    before = (copied / "metrics.jsonl").read_bytes()
    shutil.rmtree(copied / "checkpoints")
    (copied / "checkpoints").mkdir()
    message = (
        f"{copied}/checkpoints is empty, but the run finished at step 2 and had saved a checkpoint. Restore the folder from a "
        "copy of the run, or start a new run."
    )

    refused(resume, copied, message=message)
    assert (copied / "metrics.jsonl").read_bytes() == before


def test_so_does_one_that_was_stopped(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=4), tmp_path, hooks=[Stop(1)])
    shutil.rmtree(folder.checkpoints)
    folder.checkpoints.mkdir()
    message = (
        f"{folder.checkpoints} is empty, but the run stopped at step 1 and had saved a checkpoint. Restore the folder from a "
        "copy of the run, or start a new run."
    )
    refused(resume, folder.path, message=message)


def test_a_run_that_was_killed_before_it_saved_starts_again(copied):
    shutil.rmtree(copied / "checkpoints")
    (copied / "checkpoints").mkdir()
    events = (copied / "events.jsonl").read_text().splitlines()
    (copied / "events.jsonl").write_text(events[0] + "\n")
    _, outcome = resume(copied)

    assert (outcome.status, outcome.step) == ("finished", 2)


def test_a_recipe_without_data_is_damaged(copied, capsys):
    (copied / "recipe.toml").write_text("")
    message = (
        f"{copied}/recipe.toml: data.path: expected the dataset that the run was trained on, found nothing. Restore the file "
        "from a copy of the run."
    )
    refused(resume, copied, message=message)
    for command in (["evaluate", copied], ["train", "--resume", copied]):
        assert call(*command, capsys=capsys)[::2] == (2, f"error: {message}\n")
