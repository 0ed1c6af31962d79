"""Optimizers and learning-rate schedules, as values; a schedule is a pure function of the step."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import torch
from msgspec import Meta

from penstock import custom
from penstock.bounds import Count, Factor, Fraction, Switch, choice
from penstock.errors import RecipeError
from penstock.session.muon import Muon

if TYPE_CHECKING:
    from torch import nn

_SETTING = "optimizer.name"


@dataclass(frozen=True)
class OptimizerSpec:
    """How weights are updated.

    Attributes:
        name: Optimizer: "sgd" (with momentum), "adamw", "rmsprop" (with momentum), "muon" (for the convolution weights
            of the backbone, with SGD for all other parameters), or FILE.py:NAME of a torch.optim.Optimizer.
        lr: Peak learning rate, before the schedule.
        momentum: Momentum of SGD, RMSprop or Muon.
        sgd_momentum: Momentum of SGD for the parameters that Muon does not update.
        weight_decay: Weight decay. Biases, the parameters of normalisation layers and what a model lists in
            `no_weight_decay` are exempt, unless `decay_biases` is set. Learning rate multipliers do not change the
            weight decay of Muon.
        decay_biases: Apply weight decay to biases and normalisation layers too.
        unit_filters: Before each step, rescale the weight of each convolution that Muon updates so that its norm is the
            square root of its output channels, in place of weight decay. For networks in which a normalisation layer
            follows every convolution.
        schedule: Learning rate schedule, as a factor of the peak: "poly" is (1 - progress)**power, "cosine" half a
            cosine, "constant" 1, "step" multiplies by `gamma` every `step_size`, "multistep" at every milestone,
            "exponential" is gamma**(step / step_size).
        power: Power of "poly"; DeepLab uses 0.9.
        gamma: Factor of "step", "multistep" and "exponential".
        step_size: Steps between two decays of "step" and "exponential".
        milestones: Steps at which "multistep" decays, in ascending order.
        min_lr_ratio: Lowest learning rate, as a fraction of the peak.
        warmup_steps: Steps before the schedule begins.
        warmup_start_ratio: 0 is a linear warm-up, from nearly 0 to `lr`. A value above 0 is a constant warm-up, at this
            fraction of `lr`, as in DeepLab.
        grad_clip: Norm to which the gradient is clipped; 0 does not clip.
        bias_lr_mult: Learning rate multiplier of the biases of convolutions and linear layers; DeepLab uses 2.
        norm_bias_lr_mult: Learning rate multiplier of the biases of normalisation layers; 64 in airbench, Jordan's
            speed run on CIFAR-10 (arXiv:2404.00498).
        head_lr_mult: Learning rate multiplier of the head; DeepLab uses 10 for new classes.
        head: Parameters that `head_lr_mult` applies to: "all" (everything outside the backbone) or "logits" (the last
            layer of a segmentation network).
    """

    name: Annotated[str, choice("sgd", "adamw", "rmsprop", "muon")] = "sgd"
    lr: Annotated[float, Meta(gt=0)] = 0.01
    momentum: Fraction = 0.9
    sgd_momentum: Fraction = 0.9
    weight_decay: Annotated[float, Meta(ge=0, le=100)] = 1e-4
    decay_biases: bool = False
    unit_filters: bool = False
    schedule: Literal["poly", "cosine", "constant", "step", "multistep", "exponential"] = "poly"
    power: Annotated[float, Meta(ge=0, le=100)] = 0.9
    gamma: Fraction = 0.1
    step_size: Count = 10_000
    milestones: tuple[int, ...] = ()
    min_lr_ratio: Fraction = 0.0
    warmup_steps: Switch = 0
    warmup_start_ratio: Fraction = 0.0
    grad_clip: Annotated[float, Meta(ge=0, le=1e9)] = 0.0
    bias_lr_mult: Factor = 1.0
    norm_bias_lr_mult: Factor = 1.0
    head_lr_mult: Factor = 1.0
    head: Literal["all", "logits"] = "all"

    @property
    def stretches(self) -> bool:
        """Whether the schedule depends on the number of steps in all."""
        return self.schedule in {"poly", "cosine"}

    def rate(self, step: int, total: int) -> float:
        """The learning rate of the update that follows `step` finished steps out of `total`."""
        if step < self.warmup_steps:
            return self.lr * (self.warmup_start_ratio or (step + 1) / (self.warmup_steps + 1))
        return self.lr * max(
            self.min_lr_ratio, self._factor(step - self.warmup_steps, max(1, total - self.warmup_steps))
        )

    def _factor(self, step: int, total: int) -> float:
        progress = min(1.0, step / total)
        match self.schedule:
            case "poly":
                return float(self.min_lr_ratio + (1 - self.min_lr_ratio) * (1 - progress) ** self.power)
            case "cosine":
                return self.min_lr_ratio + (1 - self.min_lr_ratio) * (1 + math.cos(math.pi * progress)) / 2
            case "constant":
                return 1.0
            case "step":
                return float(self.gamma ** (step // self.step_size))
            case "multistep":
                return float(self.gamma ** bisect.bisect_right(self.milestones, step))
            case "exponential":
                return float(self.gamma ** (step / self.step_size))


def make_optimizer(spec: OptimizerSpec, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer over a model's trainable parameters, in groups that share weight decay and learning rate.

    Vectors and scalars are biases and normalisation parameters. Each group's `lr_mult` multiplies the learning rate.
    """
    spared, shifts = _spared(model), _shifts(model)
    groups: dict[tuple[float, float, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            decays = (parameter.ndim > 1 or spec.decay_biases) and name not in spared
            decay = spec.weight_decay if decays else 0.0
            filters = spec.name == "muon" and parameter.ndim > 1 and in_backbone(name)
            groups.setdefault((decay, _lr_mult(spec, name, shifts), filters), []).append(parameter)
    listed: list[dict[str, Any]] = [
        {"params": parameters, "weight_decay": decay, "lr_mult": lr_mult, **(_of_filters(spec) if filters else {})}
        for (decay, lr_mult, filters), parameters in groups.items()
    ]
    if spec.name == "muon":
        return Muon(listed, lr=spec.lr, momentum=spec.sgd_momentum)
    if spec.name == "adamw":
        on_cpu = all(parameter.device.type == "cpu" for parameter in model.parameters())
        return torch.optim.AdamW(listed, lr=spec.lr, fused=on_cpu or None)  # a third of a loop's time
    if spec.name == "rmsprop":
        return torch.optim.RMSprop(listed, lr=spec.lr, alpha=0.9, momentum=spec.momentum)
    if spec.name == "sgd":
        return torch.optim.SGD(listed, lr=spec.lr, momentum=spec.momentum)
    return _own(spec, listed)


def check_own_optimizer(spec: OptimizerSpec) -> None:
    """Whether an optimizer of somebody's own takes what it is given; a built-in one does.

    Raises:
        RecipeError: it does not.
    """
    if place := custom.place_of(spec.name):
        custom.arguments_for(custom.load(place, _SETTING), place, _SETTING, _offered(spec, []))


def _offered(spec: OptimizerSpec, groups: list[dict[str, Any]]) -> dict[str, Any]:
    return {"params": groups, "lr": spec.lr, "momentum": spec.momentum, "weight_decay": spec.weight_decay}


def _own(spec: OptimizerSpec, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    """An optimizer of somebody's own: called with parameter groups, and the learning rate, momentum and weight decay
    that it has parameters for.
    """
    place = custom.place_of(spec.name)
    assert place is not None  # noqa: S101 - the recipe was checked
    optimizer = custom.call(custom.load(place, _SETTING), place, _SETTING, _offered(spec, groups))
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise RecipeError(
            f"{_SETTING} = {place}",
            expected="a torch.optim.Optimizer",
            found=type(optimizer).__name__,
            remedy="Name a class of optimizers, or a function that gives one",
        )
    return optimizer


def in_backbone(name: str) -> bool:
    """Whether a parameter is the backbone's, by its name: of detectors it lies deeper."""
    return name.startswith(("encoder.", "network.backbone.encoder."))


def _spared(model: nn.Module) -> set[str]:
    """What a model, or a backbone in it, says must not decay: positions of a transformer, for example."""
    found: set[str] = set()
    for place, module in model.named_modules():
        if names := getattr(module, "no_weight_decay", None):
            found |= {f"{place}.{name}" if place else name for name in names()}
    return found


def _shifts(model: nn.Module) -> set[str]:
    """The biases of normalisation layers: those without a matrix or filters beside them."""
    parameters = dict(model.named_parameters())
    biases = {name: parameters.get(f"{name.removesuffix('.bias')}.weight") for name in parameters if _is_bias(name)}
    return {name for name, weight in biases.items() if weight is None or weight.ndim == 1}


def _is_bias(name: str) -> bool:
    return name.endswith(".bias")


def _of_filters(spec: OptimizerSpec) -> dict[str, float | bool]:
    return {"orthogonal": True, "unit": spec.unit_filters, "momentum": spec.momentum}


def gives_logits(name: str) -> bool:
    """Whether a parameter is of the layer that gives the logits of masks, by its name."""
    return name.startswith(("logits.", "segmentation_head."))


def _lr_mult(spec: OptimizerSpec, name: str, shifts: set[str]) -> float:
    """What multiplies the learning rate of a parameter."""
    bias = spec.norm_bias_lr_mult if name in shifts else spec.bias_lr_mult
    in_head = gives_logits(name) if spec.head == "logits" else not in_backbone(name)
    head = spec.head_lr_mult if in_head else 1.0
    return head * (bias if _is_bias(name) else 1.0)
