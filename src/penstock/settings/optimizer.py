"""How weights are updated: one optimizer of several, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import Meta

from penstock.bounds import Factor, Fraction, Switch
from penstock.settings.schedules import AnySchedule, Cosine, Poly


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """How weights are updated: what every optimizer has.

    Attributes:
        name: Optimizer: "sgd" (with momentum), "adamw", "rmsprop" (with momentum), "muon" (for the convolution weights
            of the backbone, with SGD for all other parameters), or FILE.py:NAME of a torch.optim.Optimizer.
        lr: Peak learning rate, before the schedule.
        weight_decay: Weight decay. Biases, the parameters of normalisation layers and what a model lists in
            `no_weight_decay` are exempt, unless `decay_biases` is set. Learning rate multipliers do not change the
            weight decay of Muon.
        decay_biases: Apply weight decay to biases and normalisation layers too.
        schedule: Learning rate schedule.
        warmup_steps: Steps before the schedule begins.
        warmup_start_ratio: 0 is a linear warm-up, from nearly 0 to `lr`. A value above 0 is a constant warm-up, at this
            fraction of `lr`, as in DeepLab.
        bias_lr_mult: Learning rate multiplier of the biases of convolutions and linear layers; DeepLab uses 2.
        norm_bias_lr_mult: Learning rate multiplier of the biases of normalisation layers; 64 in airbench, Jordan's
            speed run on CIFAR-10 (arXiv:2404.00498).
        head_lr_mult: Learning rate multiplier of the head; DeepLab uses 10 for new classes.
        head: Parameters that `head_lr_mult` applies to: "all" (everything outside the backbone) or "logits" (the last
            layer of a segmentation network).
    """

    name: str
    lr: Annotated[float, Meta(gt=0)] = 0.01
    weight_decay: Annotated[float, Meta(ge=0, le=100)] = 1e-4
    decay_biases: bool = False
    schedule: AnySchedule = field(default_factory=Poly)
    warmup_steps: Switch = 0
    warmup_start_ratio: Fraction = 0.0
    bias_lr_mult: Factor = 1.0
    norm_bias_lr_mult: Factor = 1.0
    head_lr_mult: Factor = 1.0
    head: Literal["all", "logits"] = "all"

    def rate(self, step: int, total: int) -> float:
        """The learning rate of the update that follows `step` finished steps out of `total`."""
        if step < self.warmup_steps:
            return self.lr * (self.warmup_start_ratio or (step + 1) / (self.warmup_steps + 1))
        return self.lr * self.schedule.factor(step - self.warmup_steps, max(1, total - self.warmup_steps))


@dataclass(frozen=True, kw_only=True)
class WithMomentum(Optimizer):
    """An optimizer with momentum.

    Attributes:
        momentum: Momentum. A custom optimizer is given it if it has a parameter of that name.
    """

    momentum: Fraction = 0.9


@dataclass(frozen=True, kw_only=True)
class SGD(WithMomentum):
    """Stochastic gradient descent."""

    name: Literal["sgd"] = "sgd"


@dataclass(frozen=True, kw_only=True)
class AdamW(Optimizer):
    """AdamW, with the defaults that suit it."""

    name: Literal["adamw"] = "adamw"
    lr: Annotated[float, Meta(gt=0)] = 3e-4
    weight_decay: Annotated[float, Meta(ge=0, le=100)] = 0.01
    schedule: AnySchedule = field(default_factory=Cosine)


@dataclass(frozen=True, kw_only=True)
class RMSprop(WithMomentum):
    """RMSprop."""

    name: Literal["rmsprop"] = "rmsprop"


@dataclass(frozen=True, kw_only=True)
class Muon(WithMomentum):
    """Muon for the convolution weights of the backbone, and SGD for all other parameters.

    Attributes:
        sgd_momentum: Momentum of SGD for the parameters that Muon does not update.
        unit_filters: Before each step, rescale the weight of each convolution that Muon updates so that its norm is the
            square root of its output channels, in place of weight decay. For networks in which a normalisation layer
            follows every convolution.
    """

    name: Literal["muon"] = "muon"
    sgd_momentum: Fraction = 0.9
    unit_filters: bool = False


@dataclass(frozen=True, kw_only=True)
class CustomOptimizer(WithMomentum):
    """An optimizer named by its place."""

    name: str


AnyOptimizer = SGD | AdamW | RMSprop | Muon | CustomOptimizer
