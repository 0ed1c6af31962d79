"""The reused batch buffers: rows are written straight into them, so pixels are never copied again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from penstock.feed.prepare import Field


@dataclass(frozen=True, slots=True)
class Slot:
    """The memory of one batch, seen as numpy arrays (to write) and as tensors (to give away)."""

    arrays: Mapping[str, NDArray[Any]]
    tensors: Mapping[str, torch.Tensor]
    weight: NDArray[np.float32]

    def row(self, index: int) -> dict[str, NDArray[Any]]:
        """Views of one sample's place; a scalar's view has shape ()."""
        return {name: array[index, ...] for name, array in self.arrays.items()}

    def blank(self, index: int) -> None:
        """Make a row padding: zeros, with weight 0."""
        self.weight[index] = 0.0
        for array in self.arrays.values():
            array[index] = 0


def make_slot(fields: Mapping[str, Field], size: int, *, pin: bool = False) -> Slot:
    """Memory for `size` samples, page-locked if `pin`."""
    tensors = {
        name: torch.zeros((size, *field.shape), dtype=_torch_type(field.dtype), pin_memory=pin)
        for name, field in fields.items()
    }
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    return Slot(arrays, tensors, np.zeros(size, np.float32))


def _torch_type(name: str) -> torch.dtype:
    return torch.from_numpy(np.zeros(0, name)).dtype
