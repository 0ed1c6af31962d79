"""Where a training is: devices, precisions and memory layouts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import torch

from penstock import devices
from penstock.session import Hook, Session


class Placement(Hook):
    """Prints once, at the first step, where parameters, buffers, optimizer states and batches are, in which types."""

    band = "persist"

    def __init__(self) -> None:
        self._is_told = False

    def after_step(self, session: Session) -> None:
        """Print it."""
        if self._is_told:
            return
        self._is_told = True
        states = [tensor for state in session.optimizer.state.values() for tensor in state.values()]
        batch = session.batch.tensors if session.batch else {}
        ranks = f"rank {session.ranks.rank} of {session.ranks.world_size}"
        lines = [
            f"placement: {devices.describe(session.device)}, computing in {session.options.precision}, {ranks}",
            f"  parameters: {_where(session.model.parameters())}",
            f"  buffers: {_where(session.model.buffers())}",
            f"  optimizer: {_where(states)}",
            *(f"  batch {name}: {tuple(each.shape)} {_where([each])}" for name, each in batch.items()),
        ]
        session.note("\n".join(lines))


def _where(tensors: Iterable[torch.Tensor]) -> str:
    """The numbers of elements by type and device, the most first."""
    counts = Counter[str]()
    for tensor in tensors:
        if hasattr(tensor, "device"):
            counts[f"{str(tensor.dtype).removeprefix('torch.')} on {tensor.device}"] += tensor.numel()
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common()) or "none"
