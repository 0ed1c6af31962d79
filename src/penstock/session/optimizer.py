"""Optimizers and learning-rate schedules, as values; a schedule is a pure function of the step."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch

from penstock.session.muon import Muon

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class OptimizerSpec:
    """How weights are updated.

    Attributes:
        name: "sgd" (with momentum), "adamw", "rmsprop" (with momentum), or "muon" for the filters of the backbone, with
            SGD for all else.
        learning_rate: the peak, before the schedule.
        momentum: of SGD, RMSprop, and of Muon's filters.
        rest_momentum: of "muon": SGD's for all that is no filter.
        weight_decay: not applied to biases and the parameters of normalisation layers, unless `decay_biases`, nor to
            what a model's own `no_weight_decay` names. With "muon" what multiplies the learning rate does not multiply
            it.
        decay_biases: whether these decay too.
        unit_filters: of "muon": whether filters are kept at a root mean square norm of 1, in place of weight decay. For
            networks where a norm follows every convolution.
        schedule: "poly" is (1 - progress)**power, "cosine" half a cosine, "constant" 1, "step" a factor of `decay`
            every `decay_steps`, "multistep" one at every milestone, "exponential" the same as "step", but smooth.
        power: of "poly"; DeepLab's 0.9.
        decay: the factor of "step", "multistep" and "exponential".
        decay_steps: of "step" and "exponential".
        milestones: of "multistep", ascending.
        floor: the schedule ends at this share of the peak, and never goes below it.
        warmup: steps before the schedule begins.
        warmup_share: 0 grows linearly from nearly 0 to the peak; else the rate stays at this share of it (DeepLab's
            slow start).
        clip: the norm that the gradient of a step is cut to; 0 leaves it.
        bias_rate: what multiplies the learning rate of the biases of convolutions and linear layers (DeepLab: 2).
        norm_bias_rate: what multiplies that of the biases of normalisation layers (airbench: 64).
        head_rate: what multiplies the learning rate of the head (DeepLab: 10 for new classes).
        head: what that is: "all" that is not the backbone, or the "logits" of masks alone.
    """

    name: Literal["sgd", "adamw", "rmsprop", "muon"] = "sgd"
    learning_rate: float = 0.01
    momentum: float = 0.9
    rest_momentum: float = 0.9
    weight_decay: float = 1e-4
    decay_biases: bool = False
    unit_filters: bool = False
    schedule: Literal["poly", "cosine", "constant", "step", "multistep", "exponential"] = "poly"
    power: float = 0.9
    decay: float = 0.1
    decay_steps: int = 10_000
    milestones: tuple[int, ...] = ()
    floor: float = 0.0
    warmup: int = 0
    warmup_share: float = 0.0
    clip: float = 0.0
    bias_rate: float = 1.0
    norm_bias_rate: float = 1.0
    head_rate: float = 1.0
    head: Literal["all", "logits"] = "all"

    @property
    def stretches(self) -> bool:
        """Whether the schedule depends on the number of steps in all."""
        return self.schedule in {"poly", "cosine"}

    def rate(self, step: int, total: int) -> float:
        """The learning rate of the update that follows `step` finished steps out of `total`."""
        if step < self.warmup:
            return self.learning_rate * (self.warmup_share or (step + 1) / (self.warmup + 1))
        return self.learning_rate * max(self.floor, self._factor(step - self.warmup, max(1, total - self.warmup)))

    def _factor(self, step: int, total: int) -> float:
        progress = min(1.0, step / total)
        match self.schedule:
            case "poly":
                return float(self.floor + (1 - self.floor) * (1 - progress) ** self.power)
            case "cosine":
                return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * progress)) / 2
            case "constant":
                return 1.0
            case "step":
                return float(self.decay ** (step // self.decay_steps))
            case "multistep":
                return float(self.decay ** bisect.bisect_right(self.milestones, step))
            case "exponential":
                return float(self.decay ** (step / self.decay_steps))


def make_optimizer(spec: OptimizerSpec, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer over a model's trainable parameters, in groups that share weight decay and learning rate.

    Vectors and scalars are biases and normalisation parameters. Each group's `share` multiplies the learning rate.
    """
    spared, shifts = _spared(model), _shifts(model)
    groups: dict[tuple[float, float, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            decays = (parameter.ndim > 1 or spec.decay_biases) and name not in spared
            decay = spec.weight_decay if decays else 0.0
            filters = spec.name == "muon" and parameter.ndim > 1 and in_backbone(name)
            groups.setdefault((decay, _share(spec, name, shifts), filters), []).append(parameter)
    listed: list[dict[str, Any]] = [
        {"params": parameters, "weight_decay": decay, "share": share, **(_of_filters(spec) if filters else {})}
        for (decay, share, filters), parameters in groups.items()
    ]
    if spec.name == "muon":
        return Muon(listed, lr=spec.learning_rate, momentum=spec.rest_momentum)
    if spec.name == "adamw":
        on_cpu = all(parameter.device.type == "cpu" for parameter in model.parameters())
        return torch.optim.AdamW(listed, lr=spec.learning_rate, fused=on_cpu or None)  # a third of a loop's time
    if spec.name == "rmsprop":
        return torch.optim.RMSprop(listed, lr=spec.learning_rate, alpha=0.9, momentum=spec.momentum)
    return torch.optim.SGD(listed, lr=spec.learning_rate, momentum=spec.momentum)


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


def _share(spec: OptimizerSpec, name: str, shifts: set[str]) -> float:
    """What multiplies the learning rate of a parameter."""
    bias = spec.norm_bias_rate if name in shifts else spec.bias_rate
    in_head = gives_logits(name) if spec.head == "logits" else not in_backbone(name)
    head = spec.head_rate if in_head else 1.0
    return head * (bias if _is_bias(name) else 1.0)
