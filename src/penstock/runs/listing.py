"""What there is to say of a run in a line, from the files in its folder."""

from __future__ import annotations

import datetime as dt
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock import files
from penstock.errors import RunError
from penstock.runs.folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

NOTE: Final = "note.txt"
"""What somebody wrote of the run."""
TAGS: Final = "tags.txt"
_LONGEST: Final = 1 << 20  # letters of either
"""Words that somebody has put the run under, one a line."""
OPEN: Final = "open"
"""The state of a run that is being trained, or was broken off."""
DAMAGED: Final = "damaged"
_BEGINNINGS: Final = frozenset({"started", "resumed", "evaluated", "changed", "snapshot"})
_USUAL: Final = ("mean_dice", "mean_iou", "top1", "map")
"""Scores that decide which checkpoint is the best one, by default."""


@dataclass(frozen=True)
class RunSummary:
    """One run.

    Attributes:
        path: its folder.
        state: finished, stopped, interrupted, ...; "open" while it is trained or if it was broken off; "damaged" where
            files of it cannot be read.
        model: as the recipe names it.
        data: the dataset or topic.
        step: the last one with a loss.
        steps: how many the recipe wants.
        metric: the score that decides which checkpoint is the best one; "" for none so far.
        best: its value in the best evaluation; None for none.
        best_step: after which that was.
        seconds: that training steps took, evaluations and saving left out.
        written: when something was last written of it; None where nothing was.
        note: what somebody wrote of it.
        tags: words that somebody has put it under, in alphabetical order.
    """

    path: Path
    state: str
    model: str = ""
    data: str = ""
    step: int = 0
    steps: int = 0
    metric: str = ""
    best: float | None = None
    best_step: int = 0
    seconds: float = 0.0
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


def summarize(path: Path) -> RunSummary:
    """One run in a line; what cannot be read, or leads out of its folder, makes it a damaged one."""
    try:
        folder = RunFolder.open(path)
        recipe = read_recipe(folder)
        with folder.reading("metrics.jsonl"):
            metrics = folder.lines("metrics.jsonl")
            steps = [int(line["step"]) for line in metrics if "loss" in line or "left_out" in line]
            best = best_of(folder)
            metric = best_metric_of(recipe, best["evaluation"]) if best else ""
            value = float(best["evaluation"][metric]) if best else None
            best_step = int(best["step"]) if best else 0
        with folder.reading("timings.jsonl"):
            seconds = sum(float(line.get("seconds", 0.0)) for line in folder.lines("timings.jsonl"))
            int(seconds)  # which is refused where it is infinite or no number
        state, written = _state(folder)
        wanted = int(recipe.get("train.steps", 0))
    except (RunError, ValueError, TypeError, OverflowError):
        return RunSummary(path, DAMAGED)
    return RunSummary(
        path, state, str(recipe.get("model.name", "")), str(recipe.get("data.path", "")), max(steps, default=0), wanted,
        metric, value, best_step, seconds, written, read_note(folder), read_tags(folder),
    )  # fmt: skip


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
    found = [path for path in root.iterdir() if RunFolder.is_run(path)]
    return [summarize(path) for path in sorted(found, key=lambda path: (RunFolder.number_of(path), path.name))]


def read_recipe(folder: RunFolder) -> dict[str, Any]:
    """The settings of a run by `section.key`, as they stand in its recipe.

    Raises:
        RunError: the recipe is damaged.
    """
    try:
        return dict(_flat(tomllib.loads((folder.path / "recipe.toml").read_text())))
    except (OSError, ValueError, RecursionError) as error:
        raise folder.damaged("recipe.toml", "TOML", str(error)) from error


def _flat(tree: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in tree.items():
        found += _flat(value, f"{before}{name}.") if isinstance(value, dict) else [(before + name, value)]
    return found


def best_of(folder: RunFolder) -> dict[str, Any]:
    """The line of the evaluation that the session marked as the best one, the newest of them; empty for none."""
    marked = [line for line in folder.lines("metrics.jsonl") if line.get("best") and line.get("evaluation")]
    return marked[-1] if marked else {}


def best_metric_of(recipe: Mapping[str, Any], scores: Mapping[str, Any]) -> str:
    """The name of the score that decides which checkpoint is the best one."""
    chosen = recipe.get("train.best_metric") or next((name for name in _USUAL if name in scores), "")
    return str(chosen or next((name for name in scores if name != "loss"), "loss"))


def read_note(folder: RunFolder) -> str:
    """What somebody wrote of a run; "" for nothing."""
    path = folder.path / NOTE
    return _text(path).strip()


def write_note(folder: RunFolder, text: str) -> None:
    """Keep a note of a run, in place of the one before; an empty one removes it.

    Raises:
        RunError: it cannot be written in UTF-8.
    """
    path = folder.path / NOTE
    if text.strip():
        files.write_atomically(path, _in_utf8("the note", f"{text.strip()}\n"))
    else:
        path.unlink(missing_ok=True)


def _in_utf8(what: str, text: str) -> bytes:
    """Text as it is kept; a word of the command line that was none holds surrogates."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise RunError(
            what, expected="text in UTF-8", found=ascii(text.strip()), remedy="Type it in a terminal that uses UTF-8"
        ) from None


def read_tags(folder: RunFolder) -> tuple[str, ...]:
    """The words that a run is put under, in alphabetical order."""
    return tuple(sorted(set(_text(folder.path / TAGS).split())))


def _text(path: Path) -> str:
    """The beginning of a file; "" where there is none."""
    if not path.is_file():
        return ""
    with path.open(errors="replace") as handle:
        return handle.read(_LONGEST)


def change_tags(folder: RunFolder, add: Iterable[str] = (), remove: Iterable[str] = ()) -> None:
    """Put a run under some words, and under others no longer.

    Raises:
        RunError: a tag is empty, has spaces in it or cannot be written in UTF-8, or one that is to go is not there.
    """
    tags, wanted = set(read_tags(folder)), [*add]
    for tag in wanted:
        if tag.split() != [tag]:
            raise RunError(
                "--tag", expected="a word without spaces", found=repr(tag), remedy="Give several tags one by one"
            )
    for tag in remove:
        if tag not in tags:
            found = ", ".join(sorted(tags)) or "no tag"
            raise RunError(
                f"{folder.path}: --untag", expected=f"the tag {tag}", found=found, remedy="Name one of its tags"
            )
        tags.remove(tag)
    lines = "".join(f"{tag}\n" for tag in sorted(tags | set(wanted)))
    if lines:
        files.write_atomically(folder.path / TAGS, _in_utf8("--tag", lines))
    else:
        (folder.path / TAGS).unlink(missing_ok=True)


def _state(folder: RunFolder) -> tuple[str, dt.datetime | None]:
    """What its last event says, and when something was last written."""
    with folder.reading("events.jsonl"):
        events = folder.lines("events.jsonl")
        last = str(events[-1]["event"]) if events else OPEN
    places = [folder.path / name for name in ("events.jsonl", "metrics.jsonl")]
    times = [path.stat().st_mtime for path in places if path.is_file()]
    written = dt.datetime.fromtimestamp(max(times), dt.UTC) if times else None
    return OPEN if last in _BEGINNINGS else last, written
