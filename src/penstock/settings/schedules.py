"""Schedules of the learning rate, as values: pure functions of the step."""

from __future__ import annotations

import bisect
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from penstock.bounds import Count, Fraction


@dataclass(frozen=True, kw_only=True)
class Schedule(ABC):
    """Learning rate schedule, as a factor of the peak.

    Attributes:
        name: Schedule: "poly" is (1 - progress)**power, "cosine" half a cosine, "constant" 1, "step" multiplies by
            `gamma` every `step_size`, "multistep" at every milestone, "exponential" is gamma**(step / step_size).
    """

    stretches: ClassVar[bool] = False
    """Whether it depends on the number of steps in all."""

    name: str

    @abstractmethod
    def factor(self, step: int, total: int) -> float:
        """The factor for the update that follows `step` finished steps out of `total`, both without the warm-up."""


@dataclass(frozen=True, kw_only=True)
class Constant(Schedule):
    """The peak throughout."""

    name: Literal["constant"] = "constant"

    def factor(self, step: int, total: int) -> float:
        """1."""
        return 1.0


@dataclass(frozen=True, kw_only=True)
class Falling(Schedule):
    """A schedule with a lowest value.

    Attributes:
        min_lr_ratio: Lowest learning rate, as a fraction of the peak.
    """

    min_lr_ratio: Fraction = 0.0

    def factor(self, step: int, total: int) -> float:
        """The curve, down to its lowest value."""
        return max(self.min_lr_ratio, self._curve(step, min(1.0, step / total)))

    @abstractmethod
    def _curve(self, step: int, progress: float) -> float: ...

    def _stretched(self, factor: float) -> float:
        """A curve from 1 to 0, brought to one that ends with the lowest value."""
        return self.min_lr_ratio + (1 - self.min_lr_ratio) * factor


@dataclass(frozen=True, kw_only=True)
class Poly(Falling):
    """(1 - progress) ** power.

    Attributes:
        power: Exponent of "poly"; DeepLab uses 0.9.
    """

    stretches: ClassVar[bool] = True
    name: Literal["poly"] = "poly"
    power: Annotated[float, Meta(ge=0, le=100)] = 0.9

    def _curve(self, step: int, progress: float) -> float:
        return self._stretched(float((1 - progress) ** self.power))


@dataclass(frozen=True, kw_only=True)
class Cosine(Falling):
    """Half a cosine."""

    stretches: ClassVar[bool] = True
    name: Literal["cosine"] = "cosine"

    def _curve(self, step: int, progress: float) -> float:
        return self._stretched((1 + math.cos(math.pi * progress)) / 2)


@dataclass(frozen=True, kw_only=True)
class Decaying(Falling):
    """A schedule that decays by a factor over a number of steps.

    Attributes:
        gamma: Factor of a decay.
        step_size: Steps of a decay.
    """

    gamma: Fraction = 0.1
    step_size: Count = 10_000


@dataclass(frozen=True, kw_only=True)
class Step(Decaying):
    """A decay every `step_size` steps."""

    name: Literal["step"] = "step"

    def _curve(self, step: int, progress: float) -> float:
        return float(self.gamma ** (step // self.step_size))


@dataclass(frozen=True, kw_only=True)
class Exponential(Decaying):
    """gamma ** (step / step_size)."""

    name: Literal["exponential"] = "exponential"

    def _curve(self, step: int, progress: float) -> float:
        return float(self.gamma ** (step / self.step_size))


@dataclass(frozen=True, kw_only=True)
class MultiStep(Falling):
    """A decay at every milestone.

    Attributes:
        milestones: Steps at which the learning rate decays, in ascending order.
        gamma: Factor of each decay.
    """

    name: Literal["multistep"] = "multistep"
    milestones: tuple[int, ...]
    gamma: Fraction = 0.1

    def _curve(self, step: int, progress: float) -> float:
        return float(self.gamma ** bisect.bisect_right(self.milestones, step))


AnySchedule = Poly | Cosine | Constant | Step | MultiStep | Exponential
