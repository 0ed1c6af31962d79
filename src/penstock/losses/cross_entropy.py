"""Cross-entropy over pixels or samples."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention


def cross_entropy_sum(logits: torch.Tensor, target: torch.Tensor, ignore: int) -> torch.Tensor:
    """The sum of cross-entropies over all pixels whose label is not `ignore`, in float32.

    Args:
        logits: (samples, classes, ...), any floating type.
        target: class ids of shape (samples, ...), any integer type.
        ignore: the label that does not count.
    """
    if torch.are_deterministic_algorithms_enabled():  # CUDA's reduction is not deterministic, a sum is
        return F.cross_entropy(logits.float(), target.long(), ignore_index=ignore, reduction="none").sum()
    return F.cross_entropy(logits.float(), target.long(), ignore_index=ignore, reduction="sum")
