"""What a session is made with: its hooks, its evaluation."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from penstock.assembly.experiment import Experiment
from penstock.hooks import (
    Console,
    EarlyStopping,
    EvaluationFiles,
    EventsLog,
    MetricsLog,
    NonFiniteFiles,
    OriginsLog,
    SaveByTime,
    TensorBoard,
    TimingsLog,
)
from penstock.hooks.custom import named_hooks
from penstock.models import Window, Windowed
from penstock.ranks import Ranks
from penstock.runs import RunFolder
from penstock.session import Hook
from penstock.session.evaluation import evaluate
from penstock.session.sharding import gathered
from penstock.settings import Recipe
from penstock.tasks.scoring import Scores


def evaluation_of(
    parts: Experiment,
    ranks: Ranks,
    device: torch.device,
    *,
    pin_memory: bool,
    progress: Callable[[int, int], None] | None = None,
) -> Callable[[nn.Module, Callable[[], bool]], tuple[Scores, float | None] | None] | None:
    """What evaluates a model during training, and tells `progress` how far it is; None where nothing is evaluated."""
    split = parts.recipe.data.validation
    if not split:
        return None
    task, feed = parts.evaluation(split, ranks.batch_slice, pin_memory=pin_memory, whole=False)
    train = parts.recipe.train
    task.metric()  # which may need an extra

    def run(model: nn.Module, stop: Callable[[], bool]) -> tuple[Scores, float | None] | None:
        seeing = Windowed(model, Window(train.sliding_window), device) if train.sliding_window else model
        with gathered(model):
            return evaluate(
                task, seeing, feed, device=device, ranks=ranks, precision=train.precision, stop=stop,
                progress=progress, metrics=train.metrics,
            )  # fmt: skip

    return run


def hooks_of(folder: RunFolder, recipe: Recipe, ranks: Ranks, console: Console) -> list[Hook]:
    """The hooks of a training: all of them on the main rank, and on other ranks those that must run everywhere."""
    patience = recipe.train.patience
    origins: list[Hook] = [OriginsLog(folder.path / "origins.jsonl", ranks)] if recipe.train.log_origins else []
    own = named_hooks(recipe.hooks, folder.path)
    batches = NonFiniteFiles(folder.path)
    if not ranks.is_main:
        return [batches, *origins, *own]
    interval = recipe.train.log_every
    clock: list[Hook] = [SaveByTime(recipe.train.save_minutes)] if recipe.train.save_minutes else []
    mirror: list[Hook] = [TensorBoard(folder.path / "tensorboard", interval)] if TensorBoard.available() else []
    return [
        batches,
        MetricsLog(folder.metrics, ranks),
        TimingsLog(folder.timings),
        EvaluationFiles(folder, recipe.data.validation),
        EventsLog(folder),
        *([EarlyStopping(patience)] if patience else []),
        *clock,
        *mirror,
        *origins,
        *own,
        console,
    ]
