"""How large a model is, and what a prediction costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


@dataclass(frozen=True, slots=True)
class Cost:
    """Parameters of a model, and floating-point operations of one pass over some inputs.

    Attributes:
        parameters: how many numbers are learnt.
        operations: of convolutions and matrix products, a multiplication and an addition counted as two.
    """

    parameters: int
    operations: int

    def __str__(self) -> str:
        return f"{self.parameters:,} parameters, {self.operations / 1e9:,.2f} GFLOPs"


@torch.inference_mode()
def cost_of(model: nn.Module, inputs: Any) -> Cost:
    """The cost of a model in evaluation mode."""
    counter = FlopCounterMode(display=False)
    with counter:
        model(inputs)
    return Cost(sum(parameter.numel() for parameter in model.parameters()), counter.get_total_flops())
