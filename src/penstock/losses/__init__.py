"""Losses as sums: the session divides by the count over the global batch, so losses add up and never average."""

from penstock.losses.cross_entropy import cross_entropy_sum

__all__ = ["cross_entropy_sum"]
