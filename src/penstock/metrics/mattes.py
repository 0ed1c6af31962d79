"""How far predicted alpha values are from true ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from penstock.metrics.tables import percent

_WHOLE = 255
_HALF = 127


class Mattes:
    """Errors in 255ths, added up as integers, so that every way of dividing images over ranks gives the same.

    Attributes:
        counts: int64 (5,): pixels, absolute errors, squared errors, and of foreground above a half the pixels in both
            and in either.
    """

    def __init__(self, ignore: int) -> None:
        self.ignore = ignore
        self.counts = torch.zeros(5, dtype=torch.int64)

    def update(self, predicted: torch.Tensor, target: torch.Tensor) -> None:
        """Count some images.

        Args:
            predicted: alpha from 0 to 1, float (samples, height, width).
            target: alpha in 255ths, or the ignored label, of the same shape.
        """
        valid = target != self.ignore
        found, true = (predicted * _WHOLE).round().long()[valid], target.long()[valid]
        off = (found - true).abs()
        both, either = (found > _HALF) & (true > _HALF), (found > _HALF) | (true > _HALF)
        counted = [valid.sum(), off.sum(), off.square().sum(), both.sum(), either.sum()]
        self.counts += torch.stack([each.to("cpu", torch.int64) for each in counted])

    def scores(self) -> MatteScores:
        """The scores of what has been counted."""
        pixels, absolute, squared, both, either = self.counts.tolist()
        return MatteScores(pixels, absolute, squared, both, either)


@dataclass(frozen=True)
class MatteScores:
    """Errors of alpha from 0 to 1, and intersection over union of the foreground above a half.

    Attributes:
        pixels: how many were counted.
        absolute, squared: sums of errors in 255ths, and of their squares.
        both, either: pixels above a half in both, and in either.
    """

    pixels: int
    absolute: int
    squared: int
    both: int
    either: int

    @property
    def mae(self) -> float:
        """The mean absolute error."""
        return self.absolute / (_WHOLE * self.pixels) if self.pixels else 0.0

    @property
    def mse(self) -> float:
        """The mean squared error."""
        return self.squared / (_WHOLE**2 * self.pixels) if self.pixels else 0.0

    @property
    def sad(self) -> float:
        """The sum of absolute differences, in thousands of pixels, as matting papers give it."""
        return self.absolute / _WHOLE / 1000

    @property
    def iou(self) -> float:
        """Intersection over union of the pixels with alpha above a half; 1 if neither matte has any."""
        return self.both / self.either if self.either else 1.0

    def summary(self) -> dict[str, float]:
        """The scores in one line."""
        return {"mae": self.mae, "iou": self.iou}

    def as_json(self) -> dict[str, Any]:
        """Everything, for a file."""
        own = {"mse": self.mse, "sad": self.sad, "pixels": self.pixels}
        return {**self.summary(), **own, "classes": [], "absent": []}

    def table(self) -> str:
        """A line for each error."""
        lines = [f"{'mean absolute error':<22}  {self.mae:.5f}", f"{'mean squared error':<22}  {self.mse:.6f}"]
        lines.append(f"{'sum of differences':<22}  {self.sad:,.3f} thousand pixels of {self.pixels / 1000:,.0f}")
        return "\n".join([*lines, f"{'IoU above a half':<22} {percent(self.iou)}"])
