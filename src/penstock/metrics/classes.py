"""Top-1, top-5, accuracy of every class, and how far confidence can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from penstock.metrics.tables import percent, width_of

_BINS: Final = 15
_UNIT: Final = 1 << 32  # confidences are counted in these parts, so that sums are exact
_WHOLE: Final = 100  # classes up to which the confusion matrix is written out
_TOP: Final = 5


class PredictionCounts:
    """Counts predictions of single labels.

    Attributes:
        counts: int64, on the CPU: the confusion matrix by true and predicted class, those whose class was among the
            five most likely, and for each of 15 equal bins of confidence the predictions, the right ones, and the sum
            of confidences in 2**-32.
    """

    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.counts = torch.zeros(classes**2 + 1 + 3 * _BINS, dtype=torch.int64)

    def update(self, probabilities: torch.Tensor, target: torch.Tensor) -> None:
        """Count some predictions.

        Args:
            probabilities: float (samples, classes).
            target: int64 (samples,); below 0 does not count.
        """
        probabilities, target = probabilities[target >= 0].double().cpu(), target[target >= 0].cpu()
        lost = ~probabilities.isfinite().all(dim=1, keepdim=True)  # a network that has diverged is never right
        own_least = torch.zeros_like(probabilities).scatter(1, target.unsqueeze(1), -1.0)
        probabilities = torch.where(lost, own_least, probabilities)
        confidence, predicted = probabilities.max(dim=1)
        right = (predicted == target).long()
        own = probabilities.gather(1, target.unsqueeze(1))
        better = (probabilities > own).sum(dim=1)
        bins = (confidence * _BINS).long().clamp(0, _BINS - 1)
        matrix, rest = self.counts[: self.classes**2], self.counts[self.classes**2 :]
        matrix += torch.bincount(target * self.classes + predicted, minlength=self.classes**2)
        rest[0] += (better < _TOP).sum()
        table = rest[1:].view(3, _BINS)
        parts = (torch.ones_like(right), right, (confidence * _UNIT).round().long())
        for row, part in zip(table, parts, strict=True):
            row.index_add_(0, bins, part)

    def scores(self, names: Sequence[str]) -> ClassificationScores:
        """The scores of what has been counted."""
        size = self.classes**2
        matrix = self.counts[:size].view(self.classes, self.classes)
        bins = self.counts[size + 1 :].view(3, _BINS).T
        return ClassificationScores(
            tuple(names),
            tuple(tuple(row) for row in matrix.tolist()),
            int(self.counts[size]),
            tuple((n, r, c / _UNIT) for n, r, c in bins.tolist()),
        )


@dataclass(frozen=True)
class ClassificationScores:
    """Accuracies in [0, 1], and calibration.

    Attributes:
        names: the classes.
        matrix: predictions, `matrix[true][predicted]`.
        in_top5: how many had their class among the five most likely.
        bins: by confidence, 15 of equal width: predictions, right ones, sum of confidences.
    """

    names: tuple[str, ...]
    matrix: tuple[tuple[int, ...], ...]
    in_top5: int
    bins: tuple[tuple[int, int, float], ...]

    @property
    def true(self) -> list[int]:
        """Images of every class."""
        return [sum(row) for row in self.matrix]

    @property
    def top1(self) -> float:
        """The fraction of right predictions."""
        return sum(row[i] for i, row in enumerate(self.matrix)) / max(1, sum(self.true))

    @property
    def top5(self) -> float:
        """The fraction whose class is among the five most likely."""
        return self.in_top5 / max(1, sum(self.true))

    @property
    def recall(self) -> list[float | None]:
        """The fraction of every class's images that were predicted right; None without an image."""
        return [self.matrix[i][i] / true if true else None for i, true in enumerate(self.true)]

    @property
    def precision(self) -> list[float | None]:
        """The fraction of every class's predictions that were right; None without a prediction."""
        columns = [sum(column) for column in zip(*self.matrix, strict=True)]
        return [self.matrix[i][i] / found if found else None for i, found in enumerate(columns)]

    @property
    def calibration_error(self) -> float:
        """Expected calibration error over 15 bins (Guo et al. 2017): by how much confidence and accuracy differ."""
        total = max(1, sum(count for count, _, _ in self.bins))
        return sum(abs(right - confidence) for _, right, confidence in self.bins) / total

    @property
    def absent(self) -> list[str]:
        """The classes without an image."""
        return [name for name, true in zip(self.names, self.true, strict=True) if not true]

    def summary(self) -> dict[str, float]:
        """The scores in one line."""
        return {"top1": self.top1, **({"top5": self.top5} if len(self.names) > _TOP else {})}

    def as_json(self) -> dict[str, Any]:
        """Everything, for a file; the confusion matrix of up to 100 classes."""
        rows = zip(self.names, self.recall, self.precision, self.true, strict=True)
        whole = {"confusion": [list(row) for row in self.matrix]} if len(self.names) <= _WHOLE else {}
        return {
            **self.summary(),
            "calibration_error": self.calibration_error,
            "absent": self.absent,
            "classes": [{"name": n, "accuracy": r, "precision": p, "images": t} for n, r, p, t in rows],
            **whole,
        }

    def table(self) -> str:
        """A row for each class."""
        width = width_of(self.names)
        lines = [f"{'class':<{width}}  {'accuracy':>8}  {'precision':>9}  {'images':>10}"]
        lines += [
            f"{name:<{width}}  {percent(recall, 8)}  {percent(precision, 9)}  {images:>10,}"
            for name, recall, precision, images in zip(self.names, self.recall, self.precision, self.true, strict=True)
        ]
        named = {"top1": "top 1", "top5": "top 5"}
        lines += [f"{named[name]:<{width}}  {percent(value, 8)}" for name, value in self.summary().items()]
        lines.append(f"{'calibration':<{width}}  {percent(self.calibration_error, 8)} off (expected error, 15 bins)")
        lines += [f"without an image: {', '.join(self.absent)}"] if self.absent else []
        return "\n".join(lines)
