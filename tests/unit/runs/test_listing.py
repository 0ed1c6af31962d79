"""What is said of a run in a line."""

from __future__ import annotations

import datetime as dt
import os
import tracemalloc

import pytest
from support.errors import refused
from support.run_folders import write_run
from support.training import Stop, recipe

import penstock as ps
from penstock.config import toml
from penstock.runs import RunFolder
from penstock.runs.listing import find_runs, summarize
from penstock.runs.notes import change_tags, read_note, read_tags, write_note
from penstock.training import train


def test_all_of_a_run(tmp_path):
    path = write_run(tmp_path / "0007-tried")
    os.utime(path / "events.jsonl", (1_700_000_000, 1_700_000_000))
    os.utime(path / "metrics.jsonl", (1_600_000_000, 1_600_000_000))
    write_note(RunFolder.open(path), " too bright \n")
    found = summarize(path)
    assert (found.name, found.state, found.model, found.data) == (
        "0007-tried",
        "finished",
        "unet:resnet18",
        "/d/photos",
    )
    assert (found.step, found.steps, found.metric, found.best, found.best_step) == (2, 2, "mean_iou", 0.75, 2)
    assert (found.seconds, found.note) == (81.0, "too bright")
    assert found.written == dt.datetime.fromtimestamp(1_700_000_000, dt.UTC)


def test_the_best_evaluation_is_the_one_that_was_marked_last(tmp_path):
    scores = [{"mean_iou": 0.9, "loss": 1.0}, {"mean_iou": 0.2, "loss": 0.5}]
    found = summarize(write_run(tmp_path / "0001-a", scores=scores))
    assert (found.best, found.best_step) == (0.9, 1)


@pytest.mark.parametrize(
    ("scores", "chosen", "metric"),
    [
        ([{"loss": 1.0, "mean_iou": 0.5, "mean_dice": 0.6}], "", "mean_dice"),
        ([{"loss": 1.0, "pixel_accuracy": 0.5, "top1": 0.6}], "", "top1"),
        ([{"loss": 1.0, "depth_error": 0.5}], "", "depth_error"),
        ([{"loss": 1.0}], "", "loss"),
        ([{"loss": 1.0, "mean_iou": 0.5, "pixel_accuracy": 0.9}], "pixel_accuracy", "pixel_accuracy"),
    ],
)
def test_the_score_that_decides(tmp_path, scores, chosen, metric):
    found = summarize(write_run(tmp_path / "0001-a", scores=scores, metric=chosen))
    assert (found.metric, found.best) == (metric, scores[0][metric])


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([], "killed"), (["started"], "killed"), (["started", "evaluated"], "killed"), (["started", "stopped"], "stopped"),
        (["started", "interrupted", "resumed"], "killed"), (["started", "interrupted"], "interrupted"),
    ],
)  # fmt: skip
def test_a_run_without_an_end_was_killed(tmp_path, events, state):
    assert summarize(write_run(tmp_path / "0001-a", events=events)).state == state


def test_a_run_that_was_not_evaluated_has_no_best_score(tmp_path):
    found = summarize(write_run(tmp_path / "0001-a", scores=[]))
    assert (found.state, found.step, found.metric, found.best) == ("finished", 0, "", None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("recipe.toml", "no toml"), ("recipe.toml", ""), ("events.jsonl", '{"event": {"a": 1}}\n'), ("recipe.toml", "train = {steps = inf}"), ("recipe.toml", "x = " + "[" * 5000),
        ("recipe.toml", ".".join("a" * 3000) + " = 1"), ("metrics.jsonl", '{"step": "x", "loss": 1.0}\n'), ("timings.jsonl", '{"seconds": []}\n'),
        ("events.jsonl", '{"time": 1}\n'), ("timings.jsonl", '{"seconds": NaN}\n'), ("timings.jsonl", '{"seconds": 1e999}\n'),
        ("metrics.jsonl", '{"best": true, "evaluation": {"loss": 1.0}}\n'),
        ("metrics.jsonl", '{"step": [1], "best": true, "evaluation": {"loss": 1.0}}\n'),
    ],
)  # fmt: skip
def test_a_damaged_run_is_listed_as_one(tmp_path, name, text):
    path = write_run(tmp_path / "0001-a")
    (path / name).write_text(text)
    write_run(tmp_path / "0002-b")
    assert [each.state for each in find_runs(tmp_path)] == ["damaged", "finished"]


def test_a_run_with_a_link_that_leads_out_of_it_is_listed_as_damaged(tmp_path):
    path = write_run(tmp_path / "runs/0001-a")
    (path / "log.txt").unlink(missing_ok=True)
    (path / "log.txt").symlink_to(tmp_path / "dear")
    write_run(tmp_path / "runs/0002-b")
    assert [each.state for each in find_runs(tmp_path / "runs")] == ["damaged", "finished"]


def test_runs_are_listed_by_number_and_others_left_out(tmp_path):
    for name in ("0010-a", "0002-b", "0002-a"):
        write_run(tmp_path / name)
    (tmp_path / "notes").mkdir()
    (tmp_path / "a.txt").write_text("x")
    assert [each.name for each in ps.list_runs(tmp_path)] == ["0002-a", "0002-b", "0010-a"]


def test_there_must_be_a_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    for name, found in (("none", "no such folder"), ("file", "a file")):
        message = (
            f"{tmp_path}/{name}: expected a folder of runs, found {found}. Name the folder that penstock train --runs wrote "
            "to; by default it is runs."
        )
        refused(find_runs, tmp_path / name, message=message)


def test_a_note_is_replaced_and_removed(tmp_path):
    folder = RunFolder.open(write_run(tmp_path / "0001-a"))
    assert read_note(folder) == ""
    for text in ("first", "second: größer"):
        write_note(folder, text)
        assert read_note(folder) == text
    write_note(folder, " ")
    write_note(folder, "")
    assert not (folder.path / "note.txt").exists()


def test_text_that_is_none_is_refused_and_what_was_there_stays(tmp_path):
    folder = RunFolder.open(write_run(tmp_path / "0001-a"))
    write_note(folder, "first")
    remedy = "Type it in a terminal that uses UTF-8."
    refused(write_note, folder, "\udce9", message=f"the note: expected text in UTF-8, found '\\udce9'. {remedy}")
    refused(change_tags, folder, ["\udce9"], message=f"--tag: expected text in UTF-8, found '\\udce9'. {remedy}")
    assert (read_note(folder), read_tags(folder)) == ("first", ())


def test_of_real_trainings(packed, tmp_path):
    whole, _ = train(recipe(packed.folder, steps=4), tmp_path, "whole")
    train(recipe(packed.folder, steps=4), tmp_path, "part", hooks=[Stop(2)])
    first, second = find_runs(tmp_path)
    assert (first.state, first.step, first.steps, first.data) == ("finished", 4, 4, str(packed.folder))
    assert (first.metric, first.best) == ("mean_iou", ps.Run(whole.path).best["mean_iou"])
    assert (second.state, second.step, second.best_step) == ("stopped", 2, 0)


def test_of_files_without_an_end_the_beginning_is_read(tmp_path):
    path = write_run(tmp_path / "0001-a")
    for name in ("note.txt", "tags.txt", "metrics.jsonl"):
        with (path / name).open("wb") as handle:
            handle.truncate(1 << 29)
    tracemalloc.start()
    (found,) = find_runs(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.state == "finished"
    assert peak < 1 << 27


def test_tables_nested_without_end_are_damage(tmp_path):
    """A key of dots alone is parsed without a word; 40 kB of them took 1.5 GB to list."""
    run = write_run(tmp_path / "0001-a")
    (run / "recipe.toml").write_text(".".join(["a"] * 20_000) + " = 1\n")

    (summary,) = ps.list_runs(tmp_path)
    assert (summary.state, "values nested too deeply" in summary.reason) == ("damaged", True)
    refused(
        toml.load, run / "recipe.toml",
        message=f"{run}/recipe.toml: expected a recipe in TOML, found a syntax error (values nested too deeply). Fix the file.",
    )  # fmt: skip
