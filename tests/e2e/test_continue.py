"""The same command, given again by a scheduler, goes on with the run that it began."""

from __future__ import annotations

import pytest
from support.commands import call
from support.training import Stop, recipe, state

from penstock.config import apply
from penstock.session import CheckpointStore
from penstock.training import train

HOOK = """
from penstock.session import Hook

class StopsAt(Hook):
    def __init__(self, step):
        self.step = step

    def after_step(self, session):
        if session.step == self.step:
            session.request_stop("the test asks")
"""


@pytest.fixture
def words(packed, tmp_path):
    return (
        "train", packed.folder, "--model", "unet:test_resnet", "--weights", "none", "--crop", 32, 32, "--batch", 4,
        "--steps", 4, "--device", "cpu", "--runs", tmp_path / "runs", "--continue",
    )  # fmt: skip


def test_it_begins_goes_on_and_has_nothing_to_do(words, packed, tmp_path, capsys, monkeypatch):
    """From another folder, and with a hook of one's own, whose copy the run has."""
    (tmp_path / "mine.py").write_text(HOOK)
    hook = ("--set", f"hooks=[{{name='{tmp_path}/mine.py:StopsAt', step=2}}]")
    code, out, _ = call(*words, "--name", "a", *hook, capsys=capsys)
    run = tmp_path / "runs/0001-a"
    assert (code, f"run {run}" in out, "stopped at step 2" in out) == (0, True, True)
    monkeypatch.chdir(packed.folder.parent)
    (tmp_path / "mine.py").write_text(HOOK.replace("== self.step", "== 3"))  # the run has a copy of what it was
    code, out, _ = call(*words, "--name", "a", *hook, capsys=capsys)
    assert (code, f"going on with {run}" in out, "finished at step 4" in out) == (0, True, True)
    code, out, _ = call(*words, "--name", "a", *hook, capsys=capsys)
    assert (code, "already finished, at step 4" in out) == (0, True)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["0001-a"]


def test_the_newest_run_of_the_name_is_gone_on_with(packed, tmp_path):
    for name in ("b", "a-b", "b"):
        train(recipe(packed.folder, steps=3), tmp_path, name, hooks=[Stop(1)])
    whole, _ = train(recipe(packed.folder, steps=3), tmp_path / "whole", "b")
    folder, _ = train(recipe(packed.folder, steps=3), tmp_path, "b", go_on=True)

    assert folder.path.name == "0003-b"
    assert state(folder.path) == state(whole.path)
    assert CheckpointStore(tmp_path / "0001-b/checkpoints").load().step == 1


def test_a_run_that_had_no_recipe_yet_is_none(packed, tmp_path):
    (tmp_path / "0001-a").mkdir()
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path, "a", go_on=True)

    assert folder.path.name == "0002-a"


def test_other_settings_that_may_change_do_and_others_are_refused(words, tmp_path, capsys):
    assert call(*words, "--name", "a", capsys=capsys)[0] == 0
    longer = [6 if word == 4 and words[number - 1] == "--steps" else word for number, word in enumerate(words)]
    assert "finished at step 6" in call(*longer, "--name", "a", capsys=capsys)[1]
    code, _, err = call(*longer, "--seed", 9, "--name", "a", capsys=capsys)
    assert code == 2
    assert "seed" in err


def test_the_run_knows_its_data(words, tmp_path, capsys):
    _, _, *others = words
    code, _, err = call("train", *others, "--name", "a", capsys=capsys)
    assert (code, err.partition(",")[0]) == (2, f"error: {tmp_path / 'runs'}: expected a run called a")
    assert call(*words, "--name", "a", capsys=capsys)[0] == 0
    longer = ("--name", "a", "--runs", tmp_path / "runs", "--continue", "--steps", 5)
    assert "finished at step 5" in call("train", *longer, capsys=capsys)[1]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["0001-a"]


def test_it_needs_a_name(words, packed, capsys):
    message = "error: --continue: expected --name NAME, found none. Name the run to go on with.\n"
    assert call(*words, capsys=capsys)[::2] == (2, message)


def test_settings_given_in_a_recipe_stay(packed, tmp_path):
    chosen = apply(recipe(packed.folder, steps=2), ["augment.jitter.hue=0.1"])
    first, _ = train(chosen, tmp_path, "a", go_on=True)
    again, outcome = train(chosen, tmp_path, "a", go_on=True)

    assert (again.path, outcome.status) == (first.path, "finished")
