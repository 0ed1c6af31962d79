from __future__ import annotations

import math

import pytest
import torch
from support.training import recipe
from torch import nn

from penstock.config import apply
from penstock.session import Hook
from penstock.training import train

STEPS, PEAK = 4, 0.02


class Updates(Hook):
    """Gives the gradients of a training to an optimizer of PyTorch, over weights of its own."""

    def __init__(self, make, share, rates, clip, decays):
        self.make, self.share, self.rates, self.clip, self.decays = make, share, rates, clip, decays

    def on_start(self, session):
        self.own = {name: nn.Parameter(p.detach().clone()) for name, p in session.model.named_parameters()}
        self.begun = {name: p.detach().clone() for name, p in self.own.items()}
        norms = {f"{name}.bias" for name, module in session.model.named_modules() if isinstance(module, nn.BatchNorm2d)}
        groups = [
            {
                "params": [p],
                "weight_decay": 0.1 if p.ndim > 1 or self.decays else 0.0,
                "lr_mult": self.share(name, name in norms),
                "filters": name.startswith("encoder.") and p.ndim == 4,
            }
            for name, p in self.own.items()
        ]
        self.optimizer = self.make(groups)

    def after_backward(self, session):
        for name, parameter in session.model.named_parameters():
            self.own[name].grad = parameter.grad.clone()
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.own.values(), self.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = PEAK * self.rates[session.step] * group["lr_mult"]
        self.optimizer.step()

    def on_end(self, session):
        self.theirs = {name: p.detach() for name, p in session.model.named_parameters()}


def of_bias_and_head(name, of_norm):
    own = (3 if of_norm else 2) if name.endswith(".bias") else 1
    return own * (1 if name.startswith("encoder.") else 10)


class OwnMuon(torch.optim.Optimizer):
    """Filters as Jordan 2024 moves them (SVD by five Newton-Schulz iterations), all else as SGD with Nesterov's momentum;
    decay is decoupled, and unit filters have a root mean square norm of 1 before every step in its place.
    """

    def __init__(self, groups, momentum, rest, *, unit=False):
        super().__init__(groups, {"lr": 1.0, "weight_decay": 0.0})
        self.momentum, self.rest, self.unit, self.speed = momentum, rest, unit, {}

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (p,) = group["params"]
            momentum = self.momentum if group["filters"] else self.rest
            self.speed[p] = momentum * self.speed.get(p, 0) + p.grad
            move = p.grad + momentum * self.speed[p]
            if group["filters"]:
                move = self.orthogonal(move.reshape(len(p), -1)).reshape(p.shape)
            if group["filters"] and self.unit:
                p /= p.flatten(1).square().sum(dim=1).mean().sqrt()
            else:
                p *= 1 - group["lr"] / group["lr_mult"] * group["weight_decay"]
            p -= group["lr"] * move

    @staticmethod
    def orthogonal(matrix):
        rows, columns = matrix.shape
        left, values, right = torch.linalg.svd(matrix.double(), full_matrices=False)
        values = values / (values.norm() + 1e-7)
        for _ in range(5):
            values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
        return (left @ values.diag() @ right * max(1, rows / columns) ** 0.5).float()


UPDATES = {
    "muon, biases decay": (
        ["name=muon", "momentum=0.6", "sgd_momentum=0.8", "bias_lr_mult=3", "decay_biases=true"],
        lambda groups: OwnMuon(groups, 0.6, 0.8),
        lambda name, of_norm: 3 if name.endswith(".bias") and not of_norm else 1,
        (1, 0.75**0.9, 0.5**0.9, 0.25**0.9), 0.0,
    ),
    "muon, unit filters": (
        ["name=muon", "unit_filters=true", "schedule=constant"],
        lambda groups: OwnMuon(groups, 0.9, 0.9, unit=True), lambda *_: 1, (1, 1, 1, 1), 0.0,
    ),
    "sgd, biases decay": (
        ["decay_biases=true", "schedule=constant"],
        lambda groups: torch.optim.SGD(groups, 1.0, momentum=0.9), lambda *_: 1, (1, 1, 1, 1), 0.0,
    ),
    "sgd, step, floor": (
        ["momentum=0.5", "bias_lr_mult=2", "norm_bias_lr_mult=3", "head_lr_mult=10", "schedule=step", "schedule.gamma=0.5", "schedule.step_size=1", "schedule.min_lr_ratio=0.3"],
        lambda groups: torch.optim.SGD(groups, 1.0, momentum=0.5), of_bias_and_head, (1, 0.5, 0.3, 0.3), 0.5,
    ),
    "sgd, multistep, slow start": (
        ["schedule=multistep", "schedule.milestones=[1]", "schedule.gamma=0.2", "warmup_steps=2", "warmup_start_ratio=0.25"],
        lambda groups: torch.optim.SGD(groups, 1.0, momentum=0.9), lambda *_: 1, (0.25, 0.25, 1, 0.2), 0.0,
    ),
    "sgd, poly, warm-up": (
        ["warmup_steps=1", "momentum=0.0"],
        lambda groups: torch.optim.SGD(groups, 1.0), lambda *_: 1, (0.5, 1, (2 / 3) ** 0.9, (1 / 3) ** 0.9), 0.0,
    ),
    "adamw, poly": (
        ["name=adamw", "schedule=poly", "schedule.power=2.0"],
        lambda groups: torch.optim.AdamW(groups, 1.0), lambda *_: 1, (1, 0.5625, 0.25, 0.0625), 0.0,
    ),
    "rmsprop, cosine": (
        ["name=rmsprop", "momentum=0.5", "schedule=cosine", "schedule.min_lr_ratio=0.1"],
        lambda groups: torch.optim.RMSprop(groups, 1.0, alpha=0.9, momentum=0.5), lambda *_: 1,
        tuple(0.1 + 0.9 * (1 + math.cos(math.pi * step / 4)) / 2 for step in range(4)), 0.0,
    ),
    "logits alone, exponential": (
        ["head=logits", "head_lr_mult=10", "schedule=exponential", "schedule.gamma=0.5", "schedule.step_size=2"],
        lambda groups: torch.optim.SGD(groups, 1.0, momentum=0.9), lambda name, _: 10 if name.startswith("logits.") else 1,
        (1, 0.5**0.5, 0.5, 0.5**1.5), 0.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UPDATES)
def test_a_training_updates_as_pytorchs_optimizers_do(packed, tmp_path, case):
    settings, make, share, rates, clip = UPDATES[case]
    model = "deeplab:test_resnet" if "logits" in case else "unet:test_resnet"
    more = ["optimizer.weight_decay=0.1", f"optimizer.lr={PEAK}", f"train.grad_clip={clip}"]
    more += ["model.deeplab.channels=8"] if "logits" in case else []
    chosen = apply(
        recipe(packed.folder, model, steps=STEPS, evaluate_every=9, ema_decay=0.0),
        [*more, *(f"optimizer.{each}" for each in settings)],
    )
    hook = Updates(make, share, rates, clip, decays="biases decay" in case)
    train(chosen, tmp_path, hooks=[hook])

    assert any(not torch.equal(hook.begun[name], p) for name, p in hook.theirs.items())
    for name, parameter in hook.theirs.items():
        torch.testing.assert_close(
            parameter, hook.own[name].detach(), rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}"
        )
