"""Evaluation and replay of a run, in a separate module because both need PyTorch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock import files, inference, outputs
from penstock import ranks as ranking
from penstock.api.samples import Sheet
from penstock.assembly import open_run
from penstock.assembly.runs import open_on
from penstock.errors import RunError
from penstock.progress import silent
from penstock.report import samples_sheet
from penstock.report.evaluated import cost, write_predictions, write_worst
from penstock.report.sheets import encode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.models import TestTimeAugmentation

_REPLAY = "penstock replay"


def evaluate(
    run: Path,
    split: str,
    *,
    checkpoint: str,
    device: str,
    data: str,
    on: str,
    window: tuple[int | None, float | None],
    tta: TestTimeAugmentation,
    segments: bool,
    images: int,
    progress: Callable[[int, int], None] | None,
) -> inference.Evaluation:
    """The scores of a run's model, by all ranks together; as `Run.evaluate`. The main rank draws."""
    parts = open_on(run, on) if on else open_run(run, data)
    trained = inference.load_model(run, checkpoint, device, parts).with_tta(tta)
    trained = trained.with_sliding_window(*window)
    with ranking.joined(trained.device) as ranks:
        watched = (progress or silent) if ranks.is_main else silent
        found = inference.evaluate_run(run, trained, split, watched, segments=segments, worst=images, ranks=ranks)
    if not ranks.is_main:
        return found
    found = replace(found, cost=cost(trained, found.split))
    if not images:
        return found
    drawn = write_predictions(run, trained, found.split, images), write_worst(run, trained, found)
    return replace(found, figures=drawn)


def replay(run: Path, step: int, output: Path | None, data: str) -> Sheet:
    """The images of a step of a run; as `Run.replay`."""
    if output:
        outputs.check(output, _REPLAY, (".png",))
    parts = open_run(run, data)
    size, last, end = parts.recipe.train.batch, parts.recipe.train.steps, parts.plan.end
    if end is not None:
        last = min(last, end // size)
    if not 1 <= step <= last:
        raise RunError(
            str(run), expected=f"a step from 1 to {last}", found=str(step), remedy="Choose a step in this range"
        )
    positions = range((step - 1) * size, step * size)
    parts.hold(positions.start)
    pixels, records = samples_sheet(parts.task, parts.training_feed(), positions)
    path, png = output or run / "figures" / f"step-{step:08d}.png", encode(pixels)
    if output:
        outputs.write(path, png, _REPLAY)
    else:
        files.replace_whole(path, png)
    return Sheet(png, tuple(records), first=positions.start, path=path)
