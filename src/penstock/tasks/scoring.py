"""What is counted of predictions, and what evaluations give."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from penstock.metrics import number_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from penstock.tasks.roles import Tensors


class Scores(Protocol):
    """The result of an evaluation. Classes that inherit from it need no more than `summary`."""

    @abstractmethod
    def summary(self) -> dict[str, float]:
        """The scores in one line."""

    def as_json(self) -> dict[str, Any]:
        """Everything, for a file."""
        return self.summary()

    def table(self) -> str:
        """The scores as people read them, in lines."""
        return number_table(self.summary())


class Collective(Protocol):
    """The collective operations that metrics need."""

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor added up over all ranks, in place."""

    def gather(self, texts: Sequence[str]) -> list[str]:
        """The texts of all ranks in the order of the ranks, on every rank."""


class Metric(Protocol):
    """Counts predictions."""

    def gather(self, ranks: Collective) -> None:
        """Put together what all ranks have counted; called before `scores`."""

    def update(self, outputs: Any, tensors: Tensors, origins: Sequence[str]) -> None:
        """Count one batch. Samples whose origin is "" are padding and do not count."""

    def scores(self) -> Scores:
        """The scores of what has been counted."""
