"""Optimizers: parameter groups, and what each is made with."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from penstock import custom
from penstock.errors import RecipeError
from penstock.session.muon import MuonOptimizer
from penstock.settings import optimizer as settings
from penstock.settings.optimizer import AnyOptimizer

_SETTING = "optimizer.name"


def make_optimizer(spec: AnyOptimizer, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer over a model's trainable parameters, in groups that share weight decay and learning rate.

    Vectors and scalars are biases and normalisation parameters. Each group's `lr_mult` multiplies the learning rate.
    """
    spared, shifts = _spared(model), _shifts(model)
    of_filters = _of_filters(spec) if isinstance(spec, settings.Muon) else {}
    groups: dict[tuple[float, float, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            decays = (parameter.ndim > 1 or spec.decay_biases) and name not in spared
            decay = spec.weight_decay if decays else 0.0
            filters = bool(of_filters) and parameter.ndim > 1 and in_backbone(name)
            groups.setdefault((decay, _lr_mult(spec, name, shifts), filters), []).append(parameter)
    listed: list[dict[str, Any]] = [
        {"params": parameters, "weight_decay": decay, "lr_mult": lr_mult, **(of_filters if filters else {})}
        for (decay, lr_mult, filters), parameters in groups.items()
    ]
    match spec:
        case settings.SGD():
            return torch.optim.SGD(listed, lr=spec.lr, momentum=spec.momentum)
        case settings.AdamW():
            on_cpu = all(parameter.device.type == "cpu" for parameter in model.parameters())
            return torch.optim.AdamW(listed, lr=spec.lr, fused=on_cpu or None)  # a third of a loop's time
        case settings.RMSprop():
            return torch.optim.RMSprop(listed, lr=spec.lr, alpha=0.9, momentum=spec.momentum)
        case settings.Muon():
            return MuonOptimizer(listed, lr=spec.lr, momentum=spec.sgd_momentum)
        case settings.CustomOptimizer():
            return _custom(spec, listed)


def check_custom_optimizer(spec: AnyOptimizer) -> None:
    """Raise a RecipeError unless a custom optimizer takes what it is given; a built-in one does."""
    if isinstance(spec, settings.CustomOptimizer) and (place := custom.import_path_of(spec.name)):
        custom.arguments_for(custom.load(place, _SETTING), place, _SETTING, _offered(spec, []))


def _offered(spec: settings.CustomOptimizer, groups: list[dict[str, Any]]) -> dict[str, Any]:
    return {"params": groups, "lr": spec.lr, "momentum": spec.momentum, "weight_decay": spec.weight_decay}


def _custom(spec: settings.CustomOptimizer, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    """A custom optimizer, called with the groups, and with lr, momentum and weight decay if it takes them."""
    place = custom.import_path_of(spec.name)
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


def _of_filters(spec: settings.Muon) -> dict[str, float | bool]:
    return {"orthogonal": True, "unit": spec.unit_filters, "momentum": spec.momentum}


def gives_logits(name: str) -> bool:
    """Whether a parameter is of the layer that gives the logits of masks, by its name."""
    return name.startswith(("logits.", "segmentation_head."))


def _lr_mult(spec: AnyOptimizer, name: str, shifts: set[str]) -> float:
    """What multiplies the learning rate of a parameter."""
    bias = spec.norm_bias_lr_mult if name in shifts else spec.bias_lr_mult
    in_head = gives_logits(name) if spec.head == "logits" else not in_backbone(name)
    head = spec.head_lr_mult if in_head else 1.0
    return head * (bias if _is_bias(name) else 1.0)
