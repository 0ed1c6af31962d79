"""runs, compare, note, prune: what was tried, and how it went."""

from __future__ import annotations

import datetime as dt
import fnmatch
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter

import penstock as ps
from penstock.errors import RunError
from penstock.progress import aligned, counted, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_HEADS: Final = ("run", "state", "step", "best", "model", "data", "time", "tags", "note")
_ORDERS: Final[dict[str, Callable[[ps.RunSummary], Any]]] = {
    "number": lambda run: run.number,
    "best": lambda run: (run.best is not None, run.best or 0.0),
    "time": lambda run: run.seconds,
    "written": lambda run: run.written or dt.datetime.min.replace(tzinfo=dt.UTC),
}
Match = Annotated[
    str,
    Parameter(help="Only runs whose name, model, data, state, note or a tag contains this text or fits this pattern."),
]
_GIGABYTE: Final = 10**9


def runs_command(
    folder: Annotated[Path, Parameter(help="Parent folder of the run folders.")] = Path("runs"), /, *,
    match: Match = "",
    sort: Annotated[
        Literal["number", "best", "time", "written"],
        Parameter(help="Order: by number, best score (the largest last), training time, or time of the last change."),
    ] = "number",
) -> None:  # fmt: skip
    """List runs: state, steps, best score, model, data, training time, tags and note.

    A run that is being trained, or was broken off, is open. Its best score is that of the best checkpoint.
    """
    found = sorted(ps.list_runs(folder), key=_ORDERS[sort])
    shown = [run for run in found if _fits(run, match)]
    if not shown:
        print(f"no run in {folder}" + (f" fits {match}: it has {counted(len(found), 'run')}" if found else ""))
        return
    rows = [_HEADS, *map(_row, shown)]
    if not any(run.tags for run in shown):
        tags = _HEADS.index("tags")
        rows = [(*row[:tags], *row[tags + 1 :]) for row in rows]
    for line in aligned(rows):
        print(line)


def compare(
    runs: Annotated[list[Path], Parameter(help="Two or more run folders.")], /,
) -> None:  # fmt: skip
    """Print in what runs differ: recipe, data, code, environment and scores, and which scores may not be compared."""
    for line in ps.compare(*runs).lines():
        print(line)


def note(
    run: Annotated[Path, Parameter(help="A run folder.")],
    text: Annotated[str | None, Parameter(help='The note. "" removes it.')] = None, /, *,
    tag: Annotated[list[str] | None, Parameter(help="Tag to add. May be repeated.")] = None,
    untag: Annotated[list[str] | None, Parameter(help="Tag to remove. May be repeated.")] = None,
) -> None:  # fmt: skip
    """Keep a note or tags with a run, which penstock runs lists. A note takes the place of the one before."""
    kept = ps.Run(run)
    if text is None and not tag and not untag:
        _ = kept.summary  # which refuses what is no run
        raise RunError("penstock note", expected="a note, --tag or --untag", found="none", remedy="Give one of them")
    kept.note(text, tag=tag or (), untag=untag or ())
    found = kept.summary
    print(f"{run}: {found.note or 'no note'}; tags: {', '.join(found.tags) or 'none'}")


def prune(
    folder: Annotated[Path, Parameter(help="Parent folder of the run folders.")] = Path("runs"), /, *,
    match: Match = "",
    yes: Annotated[bool, Parameter(negative=(), help="Remove them without a question.")] = False,
) -> None:  # fmt: skip
    """Remove all checkpoints but the best of runs that are finished or stopped, after a question.

    Such a run can still be evaluated, exported, and gone on with from its best checkpoint. Runs that are open, were
    interrupted or failed keep everything.
    """
    runs = [ps.Run(run.path) for run in ps.list_runs(folder) if _fits(run, match)]
    found = {run: each for run in runs if (each := run.spare)}
    spare = [*found.values()]
    if not spare:
        print(
            f"nothing to remove: no finished run in {folder}{' fits and' if match else ''} has more than one checkpoint"
        )
        return
    for each in spare:
        print(f"{each.folder.path.name}: {_amount(each.checkpoints, each.bytes)}; {each.kept} stays")
    total = _amount([path for each in spare for path in each.checkpoints], sum(each.bytes for each in spare))
    if not (yes or _agreed(f"Remove {total}, of {counted(len(spare), 'run')}? [y/N] ")):
        print("nothing was removed")
        return
    for run in found:
        run.prune()
    print(f"removed {total}")


def _amount(checkpoints: Sequence[Path], size: int) -> str:
    room = f"{size / 1e9:.1f} GB" if size >= _GIGABYTE else f"{size / 1e6:.1f} MB"
    return f"{counted(len(checkpoints), 'checkpoint')}, {room}"


def _agreed(question: str) -> bool:
    """Whether somebody at the terminal says yes."""
    if not sys.stdin.isatty():
        raise RunError("penstock prune", expected="an answer", found="no terminal", remedy="Give --yes")
    return input(question).strip().lower() in {"y", "yes"}


def _fits(run: ps.RunSummary, match: str) -> bool:
    pattern = match if any(letter in match for letter in "*?[") else f"*{match}*"
    texts = (run.name, run.model, run.data, run.state, run.note, *run.tags)
    return any(fnmatch.fnmatch(text, pattern) for text in texts)


def _row(run: ps.RunSummary) -> tuple[str, ...]:
    best = "" if run.best is None else f"{run.metric} {run.best:.4f} at {run.best_step:,}"
    step = f"{run.step:,}/{run.steps:,}" if run.steps else ""
    cells = run.name, run.state, step, best, run.model, run.data, duration(run.seconds), ", ".join(run.tags), run.note
    return tuple(" ".join(cell.split()) for cell in cells)  # a name or a note of several lines would look like runs
