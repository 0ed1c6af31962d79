"""The gradients of one step: forward and backward over the micro-batches of a rank's share of the global batch."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any

import torch

from penstock import devices
from penstock.models import silent_norms

if TYPE_CHECKING:
    from torch import nn

    from penstock.feed import Batch
    from penstock.ranks import Ranks
    from penstock.session.options import Options
    from penstock.tasks import Task
    from penstock.tasks.base import Tensors

_ALONE = "Expected more than 1 value per channel"


class Gradients:
    """Computes a model's gradients. Samples of weight 0 - holes of a topic - leave no trace in them, in the loss, or in
    the statistics of norms.

    Attributes:
        model: on the device.
        network: the model with what ranks and torch.compile put around it.
        layout: how its inputs lie in memory.
    """

    def __init__(
        self, model: nn.Module, network: Any, *, ranks: Ranks, device: torch.device, options: Options,
        layout: torch.memory_format,
    ) -> None:  # fmt: skip
        self.model, self.network, self.layout = model, network, layout
        self.ranks, self.device, self.options = ranks, device, options

    def compute(self, task: Task, batch: Batch) -> torch.Tensor:
        """Leave the gradients of the global batch in the parameters; its loss, a scalar on the device.

        Where there is no sample at all, parameters have no gradient.
        """
        tensors: Tensors = {name: tensor.to(self.device) for name, tensor in batch.tensors.items()}
        rows, blank = len(batch), None
        if not bool(batch.weight.all()):
            real = batch.weight > 0
            masked = task.mask_padding(tensors, batch.weight)
            blank = _rows(masked, torch.nonzero(~real)[:1, 0])
            tensors, rows = _rows(masked, task.kept(real)), int(real.sum())
        count = self.ranks.sum(task.count(tensors))
        count = torch.where(count > 0, count, 1)
        total = self._backward(task, tensors, blank, self._cuts(rows, len(batch)), self.ranks.world_size / count)
        return (self.ranks.sum(total) / count).sum()

    def _cuts(self, rows: int, size: int) -> list[tuple[int, int]]:
        """Where the micro-batches of a share of some size begin and end, of whose samples some rows are left: as many
        on every rank, so that ranks wait for each other as often. Samples that are mixed in pairs stay together.
        """
        pieces = min(self.options.accumulate, size)
        cuts = [rows * piece // pieces for piece in range(pieces + 1)]
        if rows < size:
            cuts = [*(cut - cut % 2 for cut in cuts[:-1]), rows]
        return list(itertools.pairwise(cuts))

    def _backward(
        self, task: Task, tensors: Tensors, blank: Tensors | None, cuts: list[tuple[int, int]], scale: torch.Tensor
    ) -> torch.Tensor:
        """Gradients of all micro-batches, added up; the sums of this rank's losses."""
        total = torch.zeros(scale.shape, device=self.device)
        for number, (start, stop) in enumerate(cuts):
            alone = self.ranks.world_size > 1 and number < len(cuts) - 1  # gradients travel once, with the last piece
            with self.network.no_sync() if alone else contextlib.nullcontext():
                if start < stop:
                    part = {name: tensor[start:stop] for name, tensor in tensors.items()}
                    loss = self._loss(task, part, lonely=blank is not None and stop - start == 1)
                    (loss * scale).sum().backward()  # type: ignore[no-untyped-call]
                    total += loss.detach()
                elif blank and self.ranks.world_size > 1:
                    self._accompany(task, blank, scale)
        return total

    def _loss(self, task: Task, part: Tensors, *, lonely: bool = False) -> torch.Tensor:
        """The sums of a micro-batch's losses. One sample that holes have left alone is normalised by running statistics
        where a norm would have but its single value.
        """
        before = [buffer.clone() for buffer in self.model.buffers()] if lonely else []
        try:
            return self._forward(task, part)
        except ValueError as error:
            if not lonely or not str(error).startswith(_ALONE):
                raise
        for buffer, value in zip(self.model.buffers(), before, strict=True):
            buffer.copy_(value)
        with silent_norms(self.model):
            return self._forward(task, part)

    def _forward(self, task: Task, part: Tensors) -> torch.Tensor:
        with devices.autocast(self.device, self.options.precision):
            outputs = self.network(devices.lay_out(task.inputs(part), self.layout))
        return task.loss(outputs, part)

    def _accompany(self, task: Task, blank: Tensors, scale: torch.Tensor) -> None:
        """Do what other ranks wait for, with gradients of 0: this one's samples are all holes."""
        with silent_norms(self.model):
            loss = self._forward(task, blank)
            (0.0 * loss * scale).sum().backward()  # type: ignore[no-untyped-call]


def _rows(tensors: Tensors, index: torch.Tensor) -> Tensors:
    return {name: tensor[index.to(tensor.device)] for name, tensor in tensors.items()}
