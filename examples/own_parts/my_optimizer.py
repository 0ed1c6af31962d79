"""An optimizer of one's own: `penstock train DATA --optimizer examples/own_parts/my_optimizer.py:Lion`."""

import torch


class Lion(torch.optim.Optimizer):
    """Lion (Chen et al. 2023, arXiv:2302.06675)."""

    def __init__(self, params, lr=1e-4, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "betas": (0.9, 0.99)})

    @torch.no_grad()
    def step(self, closure=None):
        """Move every weight by the sign of its momentum."""
        for group in self.param_groups:
            first, second = group["betas"]
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if not state:
                    state["momentum"] = torch.zeros_like(weight)
                momentum = state["momentum"]
                update = momentum.lerp(weight.grad, 1 - first).sign_()
                weight.mul_(1 - group["lr"] * group["weight_decay"]).sub_(update, alpha=group["lr"])
                momentum.lerp_(weight.grad, 1 - second)
