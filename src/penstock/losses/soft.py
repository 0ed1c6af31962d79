"""Cross-entropy against probabilities instead of labels: mixed images have several classes, mattes two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch

_WHOLE: Final = 255


@dataclass(frozen=True)
class SoftCrossEntropy:
    """Cross-entropy between probabilities, (samples, classes); rows of zeros do not count.

    Attributes:
        weights: one per class, or none.
        label_smoothing: fraction of the target that is spread evenly over all classes, from 0 to below 1.
        factor: what the loss weighs.
    """

    weights: tuple[float, ...] = ()
    label_smoothing: float = 0.0
    factor: float = 1.0

    def count(self, target: torch.Tensor) -> torch.Tensor:
        """Samples that count, or the sum of their classes' weights: a float32 scalar."""
        return (target * self._weights(target)).sum()

    def sum(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The summed cross-entropies: a float32 scalar."""
        there = target.sum(dim=1, keepdim=True)
        smoothed = (1 - self.label_smoothing) * target + self.label_smoothing * there / target.shape[1]
        return -self.factor * (smoothed * self._weights(target) * logits.float().log_softmax(dim=1)).sum()

    def _weights(self, target: torch.Tensor) -> torch.Tensor:
        return torch.tensor(self.weights or (1.0,), device=target.device)


@dataclass(frozen=True)
class SoftLabels:
    """Cross-entropy of two classes against the second one's alpha, pixel by pixel, over the pixels with a label."""

    def count(self, target: torch.Tensor, ignore: int) -> torch.Tensor:
        """Pixels with a label, int64. Targets are (samples, height, width), alpha in 255ths."""
        return (target != ignore).sum()

    def sum(self, logits: torch.Tensor, target: torch.Tensor, ignore: int) -> torch.Tensor:
        """The summed cross-entropies, in float32, from logits (samples, 2, height, width)."""
        valid = target != ignore
        alpha = torch.where(valid, target, 0).float() / _WHOLE
        background, foreground = logits.float().log_softmax(dim=1).unbind(dim=1)
        return -torch.where(valid, (1 - alpha) * background + alpha * foreground, 0.0).sum()
