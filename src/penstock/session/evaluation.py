"""Evaluation: one pass over a split, the same code during training and after it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from penstock import devices
from penstock.errors import RecipeError
from penstock.feed import Batch, Feed
from penstock.ranks import Ranks
from penstock.session.best import BestMetric
from penstock.session.custom_metrics import CustomMetric, load_metrics, merged
from penstock.tasks import Task
from penstock.tasks.roles import Tensors
from penstock.tasks.scoring import Metric, Scores


def evaluate(
    task: Task,
    model: nn.Module,
    feed: Feed,
    *,
    device: torch.device,
    ranks: Ranks,
    precision: str = "float32",
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] | None = None,
    metrics: Sequence[str] = (),
    look: Callable[[Any, Tensors, Sequence[int]], None] | None = None,
) -> tuple[Scores, float | None] | None:
    """The scores and the mean loss of a model over a feed's snapshot, every record once over all ranks.

    Args:
        task: the task that gives inputs, losses and the metric.
        model: predicts; left in evaluation mode.
        feed: walks the split; its slice is this rank's.
        device: where the model is.
        ranks: whose counts are added up.
        precision: as in training.
        stop: asked after every batch, and by a single process while it waits for one; all ranks must give the same
            answer.
        metrics: places of metrics beside the task's.
        progress: called after every batch with the records done and the records in all.
        look: called for every batch with the outputs, the tensors, and the positions of its samples.

    Returns:
        None if `stop` said so. The loss is None where the model gives none in evaluation, as detectors do.

    Raises:
        DataError: a record is not what it should be.
    """
    metric, total = task.metric(), torch.zeros((), dtype=torch.float64)
    own = load_metrics(metrics, task)
    model.eval()
    records = len(feed.plan)
    try:
        with contextlib.closing(feed.walk(stop if ranks.world_size == 1 else lambda: False)) as batches:  # type: ignore[type-var]
            for batch in batches:
                total = total + _score(task, model, batch, (metric, own, look), device, precision)
                if progress:
                    progress(min(batch.cursor.position, records), records)
                if stop():
                    return None
    except InterruptedError:
        return None
    total = ranks.sum(total.to(device) if device.type == "cuda" else total)
    everybody = _AllRanks(ranks, device)
    metric.gather(everybody)
    scores = merged(_scores(metric), own, everybody)
    if not task.evaluates_loss:
        return scores, None
    losses, counts = total.cpu()
    return scores, float((losses / torch.where(counts > 0, counts, 1)).sum())


def check_best_metric(task: Task, metrics: Sequence[str], chosen: str) -> None:
    """Check, before anything is trained, that metrics can be loaded, and that the score which is to decide is one of
    the task's. Custom metrics name their scores at the first evaluation.

    Raises:
        RecipeError: it is none of them, or a metric cannot be loaded.
    """
    if load_metrics(metrics, task) or not chosen:
        return
    try:
        with warnings.catch_warnings(action="ignore"):
            scores = _scores(task.metric())
    except (ArithmeticError, LookupError, ValueError, RuntimeError):
        return  # a custom task's metric that has no scores of no image
    BestMetric.of(task, chosen).value(scores)


def _scores(metric: Metric) -> Scores:
    found = metric.scores()
    if not hasattr(found, "table"):
        raise RecipeError(
            "the scores of the task",
            expected="an object that inherits from penstock.tasks.scoring.Scores",
            found=f"a {type(found).__name__} that does not",
            remedy="Derive the class from it",
        )
    return found


def with_loss(loss: float | None, values: dict[str, Any]) -> dict[str, Any]:
    """Scores with the loss before them, where there is one."""
    return values if loss is None else {"loss": loss, **values}


def as_record(loss: float | None, scores: Scores) -> dict[str, Any]:
    """All that an evaluation found, for a file of the run."""
    return {**with_loss(loss, scores.as_json()), "table": scores.table()}


@dataclass(frozen=True)
class _AllRanks:
    """Ranks that can add up tensors of any device: NCCL wants them on its own."""

    ranks: Ranks
    device: torch.device

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.copy_(self.ranks.sum(tensor.to(self.device))) if self.ranks.world_size > 1 else tensor

    def gather(self, texts: Sequence[str]) -> list[str]:
        return self.ranks.gather(texts)


@torch.inference_mode()
def _score(
    task: Task,
    model: nn.Module,
    batch: Batch,
    counting: tuple[Metric, list[CustomMetric], Callable[[Any, Tensors, Sequence[int]], None] | None],
    device: torch.device,
    precision: str,
) -> torch.Tensor:
    """Count the samples of one batch, without its padding.

    Returns:
        The sums of its losses and their counts, float64 on the CPU, of shape (2, losses).
    """
    real = torch.nonzero(batch.weight)[:, 0]
    whole = len(real) == len(batch)
    tensors = {name: (each if whole else each[real]).to(device) for name, each in batch.tensors.items()}
    count = task.count(tensors).cpu().double()
    origins = [batch.origins[row] for row in real.tolist()]
    if not origins:
        return torch.stack([torch.zeros_like(count), count])
    with devices.autocast(device, precision):
        outputs = model(task.inputs(tensors))
    metric, own, look = counting
    metric.update(outputs, tensors, origins)
    for each in own:
        each.update(outputs, tensors)
    if look:
        look(outputs, tensors, [batch.first + row for row in real.tolist()])
    if not task.evaluates_loss:
        return torch.zeros((2, 1), dtype=torch.float64)
    # Added up on the CPU, in float64, which MPS has not.
    return torch.stack([task.loss(outputs, tensors).cpu().double(), count])
