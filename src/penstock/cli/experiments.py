"""runs, compare, note, prune: what was tried, and how it went."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter
from rich import filesize

import penstock as ps
from penstock.cli.options import Json, as_json
from penstock.errors import RunError
from penstock.progress import aligned, counted, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_HEADS: Final = ("run", "state", "began", "step", "best", "task", "model", "data", "time", "images/s", "tags", "note")
_ERROR: Final = re.compile(r"\w+Error: ")
_NEEDS_NO_REASON: Final = frozenset({"finished"})
_WHOLE: Final = 10  # images a second, below which a digit behind the point is shown
_LONGEST: Final = 60  # letters of a note or a reason in the list
_ORDERS: Final[dict[str, Callable[[ps.RunSummary], Any]]] = {
    "number": lambda run: run.number,
    "best": lambda run: (run.metric, run.best or 0.0),
    "time": lambda run: run.seconds,
    "written": lambda run: run.written or dt.datetime.min.replace(tzinfo=dt.UTC),
}
Where = Annotated[
    list[str] | None,
    Parameter(
        help="Only runs that fit this: a text that name, task, model, data, state, note or a tag contains, or a "
        "condition on a column of --json, the metric or a setting: 'model=unet*', 'mean_iou>0.8', 'optimizer.lr<=0.01'."
        " May be repeated."
    ),
]


def runs_command(
    folder: Annotated[Path, Parameter(help="Parent folder of the run folders.")] = Path("runs"), /, *,
    where: Where = None,
    sort: Annotated[
        Literal["number", "best", "time", "written"],
        Parameter(help="Order: by number, best score (by metric, the largest last), training time, or last change."),
    ] = "number",
    json: Json = False,
) -> None:  # fmt: skip
    """List runs: state, steps, best score, task, model, data, training time, images a second, tags and note.

    A run is running while a process of this machine trains it, and killed if that ended without a word. The best score
    is that of the best checkpoint.
    """
    shown = sorted(ps.list_runs(folder, where=where or ()), key=_ORDERS[sort])
    if json:
        print(as_json([{"name": run.name, **dataclasses.asdict(run)} for run in shown]))
        return
    if not shown:
        print(_no_run(folder, where or ()))
        return
    rows = [_HEADS, *map(_row, shown)]
    empty = {column for column, cells in enumerate(zip(*rows[1:], strict=True)) if not any(cells)}
    for line in aligned([tuple(cell for column, cell in enumerate(row) if column not in empty) for row in rows]):
        print(line)


def _no_run(folder: Path, where: Sequence[str]) -> str:
    count, asked = len(ps.list_runs(folder)), " and ".join(where)
    return f"no run in {folder}" + (f" fits {asked}: it has {counted(count, 'run')}" if count else "")


def compare(
    runs: Annotated[list[Path], Parameter(help="Two or more run folders.")], /, *,
    json: Json = False,
) -> None:  # fmt: skip
    """Compare runs: recipe, data, code, environment and scores, and which scores may not be compared."""
    found = ps.compare(*runs)
    if json:
        print(as_json(found))
        return
    for line in found.lines():
        print(line)


def note(
    run: Annotated[Path, Parameter(help="A run folder.")],
    text: Annotated[str | None, Parameter(help='The note. "" removes it.')] = None, /, *,
    tag: Annotated[list[str] | None, Parameter(help="Tag to add. May be repeated.")] = None,
    untag: Annotated[list[str] | None, Parameter(help="Tag to remove. May be repeated.")] = None,
) -> None:  # fmt: skip
    """Keep a note or tags with a run, which penstock runs lists, or print them where none is given.

    A note takes the place of the one before.
    """
    kept = ps.Run(run)
    if text is not None or tag or untag:
        kept.note(text, tag=tag or (), untag=untag or ())
    found = kept.summary
    print(f"{run}: {found.note or 'no note'}; tags: {', '.join(found.tags) or 'none'}")


def prune(
    folder: Annotated[Path, Parameter(help="Parent folder of the run folders.")] = Path("runs"), /, *,
    where: Where = None,
    yes: Annotated[bool, Parameter(help="Remove them without a question.")] = False,
) -> None:  # fmt: skip
    """Remove all checkpoints but the best of runs, after a question.

    A run that is finished or stopped can still be evaluated, exported, and gone on with from its best checkpoint. One
    that was interrupted, failed or killed keeps its last one too. Runs with a tag, or in training, keep everything.
    """
    runs = [ps.Run(run.path) for run in ps.list_runs(folder, where=where or ())]
    found = {run: each for run in runs if (each := run.spare)}
    spare = [*found.values()]
    if not spare:
        print(f"nothing to remove: no run in {folder}{' that fits' if where else ''} has a checkpoint to spare")
        return
    for each in spare:
        print(f"{each.folder.path.name}: {_amount(each.checkpoints, each.bytes)}; {_stays(each.kept)}")
    total = _amount([path for each in spare for path in each.checkpoints], sum(each.bytes for each in spare))
    if not (yes or _agreed(f"Remove {total}, of {counted(len(spare), 'run')}? [y/N] ")):
        print("nothing was removed")
        return
    for run in found:
        run.prune()
    print(f"removed {total}")


def _amount(checkpoints: Sequence[Path], size: int) -> str:
    return f"{counted(len(checkpoints), 'checkpoint')}, {filesize.decimal(size)}"


def _stays(names: Sequence[str]) -> str:
    return f"{' and '.join(names)} {'stays' if len(names) == 1 else 'stay'}"


def _agreed(question: str) -> bool:
    """Whether somebody at the terminal says yes."""
    if not sys.stdin.isatty():
        raise RunError("penstock prune", expected="an answer", found="no terminal", remedy="Give --yes")
    return input(question).strip().lower() in {"y", "yes"}


def _row(run: ps.RunSummary) -> tuple[str, ...]:
    best = "" if run.best is None else f"{run.metric} {run.best:.4f} at {run.best_step:,}"
    step = f"{run.step:,}/{run.steps:,}" if run.steps else ""
    reason = _ERROR.sub("", run.reason)
    state = run.state if run.state in _NEEDS_NO_REASON or not reason else f"{run.state}: {reason}"
    began = f"{run.began:%Y-%m-%d %H:%M}" if run.began else ""
    digits = 0 if run.images_per_second >= _WHOLE else 1
    speed = f"{run.images_per_second:,.{digits}f}" if run.images_per_second else ""
    time = duration(run.seconds) if run.seconds else ""
    cells = (
        run.name,
        _short(state),
        began,
        step,
        best,
        run.task,
        run.model,
        run.data,
        time,
        speed,
        ", ".join(run.tags),
        _short(run.note),
    )
    return tuple(" ".join(cell.split()) for cell in cells)  # a name or a note of several lines would look like runs


def _short(text: str) -> str:
    return textwrap.shorten(text, _LONGEST, placeholder=" ...")
