"""What an evaluation draws into the figures of a run, and what its model costs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from penstock import files
from penstock.inference import Evaluation, TrainedModel, evaluation_name
from penstock.models import cost_of
from penstock.report.sheets import encode, predictions_sheet, telling_positions


def cost(trained: TrainedModel, split: str) -> str:
    """Parameters and operations of a model for one image of a split, as large as the largest."""
    task, feed = trained.parts.evaluation(split)
    batch = {
        name: torch.as_tensor(np.asarray(array)).unsqueeze(0).to(trained.device)
        for name, array in feed[0].arrays.items()
    }
    sides = next(iter(batch.values())).shape[1:-1]
    return f"{cost_of(trained.evaluated, task.inputs(batch))} for a sample of {' x '.join(map(str, sides))}"


def write_predictions(run: Path, trained: TrainedModel, split: str, count: int) -> Path:
    """Draw some predictions of a split; the file."""
    _, feed = trained.parts.evaluation(split)
    positions = telling_positions(trained.parts.dataset.description, feed, count)
    return _draw(run / "figures" / f"predictions-{evaluation_name(trained, split)}.png", trained, split, positions)


def write_worst(run: Path, trained: TrainedModel, found: Evaluation) -> Path:
    """Draw the worst predictions of an evaluation; the file."""
    positions, notes = [each.position for each in found.worst], [each.text for each in found.worst]
    path = run / "figures" / f"worst-{evaluation_name(trained, found.split)}.png"
    return _draw(path, trained, found.split, positions, notes)


def _draw(path: Path, trained: TrainedModel, split: str, positions: Sequence[int], notes: Sequence[str] = ()) -> Path:
    task, feed = trained.parts.evaluation(split)
    precision = trained.parts.recipe.train.precision
    sheet = predictions_sheet(task, trained.evaluated, feed, positions, trained.device, precision, notes)
    files.replace_whole(path, encode(sheet))
    return path
