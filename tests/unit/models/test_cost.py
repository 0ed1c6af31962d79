from __future__ import annotations

import torch
from torch import nn

from penstock.models import cost_of


def test_the_cost_of_a_model_is_counted():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))
    cost = cost_of(model.eval(), torch.zeros(1, 3, 8, 8))

    assert cost.parameters == 4 * 27 + 4 + 5 * 144 + 5
    assert cost.operations == 2 * (36 * 4 * 27 + 5 * 144)
    assert str(cost) == "837 parameters, 0.00 GFLOPs"
