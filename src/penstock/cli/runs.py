"""evaluate, replay, report."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

import penstock as ps
from penstock import files, outputs
from penstock.errors import RecipeError, RunError
from penstock.progress import Progress, silent
from penstock.runs import RunFolder
from penstock.settings.predicting import OVERLAP

if TYPE_CHECKING:
    from penstock.inference import Trained
    from penstock.models import Window

_REPLAY = "penstock replay"
_LARGEST = 8  # times the image's size
Run = Annotated[Path, Parameter(help="A run folder.")]
Checkpoint = Annotated[str, Parameter(help="Checkpoint: best, last, or step-NNNNNNNN. By default the best.")]
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
        help="Test-time augmentation: scales of the image to average over.",
    ),
]
Flip = Annotated[
    bool, Parameter(negative=(), help="Test-time augmentation: average over the horizontally flipped image too.")
]
Shift = Annotated[
    int,
    Parameter(
        validator=Count,
        help="Test-time augmentation of classifiers: average over the image and two shifted "
        "copies: this many pixels up and left, and this many down and right.",
    ),
]
Side = Annotated[
    int | None,
    Parameter(
        validator=Count,
        help="Side of the sliding window in pixels; 0 uses whole images. By default as in training.",
    ),
]
Overlap = Annotated[
    float,
    Parameter(validator=validators.Number(gte=0, lt=1), help="Fraction by which neighbouring windows overlap."),
]
Where = Annotated[str, Parameter(name="--data", help="Dataset of the run, if it was moved.")]
Trust = Annotated[
    bool,
    Parameter(negative=(), help="Execute custom code that is stored in the run even if it is not yours."),
]
Device = Annotated[str, Parameter(help="Device: auto, cpu, cuda, cuda:1, mps.")]


def evaluate(
    run: Run, /, *,
    split: Annotated[
        str, Parameter(help="Split to evaluate. By default the validation split of the run.")
    ] = "",
    checkpoint: Checkpoint = "", device: Device = "auto", data: Where = "",
    images: Annotated[
        int, Parameter(validator=Count, help="Number of predictions, and of the worst ones, to draw into the figures.")
    ] = 6,
    sliding_window: Side = None, overlap: Overlap = OVERLAP,
    scales: Scales = (1.0,), flip: Flip = False, shift: Shift = 0,
    segments: Annotated[
        bool, Parameter(negative=(), help="Also compute boundary IoU, panoptic quality and parsing covering of masks.")
    ] = False,
    trust: Trust = False,
) -> None:  # fmt: skip
    """Score a run's model on a split, class by class; under torchrun by all ranks together."""
    RunFolder.open(run)
    from penstock import devices
    from penstock import ranks as ranking
    from penstock.assembly import open_run
    from penstock.assembly import trust as trust_folder
    from penstock.inference import evaluate_run, load_model
    from penstock.models import TestTimeAugmentation
    from penstock.report import class_table
    from penstock.report.evaluated import cost, write_predictions, write_worst

    devices.keep_freed_memory()
    devices.use_available_cores()
    if trust:
        trust_folder(run)
    augmentation = TestTimeAugmentation(scales, flip, shift)
    trained = load_model(run, checkpoint, device, open_run(run, data)).with_tta(augmentation)
    trained = trained.with_window(chosen_window(trained, sliding_window, overlap))
    with ranking.joined(trained.device) as ranks:
        watched = Progress("evaluate", "images") if ranks.is_main else contextlib.nullcontext(silent)
        with watched as progress:
            found = evaluate_run(run, trained, split, progress, segments=segments, worst=images, ranks=ranks)
    if not ranks.is_main:
        return
    lost = "" if found.loss is None else f": loss {found.loss:.4f}"
    print(f"{found.split}, with the weights of step {found.step:,}{lost}")
    print(class_table(found.scores.as_json()))
    print(f"model: {cost(trained, found.split)}")
    if images:
        print(f"drawn {write_predictions(run, trained, found.split, images)}")
        print(f"drawn {write_worst(run, trained, found)}")
    print(f"report {ps.Run(run).report()}")


def chosen_window(trained: Trained, side: int | None, overlap: float) -> Window | None:
    """The window that is asked for, or that of the training.

    Raises:
        RecipeError: an overlap is asked for where there is no window.
    """
    from penstock.models import Window

    side = trained.parts.recipe.train.sliding_window if side is None else side
    if overlap != OVERLAP and not side:
        raise RecipeError(
            "--overlap",
            expected="--sliding-window SIDE",
            found="none",
            remedy="Add --sliding-window SIDE",
            message="--overlap has no effect without --sliding-window. Add --sliding-window SIDE.",
        )
    return Window(side, overlap) if side else None


def replay(
    run: Run, /, *, step: Annotated[int, Parameter(help="Step to draw, from 1.")],
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="PNG file to write. By default in the figures of the run.")
    ] = None,
    data: Where = "", trust: Trust = False,
) -> None:  # fmt: skip
    """Draw the images of any step of a run, exactly as the model saw them, and name their records."""
    RunFolder.open(run)
    if output:
        outputs.check(output, _REPLAY, (".png",))
    from penstock.assembly import open_run
    from penstock.assembly import trust as trust_folder
    from penstock.report import samples_sheet
    from penstock.report.sheets import encode

    if trust:
        trust_folder(run)
    parts = open_run(run, data)
    last, end = parts.recipe.train.steps, parts.plan.end
    if end is not None:
        last = min(last, end // parts.recipe.train.batch)
    if not 1 <= step <= last:
        raise RunError(
            str(run), expected=f"a step from 1 to {last}", found=str(step), remedy="Choose a step in this range"
        )
    size = parts.recipe.train.batch
    positions = range((step - 1) * size, step * size)
    parts.hold(positions.start)
    sheet, records = samples_sheet(parts.task, parts.training_feed(), positions)
    path = output or run / "figures" / f"step-{step:08d}.png"
    if output:
        outputs.write(output, encode(sheet), _REPLAY)
    else:
        files.replace_whole(path, encode(sheet))
    for position, record in zip(positions, records, strict=True):
        print(f"{position}  {record}")
    print(f"drawn {path}")


def report(
    runs: Annotated[list[Path], Parameter(help="A run folder, or several to compare.")], /, *,
    output: Annotated[
        Path | None,
        Parameter(name=("--output", "-o"), help="File of a comparison. By default comparison.html beside the runs."),
    ] = None,
) -> None:  # fmt: skip
    """Write the report of a run, RUN/report.html, or one page that compares several runs."""
    if len(runs) > 1:
        from penstock.report import write_comparison

        print(f"report {write_comparison(runs, output or runs[0].resolve().parent / 'comparison.html')}")
        return
    if output:
        raise RecipeError(
            "--output",
            expected="several runs",
            found="one",
            remedy="Remove --output: the report of a run is RUN/report.html",
        )
    print(f"report {ps.Run(runs[0]).report()}")
