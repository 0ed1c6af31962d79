"""Scores of whole volumes, case by case: Dice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from penstock.metrics.confusion import Confusion, SegmentationScores
from penstock.metrics.means import mean_of_present
from penstock.metrics.tables import percent, width_of

Matrix = tuple[tuple[int, ...], ...]


class Cases:
    """A confusion matrix for every case, by its origin."""

    def __init__(self, names: Sequence[str], ignore: int) -> None:
        self.names, self.ignore = tuple(names), ignore
        self.found: dict[str, Matrix] = {}

    def update(self, predicted: torch.Tensor, target: torch.Tensor, origins: Sequence[str]) -> None:
        """Count some volumes; samples whose origin is "" are padding.

        Args:
            predicted: class ids of shape (samples, slices, rows, columns).
            target: class ids of the same shape.
            origins: one name per sample.

        Raises:
            LabelError: a label is neither a class nor the ignored one.
        """
        for sample, origin in enumerate(origins):
            if origin:
                counted = Confusion(len(self.names), self.ignore)
                counted.update(predicted[sample : sample + 1], target[sample : sample + 1], [origin])
                self.found[origin] = tuple(tuple(row) for row in counted.matrix.tolist())

    def lines(self) -> list[str]:
        """What was counted, as text for other ranks."""
        return [json.dumps(case) for case in self.found.items()]

    def take(self, lines: Sequence[str]) -> None:
        """What all ranks have counted, each case once."""
        cases = (json.loads(line) for line in lines)
        self.found = {origin: tuple(tuple(row) for row in matrix) for origin, matrix in cases}

    def scores(self) -> VolumeScores:
        """The scores of what has been counted."""
        return VolumeScores(self.names, dict(sorted(self.found.items())))


@dataclass(frozen=True)
class VolumeScores:
    """Dice of every class but 0, the background, in every case: 2 |A and B| / (|A| + |B|), in [0, 1].

    A class that is neither in the labels nor in the prediction of a case has no score there, and is left out of means.

    Attributes:
        names: the classes.
        cases: voxel counts by origin, `matrix[true][predicted]`.
    """

    names: tuple[str, ...]
    cases: dict[str, Matrix]

    @property
    def dice(self) -> dict[str, list[float | None]]:
        """Of every case, the Dice coefficient of every class but the background."""
        return {origin: _dice(np.array(matrix)) for origin, matrix in self.cases.items()}

    @property
    def means(self) -> list[float | None]:
        """Of every class but the background, the mean over the cases."""
        columns = zip(*self.dice.values(), strict=True)
        return [mean_of_present(values) if any(v is not None for v in values) else None for values in columns]

    @property
    def lowest(self) -> list[float | None]:
        """Of every class but the background, the lowest of all cases."""
        columns = zip(*self.dice.values(), strict=True)
        return [min((value for value in values if value is not None), default=None) for values in columns]

    @property
    def together(self) -> SegmentationScores:
        """The scores of all voxels of all cases."""
        total = sum((np.array(matrix) for matrix in self.cases.values()), np.zeros((len(self.names),) * 2, np.int64))
        return SegmentationScores(self.names, tuple(tuple(row) for row in total.tolist()))

    def summary(self) -> dict[str, float]:
        """The scores in one line."""
        return {"mean_dice": mean_of_present(self.means), "mean_iou": self.together.mean_iou}

    def as_json(self) -> dict[str, Any]:
        """Everything, for a file."""
        rows = zip(self.names[1:], self.means, self.lowest, strict=False)
        return {
            **self.together.as_json(),
            **self.summary(),
            "dice": [{"name": name, "dice": mean, "lowest": low} for name, mean, low in rows],
            "cases": self.dice,
        }

    def table(self) -> str:
        """A row for each class, of all voxels and then of cases."""
        width, columns = width_of(self.names), zip(*self.dice.values(), strict=True)
        there = [sum(value is not None for value in values) for values in columns]
        lines = [self.together.table(), "", f"{'class':<{width}}  {'Dice':>7}  {'lowest':>7}  {'cases':>14}"]
        lines += [
            f"{name:<{width}}  {percent(mean)}  {percent(low)}  {count:>14,}"
            for name, mean, low, count in zip(self.names[1:], self.means, self.lowest, there, strict=False)
        ]
        return "\n".join([*lines, f"{'mean Dice':<{width}}  {percent(mean_of_present(self.means))}"])


def _dice(matrix: Any) -> list[float | None]:
    totals = matrix.sum(axis=0) + matrix.sum(axis=1)
    return [2 * int(matrix[c, c]) / int(totals[c]) if totals[c] else None for c in range(1, len(matrix))]


def dice(found: NDArray[np.uint8], true: NDArray[np.uint8], classes: int) -> list[float | None]:
    """The Dice coefficient of every class but 0, the background: 2 |A and B| / (|A| + |B|); None where neither has it.

    Args:
        found: ids.
        true: ids of the same shape.
        classes: their number, background included.
    """
    scores: list[float | None] = []
    for label in range(1, classes):
        mine, theirs = found == label, true == label
        total = int(mine.sum()) + int(theirs.sum())
        scores.append(2 * int(np.logical_and(mine, theirs).sum()) / total if total else None)
    return scores
