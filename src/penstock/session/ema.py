"""The exponential moving average of a model's weights."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import nn


class Average:
    """A second model whose weights follow the first: `average += (1 - decay) * (weights - average)` after every step.

    Early on the decay is smaller, `(1 + step) / (10 + step)`, as in TensorFlow's ExponentialMovingAverage. Buffers
    (running statistics) are copied.

    Attributes:
        model: the averaged model, in evaluation mode.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).eval().requires_grad_(requires_grad=False)

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Follow the model after an update, before which `step` steps were finished."""
        decay = min(self.decay, (1 + step) / (10 + step))
        averages: list[torch.Tensor] = list(self.model.parameters())
        weights: list[torch.Tensor] = list(model.parameters())
        torch._foreach_lerp_(averages, weights, 1 - decay)
        for mine, theirs in zip(self.model.buffers(), model.buffers(), strict=True):
            mine.copy_(theirs)
