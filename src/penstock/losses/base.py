"""The contract of a loss, and sums of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch


class Term(Protocol):
    """One loss. Logits are (samples, classes, height, width); targets (samples, height, width) of class ids."""

    def count(self, target: torch.Tensor, ignore: int) -> torch.Tensor:
        """What the sum is divided by, over the global batch: a scalar that follows from the labels alone."""

    def sum(self, logits: torch.Tensor, target: torch.Tensor, ignore: int) -> torch.Tensor:
        """The loss, summed over the images: a float32 scalar."""


@dataclass(frozen=True)
class Mixture:
    """A weighted sum of losses.

    Attributes:
        terms: at least one, each with its weight.
    """

    terms: Sequence[tuple[float, Term]]

    def count(self, target: torch.Tensor, ignore: int) -> torch.Tensor:
        """The counts of all terms, of shape (terms,)."""
        counts = [term.count(target, ignore) for _, term in self.terms]
        return torch.stack(counts)

    def sum(self, logits: torch.Tensor, target: torch.Tensor, ignore: int) -> torch.Tensor:
        """The weighted sums of all terms, float32 of shape (terms,)."""
        return torch.stack([weight * term.sum(logits, target, ignore) for weight, term in self.terms])
