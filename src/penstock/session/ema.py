"""The exponential moving average of a model's weights."""

from __future__ import annotations

import copy

import torch
from torch import nn


class EMA:
    """A second model whose weights follow the first: `average += (1 - decay) * (weights - average)` after every step.

    Early on the decay is smaller, `(1 + step) / (10 + step)`, as in TensorFlow's ExponentialMovingAverage. Buffers
    (running statistics) are copied.

    Args:
        averaged: what `copy` gave of the model.
        model: that is trained.
        decay: of older weights.

    Attributes:
        model: the averaged model, in evaluation mode.
    """

    def __init__(self, averaged: nn.Module, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.model = averaged
        self._averages: list[torch.Tensor] = list(averaged.parameters())
        self._weights: list[torch.Tensor] = list(model.parameters())

    @classmethod
    def copy(cls, model: nn.Module) -> nn.Module:
        """A model of the same values, to be averaged: in evaluation mode, without gradients."""
        return copy.deepcopy(model).eval().requires_grad_(requires_grad=False)

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Follow the model after an update, before which `step` steps were finished."""
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self._averages, self._weights, 1 - decay)
        mine, theirs = list(self.model.buffers()), list(model.buffers())
        if mine:
            torch._foreach_copy_(mine, theirs)
