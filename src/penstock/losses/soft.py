"""Cross-entropy against probabilities instead of labels: mixed pictures have several classes."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class SoftCrossEntropy:
    """Cross-entropy between probabilities, (samples, classes); rows of zeros do not count.

    Attributes:
        weights: one per class, or none.
        smoothing: share of the target that is spread evenly over all classes, from 0 to below 1.
        factor: what the loss weighs.
    """

    weights: tuple[float, ...] = ()
    smoothing: float = 0.0
    factor: float = 1.0

    def count(self, target: torch.Tensor) -> torch.Tensor:
        """Samples that count, or the sum of their classes' weights: a float32 scalar."""
        return (target * self._weights(target)).sum()

    def sum(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The summed cross-entropies: a float32 scalar."""
        there = target.sum(dim=1, keepdim=True)
        smoothed = (1 - self.smoothing) * target + self.smoothing * there / target.shape[1]
        return -self.factor * (smoothed * self._weights(target) * logits.float().log_softmax(dim=1)).sum()

    def _weights(self, target: torch.Tensor) -> torch.Tensor:
        return torch.tensor(self.weights or (1.0,), device=target.device)
