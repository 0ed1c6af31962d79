"""Against Weights & Biases itself, which writes to the run folder where it is offline."""

from __future__ import annotations

import dataclasses
import json
import time
from types import SimpleNamespace

import cv2
import pytest
from support.training import Stop, recipe

from penstock.hooks.wandb import WandB
from penstock.training import resume, train


@pytest.fixture
def wandb(monkeypatch):
    found = pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    return found


def chosen(packed, **settings):
    settings = {"steps": 6, "save_every": 3, "evaluate_every": 4, **settings}
    hook = {"name": "wandb", "project": "roads", "every": 1}
    return dataclasses.replace(recipe(packed.folder, **settings), hooks=(hook,))


def records(path):
    """What an offline run has written, in order: a log of LevelDB, in blocks of 32 KiB, behind a header."""
    from wandb.proto import wandb_internal_pb2

    data, at, whole = path.read_bytes(), 7, b""
    assert data[:4] == b":W&B"
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        if at + 7 + size > len(data):
            return  # the rest is still to be written
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # in one piece, or the last one
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            whole = b""
            yield record


def whole(path, seconds=60):
    """The records of a run, once the program that writes them, which is another process, has written how it ended."""
    end = time.monotonic() + seconds
    while True:
        found = list(records(path))
        if any(record.HasField("exit") for record in found) or time.monotonic() > end:
            return found
        time.sleep(0.1)


def history(path):
    """The values that were logged, by step."""
    found = {}
    for record in whole(path):
        if record.HasField("history"):
            items = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
            found.setdefault(record.history.step.num, {}).update(items)
    return found


def test_a_run_and_its_resume_are_one_run_there(packed, tmp_path, wandb):
    folder, _ = train(chosen(packed), tmp_path / "runs", "first", hooks=[Stop(5)])
    time.sleep(1)  # the names of its files are of the second
    resume(folder.path)
    first, second = sorted((folder.path / "wandb").glob("offline-run-*/run-*.wandb"))
    lines = [json.loads(line) for line in (folder.path / "metrics.jsonl").read_text().splitlines()]
    (begun,) = [record.run for record in whole(first) if record.HasField("run")]
    settings = {item.key: json.loads(item.value_json) for item in begun.config.update}
    before, after = history(first), history(second)

    assert first.name == second.name
    assert (begun.project, begun.display_name) == ("roads", folder.path.name)
    assert (settings["train.steps"], settings["model.name"]) == (6, "unet:test_resnet")
    assert (sorted(before), sorted(after)) == ([1, 2, 3, 4, 5], [6])
    for line in lines:
        logged = {**before, **after}[line["step"]]
        if "loss" in line:
            assert (logged["train/loss"], logged["train/lr"]) == (line["loss"], line["lr"])
        else:
            assert logged["evaluation/mean_iou"] == line["evaluation"]["mean_iou"]
    picture = first.parent / "files" / before[1]["train/batch/path"]
    drawn = cv2.imread(str(picture), cv2.IMREAD_COLOR)
    assert drawn.shape == (before[1]["train/batch/height"], before[1]["train/batch/width"], 3)
    assert [step for step, values in before.items() if "train/batch/path" in values] == [1]


@pytest.mark.parametrize(("fails", "code"), [(False, 0), (True, 1)])
def test_it_is_told_how_training_ended(packed, tmp_path, wandb, fails, code):
    class Ends(Stop):
        def after_step(self, session):
            if fails:
                raise ZeroDivisionError

    try:
        train(chosen(packed, steps=1), tmp_path / "runs", hooks=[Ends(1)])
    except ZeroDivisionError:
        assert fails
    (path,) = tmp_path.glob("runs/*/wandb/offline-run-*/run-*.wandb")
    (end,) = [record.exit for record in whole(path) if record.HasField("exit")]
    assert end.exit_code == code


def test_what_it_raises_ends_nothing(packed, tmp_path, wandb, monkeypatch):
    monkeypatch.setattr(wandb, "init", lambda **_: 1 / 0)
    folder, outcome = train(chosen(packed, steps=2), tmp_path / "runs")
    (line,) = [line for line in (folder.path / "log.txt").read_text().splitlines() if "Weights" in line]

    assert outcome.status == "finished"
    assert line == (
        "note: Weights & Biases: ZeroDivisionError: division by zero. Nothing more is written to it; training goes on, and "
        "the run folder has everything"
    )


def test_a_run_belongs_to_the_entity_that_was_named(wandb, tmp_path, monkeypatch):
    given = {}
    monkeypatch.setattr(wandb, "init", lambda **named: given.update(named) or SimpleNamespace(id="1"))
    monkeypatch.setattr("penstock.hooks.wandb.settings_of", lambda _: {})
    WandB(tmp_path, "roads", "a team").open(SimpleNamespace())

    assert (given["entity"], given["project"]) == ("a team", "roads")
