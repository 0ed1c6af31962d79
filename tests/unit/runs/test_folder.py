from __future__ import annotations

import errno
import json
import os
import signal
from pathlib import Path

import pytest
import torch
from support import processes
from support.commands import call
from support.errors import refused
from support.training import Stop, recipe, state

import penstock as ps
from penstock import files
from penstock.config import load
from penstock.errors import RunError
from penstock.events import Events
from penstock.ranks import Launch, Ranks
from penstock.runs import RunFolder
from penstock.runs.folder import cut_back
from penstock.training import resume, train
from penstock.training.agreement import begun_by_launch


def test_a_new_run_has_a_folder_of_its_own(packed, tmp_path):
    first, _ = train(recipe(packed.folder, steps=2), tmp_path, "same")
    before = state(first.path)
    second, _ = train(recipe(packed.folder, steps=3), tmp_path, "same")

    assert [path.name for path in sorted(tmp_path.iterdir())] == ["0001-same", "0002-same"]
    assert second.path.name == "0002-same"
    assert state(first.path) == before


def test_a_number_is_above_the_highest_whatever_was_removed(packed, tmp_path):
    for name in ("0001-a", "0003-b", "x"):
        (tmp_path / name).mkdir()
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path, "new")
    assert folder.path.name == "0004-new"


def test_it_says_what_was_asked_where_it_ran_and_on_which_data(packed, tmp_path):
    chosen = recipe(packed.folder, steps=2)
    folder, _ = train(chosen, tmp_path)
    where = json.loads((folder.path / "environment.json").read_text())
    data = json.loads((folder.path / "data.json").read_text())

    assert load(folder.path / "recipe.toml") == chosen
    assert where["packages"]["torch"] == torch.__version__.partition("+")[0]
    assert where["command"]
    assert (where["ranks"], where["device"].partition(" ")[0]) == (1, "cpu")
    assert data["content"] == packed.description.content
    assert [Path(name).name for name in data["snapshots"]["train"]["source"].split()] == [
        shard.name for shard in packed.split("train").shards
    ]


def test_events_are_what_happened(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=4), tmp_path, hooks=[Stop(2)])
    resume(folder.path)
    lines = [json.loads(line) for line in (folder.path / "events.jsonl").read_text().splitlines()]

    assert [(line["event"], line["step"]) for line in lines] == [
        ("started", 0), ("stopped", 2), ("resumed", 2), ("evaluated", 4), ("finished", 4),
    ]  # fmt: skip


def test_runs_are_numbered_whatever_their_names_and_go_on_where_they_are(packed, tmp_path, capsys):
    """Another start for weights that have already moved is refused, not passed over."""
    for name in ("one", "other"):
        words = ["--name", name, "--runs", tmp_path, "--model", "unet:test_resnet", "--weights", "none", "--steps", 1]
        assert call("train", packed.folder, *words, "--batch", 4, "--crop", 32, 32, capsys=capsys)[0] == 0
    first, second = sorted(tmp_path.iterdir())
    assert (first.name, second.name) == ("0001-one", "0002-other")
    code, _, errors = call("train", "--resume", second, "--init", first, capsys=capsys)
    assert (code, "init: expected " in errors) == (2, True)
    assert call("train", "--resume", second, "--steps", 2, capsys=capsys)[0] == 0

    assert sorted(tmp_path.iterdir()) == [first, second]
    assert (second / "checkpoints" / "last").resolve().name == "step-00000002"


@pytest.mark.parametrize("name", ["a/b", "a\\b", "a\nb"])
def test_a_name_that_no_folder_can_have_is_refused_before_anything_is_written(packed, tmp_path, name):
    with pytest.raises(RunError) as caught:
        train(recipe(packed.folder, steps=2), tmp_path / "runs", name)
    assert str(caught.value) == (
        f"--name {name!r} cannot be part of a folder's name. Remove slashes and control characters; --runs sets the "
        "folder that all runs are in."
    )
    assert not (tmp_path / "runs").exists()


def test_a_file_is_no_run(tmp_path):
    (tmp_path / "data.json").write_text("{}")
    with pytest.raises(RunError) as caught:
        RunFolder.open(tmp_path / "data.json")

    assert str(caught.value) == (
        f"{tmp_path}/data.json: expected a run folder, with a recipe.toml, found a file. Name a folder that penstock train "
        "made, for example runs/0001-..."
    )


KILLED = """
import os, signal, sys
from pathlib import Path
from penstock.runs import RunFolder

def fill(folder):
    (folder.path / "recipe.toml").write_text("")
    (folder.path / "environment.json").write_text('{"launch": "this one"}')
    os.kill(os.getpid(), signal.SIGKILL)

RunFolder.create(Path(sys.argv[1]), "run", fill)
"""


class TestCreation:
    """A run is there once it is whole."""

    @pytest.fixture
    def left(self, tmp_path):
        """What a process leaves that is killed while it makes a run."""
        child = tmp_path / "child.py"
        child.write_text(KILLED)
        assert processes.run(child, tmp_path / "runs").returncode == -signal.SIGKILL
        (left,) = (tmp_path / "runs").iterdir()
        return left

    def test_a_kill_leaves_no_run(self, left, monkeypatch):
        assert left.name.startswith(".run.")
        assert ps.list_runs(left.parent) == []
        assert RunFolder.newest(left.parent, "run") is None
        monkeypatch.setattr("penstock.ranks.launch", lambda: Launch("this one", 1))
        assert begun_by_launch(left.parent, Ranks(), Events()) is None
        whole = left.rename(left.with_name("0001-run"))
        assert begun_by_launch(left.parent, Ranks(), Events()) == whole

    def test_the_next_one_removes_what_it_leaves(self, left):
        first = RunFolder.create(left.parent, "run").path  # it may have been made just now
        assert left.exists()
        os.utime(left, (0, 0))
        with files.locked(left):  # somebody makes it, slowly
            second = RunFolder.create(left.parent, "run").path
        assert left.exists()
        third = RunFolder.create(left.parent, "run").path
        assert sorted(left.parent.iterdir()) == [first, second, third]

    def test_what_fails_leaves_nothing(self, tmp_path):
        with pytest.raises(ZeroDivisionError):
            RunFolder.create(tmp_path, "run", lambda folder: 1 / 0)
        assert list(tmp_path.iterdir()) == []

    def test_no_two_have_the_same_folder(self, tmp_path):
        """Another process takes the number meanwhile, and somebody has made an empty folder of the next."""

        def fill(folder):
            (tmp_path / "0001-run").mkdir()
            (tmp_path / "0001-run" / "recipe.toml").touch()

        number_of = RunFolder.number_of
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RunFolder, "number_of", staticmethod(lambda path: 0))
            patch.setattr(Path, "exists", lambda path: False)
            assert RunFolder.create(tmp_path, "run", fill).path == tmp_path / "0002-run"
        (tmp_path / "0003-run").mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RunFolder, "number_of", staticmethod(lambda path: min(2, number_of(path))))
            assert RunFolder.create(tmp_path, "run").path == tmp_path / "0004-run"
        assert list((tmp_path / "0003-run").iterdir()) == []

    def test_a_folder_that_cannot_be_renamed_is_an_error(self, tmp_path, monkeypatch):
        def rename(path, target):
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(Path, "rename", rename)
        with pytest.raises(OSError, match="Input/output error"):
            RunFolder.create(tmp_path, "run")


class TestStrangers:
    """A run may come from somebody else."""

    @pytest.mark.parametrize("name", ["environment.json", "metrics.jsonl", "evaluations/a.json", "fed/a.png"])
    def test_a_pipe_is_not_waited_for(self, tmp_path, name):
        run = RunFolder.create(tmp_path, "a", lambda folder: (folder.path / "recipe.toml").write_text(""))
        (run.path / name).parent.mkdir(exist_ok=True)
        os.mkfifo(run.path / name)
        with pytest.raises(RunError) as caught:
            RunFolder.open(run.path)
        assert str(caught.value) == (
            f"{run.path / name}: expected files and folders alone, as they are read, found a pipe, a socket or a device. "
            "Remove it."
        )

    @pytest.mark.parametrize("name", ["fed/.step-00000001.png.1.partial", "nonfinite/step-00000001"])
    def test_no_link_leads_out_of_where_images_are_drawn(self, tmp_path, name):
        run = RunFolder.create(tmp_path, "a", lambda folder: (folder.path / "recipe.toml").write_text(""))
        (run.path / name).parent.mkdir()
        (run.path / name).symlink_to(tmp_path / "dear")
        with pytest.raises(RunError, match="found a link to"):
            RunFolder.open(run.path)

    def test_a_file_is_not_cut_back_to_less_than_nothing(self, tmp_path):
        (tmp_path / "a").write_text("abc")
        with pytest.raises(RunError, match="expected at least the -7 bytes that the checkpoint counted, found 3"):
            cut_back(tmp_path / "a", -7)

    def test_no_line_is_cut_in_two(self, tmp_path):
        (tmp_path / "a").write_text("ab\ncd\n")
        with pytest.raises(RunError, match="expected at least the 4 bytes that the checkpoint counted, found 6"):
            cut_back(tmp_path / "a", 4)
        cut_back(tmp_path / "a", 3)
        assert (tmp_path / "a").read_text() == "ab\n"
        cut_back(tmp_path / "a", 0)
        assert (tmp_path / "a").read_text() == ""


def test_a_dataset_in_the_place_of_a_run_is_called_so(tmp_path):
    (tmp_path / "dataset.json").write_text("{}")
    with pytest.raises(RunError) as caught:
        RunFolder.open(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: expected a run folder, with a recipe.toml, found a packed dataset. Name the run first, and the dataset "
        "with --on or --data."
    )


@pytest.mark.parametrize("place", ["checkpoints/best", "checkpoints/step-00000001/model.safetensors", "checkpoints"])
def test_a_part_of_a_run_leads_to_the_run(packed, tmp_path, place):
    run, _ = train(recipe(packed.folder, steps=1), tmp_path)
    message = (
        f"{run.path / place}: expected a run folder, with a recipe.toml, found a part of {run.path}. Name that run, and one of "
        "its checkpoints with --checkpoint."
    )
    refused(ps.load, run.path / place, message=message)
