"""The optimizer and its learning-rate schedule, as a value; the schedule is a pure function of the step."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from penstock.bounds import Count, Factor, Fraction, Switch, choice


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
