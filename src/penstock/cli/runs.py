"""evaluate, replay, report."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import torch
from cyclopts import Parameter, validators

from penstock import devices, files
from penstock import ranks as ranking
from penstock.errors import RecipeError, RunError
from penstock.models import Views, Window, cost_of
from penstock.models.windows import OVERLAP
from penstock.progress import Progress, silent
from penstock.recipe import answers_name, evaluate_run, load_model, open_run
from penstock.report import answers_sheet, class_table, samples_sheet, write_report
from penstock.report.sheets import encode, telling_positions
from penstock.runs import RunFolder

if TYPE_CHECKING:
    from penstock.recipe import Trained

_LARGEST = 8  # times the picture's size
Run = Annotated[Path, Parameter(help="A run folder.")]
Checkpoint = Annotated[str, Parameter(help="best, last, or step-NNNNNNNN; by default the best.")]
Count = validators.Number(gte=0)


def _check_scales(_: object, scales: tuple[float, ...]) -> None:
    if not scales or not all(0 < scale <= _LARGEST for scale in scales):
        message = f"expected sizes above 0 and up to {_LARGEST}, found {', '.join(map(str, scales)) or 'none'}"
        raise ValueError(message)


Scales = Annotated[
    tuple[float, ...],
    Parameter(
        consume_multiple=True,
        negative=(),
        validator=_check_scales,
        help="Look at each picture at these sizes too, and average the probabilities.",
    ),
]
Flip = Annotated[bool, Parameter(negative=(), help="Look at each picture in the mirror too.")]
Shift = Annotated[
    int,
    Parameter(
        validator=Count,
        help="Of classifiers: look at each picture moved by so many pixels too, up and left, and down and right.",
    ),
]
Side = Annotated[
    int | None,
    Parameter(
        validator=Count, help="Slide a window of this side over pictures; 0: whole ones. By default as in training."
    ),
]
Overlap = Annotated[
    float,
    Parameter(validator=validators.Number(gte=0, lt=1), help="Share of a window that overlaps the next."),
]
Where = Annotated[str, Parameter(name="--data", help="Where the run's dataset is now, if it was moved.")]
Device = Annotated[str, Parameter(help="auto, cpu, cuda, cuda:1, mps.")]


def evaluate(
    run: Run, /, *, split: Annotated[str, Parameter(help="By default the one used in training.")] = "",
    checkpoint: Checkpoint = "", device: Device = "auto", data: Where = "",
    pictures: Annotated[int, Parameter(validator=Count, help="Answers to draw into the run's figures.")] = 6,
    window: Side = None, overlap: Overlap = OVERLAP, scales: Scales = (1.0,), flip: Flip = False, shift: Shift = 0,
    segments: Annotated[bool, Parameter(negative=(), help="Boundary IoU and panoptic quality of masks too.")] = False,
) -> None:  # fmt: skip
    """Score a run's model on a split, class by class; under torchrun by all ranks together."""
    devices.keep_freed_memory()
    devices.use_available_cores()
    trained = load_model(run, checkpoint, device, open_run(run, data)).looking(Views(scales, flip, shift))
    trained = trained.through(chosen_window(trained, window, overlap))
    with ranking.joined(trained.device) as ranks:
        watched = Progress("evaluate", "pictures") if ranks.writes else contextlib.nullcontext(silent)
        with watched as progress:
            found = evaluate_run(run, trained, split, progress, segments=segments, ranks=ranks)
    if not ranks.writes:
        return
    lost = "" if found.loss is None else f": loss {found.loss:.4f}"
    print(f"{found.split}, with the weights of step {found.step:,}{lost}")
    print(class_table(found.scores.as_json()))
    print(f"model: {_cost(trained, found.split)}")
    if pictures:
        print(f"drawn {_draw_answers(run, trained, found.split, pictures)}")
    print(f"report {write_report(RunFolder(run))}")


def chosen_window(trained: Trained, side: int | None, overlap: float) -> Window | None:
    """The window that is asked for, or that of the training.

    Raises:
        RecipeError: an overlap is asked for where there is no window.
    """
    side = trained.parts.recipe.train.window if side is None else side
    if overlap != OVERLAP and not side:
        raise RecipeError("--overlap", expected="--window, whose it is", found="none", remedy="Name the window's side")
    return Window(side, overlap) if side else None


def _cost(trained: Trained, split: str) -> str:
    """Of one picture of the split, as large as the largest."""
    task, feed = trained.parts.evaluation(split)
    batch = {
        name: torch.as_tensor(np.asarray(array)).unsqueeze(0).to(trained.device)
        for name, array in feed[0].arrays.items()
    }
    sides = next(iter(batch.values())).shape[1:-1]
    return f"{cost_of(trained.model, task.inputs(batch))} for a sample of {' x '.join(map(str, sides))}"


def _draw_answers(run: Path, trained: Trained, split: str, count: int) -> Path:
    task, feed = trained.parts.evaluation(split)
    positions = telling_positions(task, feed, count)
    sheet = answers_sheet(task, trained.model, feed, positions, trained.device, trained.parts.recipe.train.precision)
    path = run / "figures" / f"answers-{answers_name(trained, split)}.png"
    files.replace_whole(path, encode(sheet))
    return path


def replay(
    run: Run, /, *, step: Annotated[int, Parameter(help="From 1 on.")],
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="By default in the run's figures.")] = None,
    data: Where = "",
) -> None:  # fmt: skip
    """Draw the pictures of any step of a run, exactly as the model saw them, and name their records."""
    parts = open_run(run, data)
    last, end = parts.recipe.train.steps, parts.plan.end
    if end is not None:
        last = min(last, end // parts.recipe.train.batch)
    if not 1 <= step <= last:
        raise RunError(str(run), expected=f"a step from 1 to {last}", found=str(step), remedy="Choose one of those")
    size = parts.recipe.train.batch
    positions = range((step - 1) * size, step * size)
    parts.hold(positions.start)
    sheet, records = samples_sheet(parts.task, parts.training_feed(), positions)
    path = output or run / "figures" / f"step-{step:08d}.png"
    files.replace_whole(path, encode(sheet))
    for position, record in zip(positions, records, strict=True):
        print(f"{position}  {record}")
    print(f"drawn {path}")


def report(run: Run, /) -> None:
    """Gather a run on one page, report.html."""
    print(f"report {write_report(RunFolder.open(run))}")
