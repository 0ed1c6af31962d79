"""Muon for convolutional networks: the update of a filter bank is made orthogonal."""

from __future__ import annotations

from typing import Any, Final

import torch

_COEFFICIENTS: Final = (3.4445, -4.7750, 2.0315)
_STEPS: Final = 5
_EPSILON: Final = 1e-7


class MuonOptimizer(torch.optim.Optimizer):
    """Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon) for groups whose `orthogonal` is true: filters are
    seen as matrices (out, in * height * width), whose momentum is brought near the closest orthogonal one by five
    Newton-Schulz iterations, and scaled by sqrt(max(1, rows / columns)). All other groups take SGD's step. Momentum is
    Nesterov's in both; weight decay is decoupled, as in AdamW, and a group's `lr_mult` does not
    multiply it. Filters of groups whose `unit` is true do not decay: before every step their root mean square norm is
    brought back to 1 (airbench94_muon), which behind a norm changes nothing but how far an update turns them.

    torch.optim.Muon takes matrices only, and would leave the rest to a second optimizer.
    """

    def __init__(self, groups: list[dict[str, Any]], *, lr: float, momentum: float) -> None:
        rest = {"weight_decay": 0.0, "lr_mult": 1.0, "orthogonal": False, "unit": False}
        super().__init__(groups, {"lr": lr, "momentum": momentum, **rest})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the weights."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)

    def _update(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        gradient, momentum, rate = parameter.grad, group["momentum"], group["lr"]
        assert gradient is not None  # noqa: S101 - the caller looked
        kept = self.state[parameter].setdefault("momentum_buffer", torch.zeros_like(parameter))
        kept.mul_(momentum).add_(gradient)
        update = gradient.add(kept, alpha=momentum)
        if group["orthogonal"]:
            update = orthogonal(update.flatten(1)).view_as(update)
        if group["unit"]:
            parameter.mul_(len(parameter) ** 0.5 / parameter.norm().clamp_min(_EPSILON))
        elif group["lr_mult"]:
            parameter.mul_(1 - rate / group["lr_mult"] * group["weight_decay"])
        parameter.add_(update, alpha=-rate)


def orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """Near U @ V.T of the SVD of a matrix, times sqrt(max(1, rows / columns)); singular values become 0.7 to 1.2."""
    a, b, c = _COEFFICIENTS
    rows, columns = matrix.shape
    x = matrix.float().T if rows > columns else matrix.float()
    x = x / (x.norm() + _EPSILON)
    for _ in range(_STEPS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    found: torch.Tensor = x.T if rows > columns else x
    return found.mul(max(1.0, rows / columns) ** 0.5).to(matrix.dtype)
