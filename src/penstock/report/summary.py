"""What the head of a report says of a run: what was trained on what, how far it came, and where."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from penstock.config import load
from penstock.errors import RunError
from penstock.progress import counted, duration
from penstock.runs import RunFolder

_ROUNDED: Final = "records, order and pixels; weights up to rounding, as it was resumed otherwise"
_SCORES: Final = {"mean_dice": "mean Dice", "mean_iou": "mean IoU", "top1": "top-1 accuracy", "map": "mAP"}


def summary_of(folder: RunFolder) -> dict[str, str]:
    """The lines of the head, by what they are about."""
    with folder.reading("metrics.jsonl"):
        metrics = folder.lines("metrics.jsonl")
        reached = _reached(metrics, best_lines(score_lines(metrics)))
    return {**_trained(folder), **reached, **_circumstances(folder)}


def _trained(folder: RunFolder) -> dict[str, str]:
    """What was trained, on which data, and how."""
    recipe = load(folder.path / "recipe.toml")
    optimizer, crop = recipe.optimizer, recipe.augment.crop
    summary = {
        "model": f"{recipe.model.name}, weights: {recipe.model.weights}",
        "data": recipe.data.path,
        "training": f"{counted(recipe.train.batch, 'image')} a step, crop {crop[0]} x {crop[1]}, {optimizer.name}, "
        f"lr {optimizer.lr:g}, {optimizer.schedule.name} schedule",
    }
    if described := _described(folder):
        summary["data"] = f"{recipe.data.path} ({described})"
    return summary


def _described(folder: RunFolder) -> str:
    """What the dataset holds; "" for a topic, which may grow."""
    try:
        with folder.reading("data.json"):
            described = folder.read_json("data.json", "snapshots").get("described")
            if not described:
                return ""
            counts = ", ".join(f"{name} {split['records']:,}" for name, split in described["splits"].items())
            return f"{described['task']}, {counted(len(described['classes']), 'class')}, records: {counts}"
    except RunError:
        return "data.json of the run cannot be read"


def _reached(metrics: list[dict[str, Any]], best: dict[str, dict[str, Any]]) -> dict[str, str]:
    """How far the run came, and how well."""
    steps = step_lines(metrics)
    summary = {"steps": f"{steps[-1]['step']:,}" if steps else "none"}
    for name, line in best.items():
        value = line["evaluation"][name]
        shown = f"{value:.2%}" if name in _SCORES else f"{value:.4g}"
        summary[f"best {_SCORES.get(name, name)}"] = f"{shown} at step {line['step']:,}"
    return summary


def _circumstances(folder: RunFolder) -> dict[str, str]:
    """Where and when the run was trained, and what was changed meanwhile."""
    summary = {}
    with folder.reading("environment.json"):
        environment = folder.read_json("environment.json", "device", "exact")
        later = [each for each in environment.get("then") or [] if {"device", "exact"} <= set(each)]
        summary["device"] = ", then ".join(each["device"] for each in (environment, *later))
        summary["exactness"] = _ROUNDED if later else str(environment["exact"])
    with folder.reading("events.jsonl"):
        events = folder.lines("events.jsonl")
        for change in (each for each in events if each.get("event") == "changed"):
            said = (f"{key} {was} to {now}" for key, (was, now) in change["settings"].items())
            summary[f"changed at step {change['step']:,}"] = "; ".join(said)
        if events:
            summary["time"] = f"{_span(events[0]['time'], events[-1]['time'])} ({events[-1]['event']})"
    with folder.reading("timings.jsonl"):
        seconds = sum(float(line["seconds"]) for line in folder.lines("timings.jsonl") if "seconds" in line)
        summary["time of steps"] = duration(seconds)
    return summary


def _span(first: str, last: str) -> str:
    """When it began and ended, as people write dates, and how long that is."""
    began, ended = (datetime.fromisoformat(each).astimezone(UTC) for each in (first, last))
    day = "" if began.date() == ended.date() else "%Y-%m-%d "
    return f"{began:%Y-%m-%d %H:%M} to {ended:{day}%H:%M} UTC, {duration((ended - began).total_seconds())}"


def step_lines(metrics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines of steps whose loss is a number."""
    return [line for line in metrics if "step" in line and isinstance(line.get("loss"), float)]


def score_lines(metrics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines of evaluations."""
    return [line for line in metrics if "step" in line and line.get("evaluation")]


def best_lines(scores: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The best evaluation with each score by its name; of equals the newest, as the session marks it."""
    by_name = {name: [line for line in scores if name in line["evaluation"]] for name in _SCORES}
    best = {
        name: max(reversed(lines), key=lambda line: line["evaluation"][name])
        for name, lines in by_name.items()
        if lines
    }
    marked = [line for line in scores if line.get("best")]
    return best or ({_custom_score(marked[-1]): marked[-1]} if marked else {})


def _custom_score(line: dict[str, Any]) -> str:
    """The first score of a custom task, besides the loss."""
    return next((name for name in line["evaluation"] if name != "loss"), "loss")
