from __future__ import annotations

import json
import shutil

import pytest
from support.commands import call
from support.errors import refused
from support.training import Stop, recipe

import penstock as ps
from penstock.config import toml
from penstock.errors import ExpiredError
from penstock.tasks import PrepareSegmentation
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


class TestSamples:
    """A resume reads a sample of the last batch again."""

    @pytest.fixture
    def stopped(self, packed, tmp_path):
        folder, _ = train(recipe(packed.folder, steps=6), tmp_path / "runs", "one", hooks=[Stop(5)])
        return folder.path

    @pytest.fixture
    def changed(self, monkeypatch):
        """A decoder that gives one pixel otherwise."""
        prepare = PrepareSegmentation.__call__

        def other(self, record, generator, out):
            prepare(self, record, generator, out)
            out["image"][3, 4, 0] ^= 1

        monkeypatch.setattr(PrepareSegmentation, "__call__", other)

    def message(self, run):
        (line, *_) = (
            json.loads(line) for line in (run / "origins.jsonl").read_text().splitlines() if '"step": 5,' in line
        )
        return (
            f"{run}: expected the samples that the run has learnt from until step 5, found another image of "
            f"{line['origins'][0]}. The data, the code that prepares it or a library that decodes it has changed. Put it back, "
            "or go on with what there is now by --accept-changes."
        )

    def test_another_one_is_refused(self, stopped, changed):
        before = {path: path.read_bytes() for path in stopped.rglob("*") if path.is_file()}
        refused(resume, stopped, message=self.message(stopped))
        assert {path for path in stopped.rglob("*") if path.is_file()} == set(before)
        assert (stopped / "metrics.jsonl").read_bytes() == before[stopped / "metrics.jsonl"]

    @pytest.mark.parametrize("way", ["python", "command", "continue"])
    def test_whoever_accepts_it_goes_on(self, stopped, changed, capsys, way):
        word = {"accept_changes": True}
        said = []
        if way == "python":
            assert ps.resume(stopped, **word, on_event=lambda event: said.append(event.message)).outcome.step == 6
        elif way == "command":
            code, out, err = call("train", "--resume", stopped, "--accept-changes", capsys=capsys)
            assert (code, err) == (0, "")
        else:
            chosen = toml.load(stopped / "recipe.toml")
            train(chosen, stopped.parent, "one", on_event=lambda event: said.append(event.message), go_on=True, **word)
        lines = out.splitlines() if way == "command" else said
        image = self.message(stopped).split("found ")[1].split(". The data")[0]
        assert f"note: {image} than before: going on all the same (--accept-changes)" in lines
        events = [json.loads(line) for line in (stopped / "events.jsonl").read_text().splitlines()]
        (event,) = [event for event in events if event["event"] == "other samples"]
        assert (event["step"], event["sample"], event["tensors"]) == (
            5,
            image.removeprefix("another image of "),
            ["image"],
        )

    def test_the_command_refuses_it(self, stopped, changed, capsys):
        code, _, err = call("train", "--resume", stopped, capsys=capsys)
        assert (code, err) == (2, f"error: {self.message(stopped)}\n")

    def test_what_a_topic_has_let_go_is_not_compared(self, stopped, monkeypatch):
        def gone(feed, before):
            raise ExpiredError("topic", expected="offset 3", found="none", remedy="Go on")

        monkeypatch.setattr("penstock.training.resuming.changed", gone)
        assert resume(stopped)[1].status == "finished"

    def test_a_checkpoint_of_before_has_none(self, packed, tmp_path, changed):
        """What was saved before the first batch, to go back to."""
        folder, _ = train(recipe(packed.folder, steps=2, nonfinite="rewind"), tmp_path, hooks=[Stop(1)])
        assert resume(folder.path, checkpoint="step-00000000")[1].status == "finished"


def test_a_recipe_that_was_edited_is_used_and_named_once(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=2), tmp_path)
    path = folder.path / "recipe.toml"
    text = path.read_text()
    path.write_text(text.replace("lr = 0.05", "lr = 0.04"))
    said = []
    for steps in (3, 4):
        resume(folder.path, [f"train.steps={steps}"], on_event=lambda event: said.append(event.message))
    note = "note: recipe.toml was edited since Penstock wrote it, and is used as it is now"

    assert text != path.read_text()
    assert said.count(note) == 1
    assert [event["file"] for event in folder.lines("events.jsonl") if event["event"] == "edited"] == ["recipe.toml"]
