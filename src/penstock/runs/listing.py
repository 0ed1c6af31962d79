"""What there is to say of a run in a line, from the files in its folder."""

from __future__ import annotations

import datetime as dt
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock import files
from penstock.errors import RunError
from penstock.runs.folder import RunFolder
from penstock.runs.notes import read_note, read_tags

LARGEST_RECIPE: Final = 1 << 24  # bytes
_LEFT: Final = 3  # files of a run
_DEEPEST: Final = 16  # tables inside one another; a recipe has four
_BITS: Final = 63  # beside the sign
RUNNING: Final = "running"
KILLED: Final = "killed"
DAMAGED: Final = "damaged"
_BEGINNINGS: Final = frozenset(
    {"started", "resumed", "evaluated", "changed", "snapshot", "not finite", "other samples"}
)
"""Events after which a run goes on, unless its process was killed."""
_USUAL: Final = ("mean_dice", "mean_iou", "top1", "map")
"""Scores that decide which checkpoint is the best one, by default."""


@dataclass(frozen=True)
class RunSummary:
    """One run.

    Attributes:
        path: its folder.
        state: finished, stopped, interrupted or failed; "running" while a process on this machine trains it; "killed"
            where it was broken off without a word; "damaged" where files of it cannot be read.
        reason: why it ended so, or what is damaged; "" while it is trained.
        task: what it learns.
        model: as the recipe names it.
        data: the dataset or topic.
        step: the last one with a loss.
        steps: how many the recipe wants.
        metric: the score that decides which checkpoint is the best one; "" for none so far.
        best: its value in the best evaluation; None for none.
        best_step: after which that was.
        seconds: that training steps took, evaluations and saving left out.
        images_per_second: of the training steps; 0 where none was timed.
        began: when it was started; None where no event says so.
        written: when something was last written of it; None where nothing was.
        note: what the user wrote of it.
        tags: words that the user has put it under, in alphabetical order.
    """

    path: Path
    state: str
    reason: str = ""
    task: str = ""
    model: str = ""
    data: str = ""
    step: int = 0
    steps: int = 0
    metric: str = ""
    best: float | None = None
    best_step: int = 0
    seconds: float = 0.0
    images_per_second: float = 0.0
    began: dt.datetime | None = None
    written: dt.datetime | None = None
    note: str = ""
    tags: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """The number that its folder begins with."""
        return RunFolder.number_of(self.path)

    @property
    def name(self) -> str:
        """The name of its folder: NUMBER-NAME."""
        return self.path.name

    def __repr__(self) -> str:
        score = "" if self.best is None else f", {self.metric} {self.best:.4f}"
        return f"<RunSummary {self.name}: {self.state}, step {self.step:,} of {self.steps:,}{score}>"


def summarize(path: Path) -> RunSummary:
    """One run in a line; what cannot be read, or leads out of its folder, makes it a damaged one."""
    try:
        folder = RunFolder.open(path)
        return _summary(folder, read_recipe(folder))
    except RunError as error:
        where = Path(error.where).name if Path(error.where).is_relative_to(path) else error.where
        return RunSummary(path, DAMAGED, f"{where}: expected {error.expected}, found {error.found}")


def _summary(folder: RunFolder, recipe: Mapping[str, Any]) -> RunSummary:
    with folder.reading("metrics.jsonl"):
        metrics = folder.lines("metrics.jsonl")
        steps = [int(line["step"]) for line in metrics if "loss" in line or "left_out" in line]
        best = best_of(metrics)
        metric = best_metric_of(recipe, best["evaluation"]) if best else ""
        value = float(best["evaluation"][metric]) if best else None
        best_step = int(best["step"]) if best else 0
    with folder.reading("timings.jsonl"):
        timed = [float(line.get("seconds", 0.0)) for line in folder.lines("timings.jsonl")]
        seconds = sum(timed)
        int(seconds)  # which is refused where it is infinite or no number
    state, reason, began, written = _state(folder)
    task = recipe.get("task") or _task_of_data(folder)
    with folder.reading("recipe.toml"):
        wanted, batch = int(recipe["train.steps"]), int(recipe.get("train.batch", 0))
    if state == "finished" and not (folder.path / "metrics.jsonl").is_file():
        raise folder.damaged("metrics.jsonl", "a line for each step", "no such file")
    return RunSummary(
        folder.path, state, reason, str(task), str(recipe.get("model.name", "")),
        str(recipe.get("data.path", "")), max(steps, default=0), wanted, metric, value, best_step, seconds,
        len(timed) * batch / seconds if seconds > 0 else 0.0, began, written, read_note(folder), read_tags(folder),
    )  # fmt: skip


def _task_of_data(folder: RunFolder) -> str:
    """The task of the data that a run keeps; "" for runs that do not keep it."""
    with folder.reading("data.json"):
        described = folder.read_json("data.json").get("described") if (folder.path / "data.json").is_file() else None
        return str(described["task"]) if described else ""


def find_runs(root: Path) -> list[RunSummary]:
    """All runs in a folder, by number.

    Raises:
        RunError: there is no such folder.
    """
    if not root.is_dir():
        raise RunError(
            str(root),
            expected="a folder of runs",
            found="a file" if root.exists() else "no such folder",
            remedy="Name the folder that penstock train --runs wrote to; by default it is runs",
        )
    if RunFolder.is_run(root):
        return [summarize(root)]
    found = [path for path in root.iterdir() if _is_left_of_run(path)]
    return [summarize(path) for path in sorted(found, key=lambda path: (RunFolder.number_of(path), path.name))]


def _is_left_of_run(path: Path) -> bool:
    """Whether a folder is a run, or what is left of one: any three of the files that each run has."""
    there = sum((path / name).exists() for name in ("recipe.toml", "events.jsonl", "settings.json", "checkpoints"))
    return RunFolder.is_run(path) or (not path.name.startswith(".") and there >= _LEFT)


def read_recipe(folder: RunFolder) -> dict[str, Any]:
    """The settings of a run by `section.key`, as they stand in its recipe.

    Raises:
        RunError: the recipe is damaged.
    """
    try:
        files.check_regular(folder.path / "recipe.toml", LARGEST_RECIPE)
        return dict(_flat(check_integers(parse_toml((folder.path / "recipe.toml").read_text()))))
    except (OSError, ValueError, RecursionError) as error:
        raise folder.damaged("recipe.toml", "TOML", str(error)) from error


def parse_toml(text: str) -> dict[str, Any]:
    """The tree of a recipe.

    Raises:
        ValueError: it is no TOML, or its tables are nested too deeply, as a key of a thousand dots makes them.
    """
    tree = tomllib.loads(text)
    tables: list[dict[str, Any]] = [tree]
    for _ in range(_DEEPEST):
        tables = [value for table in tables for value in table.values() if isinstance(value, dict)]
    if tables:
        message = "values nested too deeply"
        raise ValueError(message)
    return tree


def check_integers(tree: dict[str, Any]) -> dict[str, Any]:
    """The tree of a recipe, whose integers have 64 bits at most, as TOML demands.

    Raises:
        ValueError: one is larger.
    """
    for name, value in _flat(tree):
        for number in value if isinstance(value, list | tuple) else [value]:
            if isinstance(number, int) and abs(number) >> _BITS:
                message = f"a number of more than 64 bits in {name}"
                raise ValueError(message)
    return tree


def _flat(tree: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in tree.items():
        found += _flat(value, f"{before}{name}.") if isinstance(value, dict) else [(before + name, value)]
    return found


def best_of(metrics: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The line of `metrics.jsonl` with the evaluation that was marked as the best one, the newest; empty for none."""
    marked = [line for line in metrics if line.get("best") and line.get("evaluation")]
    return marked[-1] if marked else {}


def best_metric_of(recipe: Mapping[str, Any], scores: Mapping[str, Any]) -> str:
    """The name of the score that decides which checkpoint is the best one."""
    chosen = recipe.get("train.best_metric") or next((name for name in _USUAL if name in scores), "")
    return str(chosen or next((name for name in scores if name != "loss"), "loss"))


def _state(folder: RunFolder) -> tuple[str, str, dt.datetime | None, dt.datetime | None]:
    """What its last event says, why, when it began, and when something was last written."""
    with folder.reading("events.jsonl"):
        events = folder.lines("events.jsonl")
        began = dt.datetime.fromisoformat(events[0]["time"]).astimezone() if events and "time" in events[0] else None
        last = events[-1] if events else {"event": "started"}
        if not isinstance(last["event"], str):
            raise folder.damaged("events.jsonl", "the name of an event", repr(last["event"]))
    places = [folder.path / name for name in ("events.jsonl", "metrics.jsonl")]
    times = [path.stat().st_mtime for path in places if path.is_file()]
    written = dt.datetime.fromtimestamp(max(times), dt.UTC) if times else None
    if last["event"] not in _BEGINNINGS:
        return last["event"], str(last.get("reason", "")), began, written
    return (RUNNING if files.is_locked(folder.path) else KILLED), "", began, written
