"""runs, compare, note, prune: what was tried, and how it went."""

from __future__ import annotations

import datetime as dt
import fnmatch
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter

from penstock.errors import RunError
from penstock.progress import counted, duration
from penstock.runs import RunFolder
from penstock.runs.comparing import compare as compare_runs
from penstock.runs.comparing import format_value
from penstock.runs.listing import change_tags, find_runs, summarize, write_note
from penstock.runs.pruning import prunable
from penstock.runs.pruning import prune as remove_spare

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.runs.comparing import RunComparison
    from penstock.runs.listing import RunSummary

_HEADS: Final = ("run", "state", "step", "best", "model", "data", "time", "tags", "note")
_ORDERS: Final[dict[str, Callable[[RunSummary], Any]]] = {
    "number": lambda run: RunFolder.number_of(run.path),
    "best": lambda run: (run.best is not None, run.best or 0.0),
    "time": lambda run: run.seconds,
    "written": lambda run: run.written or dt.datetime.min.replace(tzinfo=dt.UTC),
}
Match = Annotated[
    str,
    Parameter(help="Only runs whose name, model, data, state, note or a tag contains this text or fits this pattern."),
]
_GIGABYTE: Final = 10**9
_LONGEST: Final = 60  # letters of a value in a table


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
    found = sorted(find_runs(folder), key=_ORDERS[sort])
    shown = [run for run in found if _fits(run, match)]
    if not shown:
        print(f"no run in {folder}" + (f" fits {match}: it has {counted(len(found), 'run')}" if found else ""))
        return
    rows = [_HEADS, *map(_row, shown)]
    if not any(run.tags for run in shown):
        tags = _HEADS.index("tags")
        rows = [(*row[:tags], *row[tags + 1 :]) for row in rows]
    for line in _table(rows):
        print(line)


def compare(
    runs: Annotated[list[Path], Parameter(help="Two or more run folders.")], /,
) -> None:  # fmt: skip
    """Print in what runs differ: recipe, data, code, environment and scores, and which scores may not be compared."""
    for line in comparison_lines(compare_runs(runs)):
        print(line)


def note(
    run: Annotated[Path, Parameter(help="A run folder.")],
    text: Annotated[str | None, Parameter(help='The note. "" removes it.')] = None, /, *,
    tag: Annotated[list[str] | None, Parameter(help="Tag to add. May be repeated.")] = None,
    untag: Annotated[list[str] | None, Parameter(help="Tag to remove. May be repeated.")] = None,
) -> None:  # fmt: skip
    """Keep a note or tags with a run, which penstock runs lists. A note takes the place of the one before."""
    folder = RunFolder.open(run)
    if text is None and not tag and not untag:
        raise RunError(
            "penstock note", expected="a note, --tag or --untag", found="none", remedy="Give one of them"
        )  # fmt: skip
    change_tags(folder, tag or (), untag or ())
    if text is not None:
        write_note(folder, text)
    kept = summarize(run)
    print(f"{run}: {kept.note or 'no note'}; tags: {', '.join(kept.tags) or 'none'}")


def prune(
    folder: Annotated[Path, Parameter(help="Parent folder of the run folders.")] = Path("runs"), /, *,
    match: Match = "",
    yes: Annotated[bool, Parameter(negative=(), help="Remove them without a question.")] = False,
) -> None:  # fmt: skip
    """Remove all checkpoints but the best of runs that are finished or stopped, after a question.

    Such a run can still be evaluated, exported, and gone on with from its best checkpoint. Runs that are open, were
    interrupted or failed keep everything.
    """
    spare = prunable([run.path for run in find_runs(folder) if _fits(run, match)])
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
    for each in spare:
        remove_spare(each)
    print(f"removed {total}")


def _amount(checkpoints: Sequence[Path], size: int) -> str:
    room = f"{size / 1e9:.1f} GB" if size >= _GIGABYTE else f"{size / 1e6:.1f} MB"
    return f"{counted(len(checkpoints), 'checkpoint')}, {room}"


def _agreed(question: str) -> bool:
    """Whether somebody at the terminal says yes.

    Raises:
        RunError: nobody can.
    """
    if not sys.stdin.isatty():
        raise RunError("penstock prune", expected="an answer", found="no terminal", remedy="Give --yes")
    return input(question).strip().lower() in {"y", "yes"}


def comparison_lines(found: RunComparison) -> list[str]:
    """A comparison as lines: a column for each run."""
    names = tuple(run.name for run in found.runs)
    lines = [*found.cautions, ""] if found.cautions else []
    parts = {
        "scores of the best checkpoint": found.scores,
        "recipe": found.recipe,
        "data": found.data,
        "code": found.code,
        "environment": found.environment,
    }
    for title, values in parts.items():
        if values:
            lines += [*_table([(title, *names), *_rows(values)]), ""]
        else:
            lines += [f"{title}: {'no evaluation' if values is found.scores else 'no difference'}", ""]
    for each in found.spreads:
        lines.append(
            f"{found.metric} over {counted(len(each.runs), 'seed')} ({', '.join(each.runs)}): mean {each.mean:.4f}, "
            f"standard deviation {each.deviation:.4f}"
        )
    return lines if found.spreads else lines[:-1]


def _fits(run: RunSummary, match: str) -> bool:
    pattern = match if any(letter in match for letter in "*?[") else f"*{match}*"
    texts = (run.name, run.model, run.data, run.state, run.note, *run.tags)
    return any(fnmatch.fnmatch(text, pattern) for text in texts)


def _row(run: RunSummary) -> tuple[str, ...]:
    best = "" if run.best is None else f"{run.metric} {run.best:.4f} at {run.best_step:,}"
    step = f"{run.step:,}/{run.steps:,}" if run.steps else ""
    cells = run.name, run.state, step, best, run.model, run.data, duration(run.seconds), ", ".join(run.tags), run.note
    return tuple(" ".join(cell.split()) for cell in cells)  # a name or a note of several lines would look like runs


def _rows(values: Mapping[str, tuple[Any, ...]]) -> list[tuple[str, ...]]:
    return [(f"  {name}", *(format_value(value, _LONGEST) for value in own)) for name, own in values.items()]


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows with columns below one another."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
