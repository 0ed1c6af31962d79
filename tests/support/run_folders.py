"""Run folders of nothing but their files, as training writes them."""

from __future__ import annotations

import json


def lines(values):
    return "".join(json.dumps(value) + "\n" for value in values)


def write_run(path, **given):
    """A run of two steps, evaluated after both; `given` replaces values.

    Args:
        path: the folder.
        given: scores (of the two evaluations), events, classes, ignore, partitions, environment, code, initial, train (lines
            of that section of the recipe).
    """
    scores = given.get("scores", [{"loss": 2.0, "mean_iou": 0.5}, {"loss": 1.0, "mean_iou": 0.75}])
    best = max(range(len(scores)), key=lambda n: scores[n].get("mean_iou", n), default=None)
    events = given.get("events", ["started", "evaluated", "finished"])
    described = {
        "task": given.get("task", "segmentation"),
        "classes": given.get("classes", ["a", "b"]),
        "ignore_label": given.get("ignore", 255),
        "splits": {"train": {"records": 4}, "val": {"records": 2}},
    }
    (path / "checkpoints").mkdir(parents=True)
    (path / "recipe.toml").write_text(
        f"seed = {given.get('seed', 0)}\n[data]\npath = '{given.get('data', '/d/photos')}'\nvalidation = 'val'\nlimit = "
        f"{given.get('limit', 0)}\n[model]\nname = 'unet:resnet18'\n[augment]\n"
        f"crop = {given.get('crop', [64, 64])}\n[augment.view]\nname = '{given.get('view', 'scale-crop')}'\ncrop_pct = 0.875\n[train]\nsteps = {given.get('steps', 2)}\nbest_metric = "
        f"'{given.get('metric', '')}'\n{given.get('train', '')}\n"
    )
    (path / "metrics.jsonl").write_text(
        lines(
            line
            for n, each in enumerate(scores)
            for line in (
                {"step": n + 1, "loss": 1.5, "lr": 0.1},
                {"step": n + 1, "evaluation": each, "best": n in {0, best}},
            )
        )
    )
    (path / "timings.jsonl").write_text(lines({"step": n + 1, "seconds": 40.5, "wait": 0.1} for n in range(2)))
    (path / "events.jsonl").write_text(
        lines(
            {"time": "2026-01-01T00:00:00+00:00"} | (each if isinstance(each, dict) else {"event": each})
            for each in events
        )
    )
    (path / "data.json").write_text(
        json.dumps(
            {
                "content": given.get("content", "c0ffee"),
                "snapshots": {"val": {"partitions": given.get("partitions", [["val-0", 0, 2, "aa"]])}},
                "described": described,
            }
        )
    )
    environment = {"device": "cpu", "python": "3.11.7", "ranks": 1, "packages": {"torch": "2.0"}, "revision": "r1"}
    (path / "environment.json").write_text(json.dumps({**environment, **given.get("environment", {})}))
    begun = {"initial": given["initial"]} if "initial" in given else {}
    (path / "settings.json").write_text(json.dumps({"code": given.get("code", {}), **begun}))
    return path
