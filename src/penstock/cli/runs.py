"""evaluate, replay, report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

import penstock as ps
from penstock.cli.options import Json, Trust, as_json
from penstock.progress import Progress

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
        validator=_check_scales,
        help="Test-time augmentation: scales of the image to average over.",
    ),
]
Flip = Annotated[bool, Parameter(help="Test-time augmentation: average over the horizontally flipped image too.")]
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
        validator=Count, help="Side of the sliding window in pixels; 0 uses whole images. By default as in training."
    ),
]
Overlap = Annotated[
    float | None,
    Parameter(
        validator=validators.Number(gte=0, lt=1),
        help="Fraction by which neighbouring windows overlap. By default 0.25.",
    ),
]
Where = Annotated[str, Parameter(name="--data", help="Dataset of the run, if it was moved.")]
Device = Annotated[str, Parameter(help="Device: auto, cpu, cuda, cuda:1, mps.")]


def evaluate(
    runs: Annotated[list[Path], Parameter(help="A run folder, or several.")], /, *,
    split: Annotated[
        str, Parameter(help="Split to evaluate. By default the validation split of the run.")
    ] = "",
    checkpoint: Checkpoint = "", device: Device = "auto", data: Where = "",
    on: Annotated[
        str, Parameter(help="Another dataset to score the runs on: DATA or DATA:SPLIT. Classes are matched by name.")
    ] = "",
    images: Annotated[
        int, Parameter(validator=Count, help="Number of predictions, and of the worst ones, to draw into the figures.")
    ] = 6,
    sliding_window: Side = None, overlap: Overlap = None,
    scales: Scales = (1.0,), flip: Flip = False, shift: Shift = 0,
    segments: Annotated[
        bool, Parameter(help="Also compute boundary IoU, panoptic quality and parsing covering of masks.")
    ] = False,
    json: Json = False, trust: Trust = False,
) -> None:  # fmt: skip
    """Score the model of a run, or of several, on a split, class by class; under torchrun by all ranks together.

    The score of each image is kept too, in RUN/evaluations/*.csv. penstock compare gives the differences of two runs.
    """
    for run in runs:
        ps.check(ps.Run(run))
    ps.prepare_process()
    evaluations = []
    for run in runs:
        with Progress("evaluate", "images") as progress:
            found = ps.Run(run).evaluate(
                split, checkpoint=checkpoint, device=device, data=data, on=on, sliding_window=sliding_window,
                overlap=overlap, scales=scales, flip=flip, shift=shift, segments=segments, images=images,
                progress=progress, trust=trust,
            )  # fmt: skip
        if found.cost and json:  # else another rank prints
            evaluations.append({"run": run, **found.as_json(), "report": ps.Run(run).report()})
        elif found.cost:
            _print(run if len(runs) > 1 else None, ps.Run(run), found)
    if evaluations:
        print(as_json(evaluations))


def _print(name: Path | None, run: ps.Run, found: ps.Evaluation) -> None:
    if name:
        print(f"{name}:")
    lost = "" if found.loss is None else f": loss {found.loss:.4f}"
    print(f"{found.split}, with the weights of step {found.step:,}{lost}")
    for note in found.notes:
        print(f"note: {note}")
    print(found.table)
    print(f"model: {found.cost}")
    for path in found.figures:
        print(f"drawn {path}")
    print(f"report {run.report()}")


def replay(
    run: Run, /, *, step: Annotated[int, Parameter(help="Step to draw, from 1.")],
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="PNG file to write. By default in the figures of the run.")
    ] = None,
    data: Where = "", trust: Trust = False,
) -> None:  # fmt: skip
    """Draw the images of any step of a run, exactly as the model saw them, and name their records."""
    sheet = ps.Run(run).replay(step, output=output or "", data=data, trust=trust)
    for position, record in enumerate(sheet.records, sheet.first):
        print(f"{position}  {record}")
    print(f"drawn {sheet.path}")


def report(
    runs: Annotated[list[Path], Parameter(help="A run folder, or several to compare.")], /, *,
    output: Annotated[
        Path | None,
        Parameter(name=("--output", "-o"), help="File of a comparison. By default comparison.html here."),
    ] = None,
) -> None:  # fmt: skip
    """Write the report of a run, RUN/report.html, or one page that compares several runs."""
    print(f"report {ps.write_report(*runs, output=output or '')}")
