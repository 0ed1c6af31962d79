"""The memory of batches: rows are written straight into it, so pixels are never copied again, and it is used again."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from penstock.feed.prepare import Field

WEIGHT = "weight"


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """The memory of one batch, as numpy arrays to write to."""

    arrays: Mapping[str, NDArray[Any]]
    weight: NDArray[np.float32]

    def row(self, index: int) -> dict[str, NDArray[Any]]:
        """Views of one sample's place; a scalar's view has shape ()."""
        return {name: array[index, ...] for name, array in self.arrays.items()}

    def blank(self, index: int) -> None:
        """Make a row padding: zeros, with weight 0."""
        self.weight[index] = 0.0
        for array in self.arrays.values():
            array[index] = 0


class Slots:
    """Slots of one kind, used again, as fresh memory costs page faults. A lent one lives with its views."""

    def __init__(self, fields: Mapping[str, Field], size: int, *, pin_memory: bool = False) -> None:
        self.fields, self.size, self.pin_memory = fields, size, pin_memory
        self._free: deque[Slot] = deque()

    def take(self) -> Slot:
        """A slot that nobody looks at: an old one, or a new one."""
        try:
            return self._free.pop()
        except IndexError:
            return make_slot(self.fields, self.size, pin_memory=self.pin_memory)

    def lend(self, slot: Slot) -> dict[str, torch.Tensor]:
        """Tensors over a slot's memory, and "weight"; once they and all views of them are gone, it is free again."""
        left = [slot, *self.fields]  # whoever takes the last one out is the last: pop is atomic
        lent = {}
        for name, array in (*slot.arrays.items(), (WEIGHT, slot.weight)):
            view = array.view()  # the tensor keeps it alive, and so does every view of the tensor
            weakref.finalize(view, self._returned, left).atexit = False
            lent[name] = torch.from_numpy(view)
        return lent

    def _returned(self, left: list[Any]) -> None:
        last = left.pop()
        if isinstance(last, Slot):
            self._free.append(last)


def make_slot(fields: Mapping[str, Field], size: int, *, pin_memory: bool = False) -> Slot:
    """Memory for `size` samples, page-locked if `pin_memory`."""
    tensors = {
        name: torch.zeros((size, *field.shape), dtype=_torch_type(field.dtype), pin_memory=pin_memory)
        for name, field in fields.items()
    }
    return Slot({name: tensor.numpy() for name, tensor in tensors.items()}, np.zeros(size, np.float32))


def _torch_type(name: str) -> torch.dtype:
    return torch.from_numpy(np.zeros(0, name)).dtype
