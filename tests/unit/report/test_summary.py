from __future__ import annotations

import json
import re

import pytest
from support.training import recipe

from penstock.report import write_report
from penstock.report.summary import best_lines, summary_of
from penstock.training import train


def test_it_names_the_newest_of_equal_scores_as_the_session_marks_it():
    lines = [
        {"step": step, "evaluation": {"mean_iou": value}} for step, value in ((1, 0.2), (2, 0.5), (3, 0.5), (4, 0.4))
    ]
    assert best_lines(lines)["mean_iou"]["step"] == 3


def test_it_says_what_was_trained_on_what_and_how(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=2), tmp_path)
    found = summary_of(folder)
    page = write_report(folder).read_text()
    counts = ", ".join(f"{name} {split.records}" for name, split in packed.description.splits.items())
    classes = len(packed.description.classes)

    assert found["data"] == f"{packed.folder} (segmentation, {classes} classes, records: {counts})"
    assert found["model"] == "unet:test_resnet, weights: none"
    assert re.fullmatch(r"\d+ images a step, crop \d+ x \d+, sgd, lr [0-9.e-]+, poly schedule", found["training"])
    assert found["steps"] == "2"
    assert list(found)[:4] == ["model", "data", "training", "steps"]
    assert all(f"<dt>{name}</dt><dd>{found[name]}</dd>" in page for name in ("model", "data", "training"))


def test_a_head_without_data_is_a_head(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path)
    (folder.path / "data.json").write_text("[")

    assert summary_of(folder)["data"] == f"{packed.folder} (data.json of the run cannot be read)"


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("2026-11-30T13:14:05+01:00", "2026-11-30 11:21 to 12:14 UTC, 53 min 02 s (finished)"),
        ("2026-12-01T00:21:03+00:00", "2026-11-30 11:21 to 2026-12-01 00:21 UTC, 13 h 00 min (finished)"),
    ],
)
def test_times_are_as_people_write_them(packed, tmp_path, last, said):
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path)
    times = (("started", "2026-11-30T11:21:03+00:00"), ("finished", last))
    lines = [json.dumps({"time": time, "event": event}) for event, time in times]
    (folder.path / "events.jsonl").write_text("\n".join([*lines, ""]))

    assert summary_of(folder)["time"] == said


def test_it_says_which_settings_changed_at_which_step(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path)
    folder.event("changed", step=1200, settings={"optimizer.lr": [0.1, 0.5], "train.steps": [1, 3]})

    assert summary_of(folder)["changed at step 1,200"] == "optimizer.lr 0.1 to 0.5; train.steps 1 to 3"


def test_it_names_each_device_of_a_run_that_was_resumed(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path)
    tree = folder.read_json("environment.json")
    tree["then"] = [{"device": "cuda (B)", "exact": "no"}]
    (folder.path / "environment.json").write_text(json.dumps(tree))
    assert summary_of(folder)["device"] == f"{tree['device']}, then cuda (B)"
