"""Optimizers and learning-rate schedules, as values; a schedule is a pure function of the step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class OptimizerSpec:
    """How weights are updated.

    Attributes:
        name: "sgd" (with momentum) or "adamw".
        learning_rate: the peak, before the schedule.
        momentum: SGD's.
        weight_decay: not applied to biases and to the parameters of normalisation layers.
        schedule: "poly" is (1 - progress)**power, "cosine" half a cosine, "constant" 1.
        power: of "poly"; DeepLab's 0.9.
        warmup: steps over which the rate grows linearly from nearly 0.
    """

    name: Literal["sgd", "adamw"] = "sgd"
    learning_rate: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 1e-4
    schedule: Literal["poly", "cosine", "constant"] = "poly"
    power: float = 0.9
    warmup: int = 0

    def rate(self, step: int, total: int) -> float:
        """The learning rate of the update that follows `step` finished steps out of `total`."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / (self.warmup + 1)
        progress = min(1.0, (step - self.warmup) / max(1, total - self.warmup))
        factor: float = {
            "poly": (1 - progress) ** self.power,
            "cosine": (1 + math.cos(math.pi * progress)) / 2,
            "constant": 1.0,
        }[self.schedule]
        return self.learning_rate * factor


def make_optimizer(spec: OptimizerSpec, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer over a model's trainable parameters, in two groups: with weight decay and without.

    Vectors and scalars are biases and normalisation parameters; they are never decayed.
    """
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in trainable if p.ndim > 1], "weight_decay": spec.weight_decay},
        {"params": [p for p in trainable if p.ndim <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if spec.name == "adamw":
        return torch.optim.AdamW(groups, lr=spec.learning_rate)
    return torch.optim.SGD(groups, lr=spec.learning_rate, momentum=spec.momentum)
