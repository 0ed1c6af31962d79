"""The confusion matrix and the segmentation scores that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from penstock.errors import LabelError
from penstock.metrics.means import mean_of_present
from penstock.metrics.segments import SegmentScores
from penstock.metrics.tables import percent, width_of


class Confusion:
    """Pixel counts by true class (rows) and predicted class (columns), int64, on the CPU.

    Attributes:
        matrix: int64 of shape (classes, classes).
    """

    def __init__(self, classes: int, ignore: int) -> None:
        self.classes = classes
        self.ignore = ignore
        self.matrix = torch.zeros((classes, classes), dtype=torch.int64)

    def update(self, predicted: torch.Tensor, target: torch.Tensor, origins: Sequence[str]) -> None:
        """Count some samples; pixels with the ignored label do not count.

        Args:
            predicted: class ids of shape (samples, height, width).
            target: class ids of the same shape.
            origins: one name per sample, for errors.

        Raises:
            LabelError: a label is neither a class nor the ignored one; nothing has been counted.
        """
        target = target.long()
        valid = target != self.ignore
        outside = valid & ((target < 0) | (target >= self.classes))
        if bool(outside.any()):
            raise self._outside(target, outside, origins)
        pairs = target[valid] * self.classes + predicted.long()[valid]
        counts = torch.bincount(pairs, minlength=self.classes**2)
        self.matrix += counts.reshape(self.classes, self.classes).to("cpu")

    def scores(self, names: Sequence[str]) -> SegmentationScores:
        """The scores of what has been counted."""
        return SegmentationScores(tuple(names), tuple(tuple(row) for row in self.matrix.tolist()))

    def _outside(self, target: torch.Tensor, outside: torch.Tensor, origins: Sequence[str]) -> LabelError:
        sample = int(outside.flatten(1).any(dim=1).nonzero()[0])
        ids = sorted(set(target[sample][outside[sample]].tolist()))
        return LabelError(
            origins[sample],
            expected=f"class ids from 0 to {self.classes - 1}, or the ignore label {self.ignore}",
            found=f"id {', '.join(map(str, ids[:5]))}",
            remedy="Check the number of classes and the ignore label in dataset.json",
        )


@dataclass(frozen=True)
class SegmentationScores:
    """Intersection over union, recall, precision and F-score per class, the mean of the first, and pixel accuracy; all
    in [0, 1].

    A class that occurs neither in the labels nor in the predictions has no score: it is None, named in `absent`, and
    left out of the mean. A class that is predicted but never true scores 0, in its row and in the mean alike.

    Attributes:
        names: the classes.
        matrix: pixel counts, `matrix[true][predicted]`.
        segments: boundary IoU and panoptic quality, where they were asked for.
    """

    names: tuple[str, ...]
    matrix: tuple[tuple[int, ...], ...]
    segments: SegmentScores | None = None

    @property
    def true(self) -> list[int]:
        """Pixels of every class in the labels."""
        return [sum(row) for row in self.matrix]

    @property
    def predicted(self) -> list[int]:
        """Pixels of every class in the predictions."""
        return [sum(column) for column in zip(*self.matrix, strict=True)]

    @property
    def iou(self) -> list[float | None]:
        """Intersection over union of every class."""
        unions = [t + p - self.matrix[c][c] for c, (t, p) in enumerate(zip(self.true, self.predicted, strict=True))]
        return [self.matrix[c][c] / union if union else None for c, union in enumerate(unions)]

    @property
    def recall(self) -> list[float | None]:
        """The fraction of every class's pixels that were found."""
        return [self.matrix[c][c] / true if true else None for c, true in enumerate(self.true)]

    @property
    def precision(self) -> list[float | None]:
        """The fraction of what was taken for a class that is it."""
        return [self.matrix[c][c] / found if found else None for c, found in enumerate(self.predicted)]

    @property
    def f_score(self) -> list[float | None]:
        """The harmonic mean of recall and precision of every class, which is Dice's coefficient of all its pixels."""
        return [None if iou is None else 2 * iou / (1 + iou) for iou in self.iou]

    @property
    def mean_iou(self) -> float:
        """The mean over the classes that occur; 0 where none does."""
        return mean_of_present(self.iou)

    @property
    def pixel_accuracy(self) -> float:
        """The fraction of all labelled pixels that were predicted right."""
        total = sum(self.true)
        return sum(self.matrix[c][c] for c in range(len(self.names))) / total if total else 0.0

    @property
    def absent(self) -> list[str]:
        """The classes that occur neither in the labels nor in the predictions."""
        return [name for name, value in zip(self.names, self.iou, strict=True) if value is None]

    def summary(self) -> dict[str, float]:
        """The scores in one line."""
        return {"mean_iou": self.mean_iou, "pixel_accuracy": self.pixel_accuracy}

    def as_json(self) -> dict[str, Any]:
        """Everything, for a file."""
        columns = self.names, self.iou, self.recall, self.precision, self.f_score, self.true
        keys = "name", "iou", "recall", "precision", "f_score", "pixels"
        return {
            **self.summary(),
            "absent": self.absent,
            "classes": [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)],
            "confusion": [list(row) for row in self.matrix],
            **(self.segments.as_json(self.names) if self.segments else {}),
        }

    def table(self) -> str:
        """A row for each class."""
        width, total = width_of(self.names), sum(self.true) or 1
        lines = [f"{'class':<{width}}  {'IoU':>7}  {'recall':>7}  {'pixels':>14}  {'fraction':>8}"]
        lines += [
            f"{name:<{width}}  {percent(iou)}  {percent(recall)}  {pixels:>14,}  {pixels / total:>8.1%}"
            for name, iou, recall, pixels in zip(self.names, self.iou, self.recall, self.true, strict=True)
        ]
        lines += [f"{'mean IoU':<{width}}  {percent(self.mean_iou)}"]
        lines += [f"{'pixel acc.':<{width}}  {percent(self.pixel_accuracy)}"]
        lines += self.segments.lines(self.names, width) if self.segments else []
        if self.absent:
            lines.append(f"neither labelled nor predicted, and not in the mean: {', '.join(self.absent)}")
        return "\n".join(lines)
