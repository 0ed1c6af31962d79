"""The gradients of one step: forward and backward over the micro-batches of a rank's slice of the global batch."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any, NamedTuple

import torch
from torch import nn

from penstock import devices
from penstock.errors import RecipeError
from penstock.feed import Batch
from penstock.models import key_dropout, silent_norms
from penstock.progress import counted
from penstock.ranks import Ranks
from penstock.session.kept import KeptValues
from penstock.settings import Train
from penstock.tasks import Task
from penstock.tasks.roles import Tensors

_ALONE = "Expected more than 1 value per channel"


class RealSamples(NamedTuple):
    """The samples of a slice that weigh something, on the device.

    Attributes:
        tensors: of these samples, by name.
        rows: how many there are.
        places: their positions in the plan, modulo 2**32, int64 of shape (rows,); none where no layer drops anything.
        blank: a sample that weighs nothing, if there is one.
    """

    tensors: Tensors
    rows: int
    places: torch.Tensor
    blank: Tensors | None


class Gradients:
    """Computes a model's gradients. Samples of weight 0 - holes of a topic - leave no trace in them, in the loss, or in
    the statistics of norms.

    Attributes:
        model: on the device.
        network: the model with what ranks and torch.compile put around it.
        layout: how its inputs lie in memory.
        accumulate: micro-batches that a slice is cut into.
        keys: what dropout draws of the samples; None where the model has none.
        parameters: of the model, whose modules need not be walked at every step.
    """

    def __init__(
        self, model: nn.Module, network: Any, *, ranks: Ranks, device: torch.device, options: Train,
        layout: torch.memory_format,
    ) -> None:  # fmt: skip
        self.model, self.network, self.layout = model, network, layout
        self.ranks, self.device, self.options = ranks, device, options
        self.accumulate = options.accumulate
        self.keys = key_dropout(model)
        self.parameters = tuple(model.parameters())
        self._is_checked = False

    def compute(self, task: Task, batch: Batch, kept: KeptValues | None = None) -> torch.Tensor:
        """Leave the gradients of the global batch in the parameters; its loss, a scalar on the device.

        Where there is no sample at all, parameters have no gradient. `kept` keeps what hooks want of the step.
        """
        real = self.real(task, batch)
        count = self.ranks.sum(task.count(real.tensors))
        count = torch.where(count > 0, count, 1)
        kept = kept or KeptValues()
        with kept.watching(self.model):
            scale = self.ranks.world_size / count
            total = self._backward(task, real, self.cuts(real.rows, len(batch)), scale, kept)
        parts = self.ranks.sum(total) / count
        kept.keep_parts(parts)
        if self.ranks.world_size > 1 and real.rows:
            self._check_reached()
        return parts.sum()

    def real(self, task: Task, batch: Batch) -> RealSamples:
        """A rank's slice of a batch on the device, without samples of weight 0."""
        tensors: Tensors = {name: tensor.to(self.device) for name, tensor in batch.tensors.items()}
        if bool(batch.weight.all()):
            return RealSamples(tensors, len(batch), self._places(batch), None)
        real = batch.weight > 0
        masked, kept = task.mask_padding(tensors, batch.weight), task.kept(real)
        blank = _rows(masked, torch.nonzero(~real)[:1, 0])
        places = self._places(batch)
        places = places[kept.to(self.device)] if len(places) else places
        return RealSamples(_rows(masked, kept), int(real.sum()), places, blank)

    def _places(self, batch: Batch) -> torch.Tensor:
        size = len(batch) if self.keys else 0
        return torch.arange(batch.first, batch.first + size, device=self.device) % 2**32

    def part(self, real: RealSamples, start: int, stop: int) -> Tensors:
        """Some of the samples, which the network sees next: dropout draws for them."""
        if self.keys:
            self.keys.show(real.places[start:stop])
        if stop - start == real.rows:
            return real.tensors
        return {name: tensor[start:stop] for name, tensor in real.tensors.items()}

    def cuts(self, rows: int, size: int) -> list[tuple[int, int]]:
        """Start and end of each micro-batch, for a slice of `size` samples of which `rows` are real: equally many
        on every rank, so that ranks wait for each other as often. Samples that are mixed in pairs stay together.
        """
        pieces = min(self.accumulate, size)
        cuts = [rows * piece // pieces for piece in range(pieces + 1)]
        if rows < size:
            cuts = [*(cut - cut % 2 for cut in cuts[:-1]), rows]
        return list(itertools.pairwise(cuts))

    def _backward(
        self, task: Task, real: RealSamples, cuts: list[tuple[int, int]], scale: torch.Tensor, kept: KeptValues
    ) -> torch.Tensor:
        """Gradients of all micro-batches, added up; the sums of this rank's losses."""
        total = torch.zeros(scale.shape, device=self.device)
        for number, (start, stop) in enumerate(cuts):
            alone = self.ranks.world_size > 1 and number < len(cuts) - 1  # gradients travel once, with the last piece
            with self.ranks.alone(self.network) if alone else contextlib.nullcontext():
                if start < stop:
                    part = self.part(real, start, stop)
                    total += self._piece(task, part, kept, scale, lonely=real.blank is not None and stop - start == 1)
                elif real.blank and self.ranks.world_size > 1:
                    self._accompany(task, real.blank, scale)
        return total

    def _check_reached(self) -> None:
        """Whether every parameter has a gradient, as ranks wait for each other's."""
        if self._is_checked:
            return
        self._is_checked = True
        missed = [name for name, each in self.model.named_parameters() if each.requires_grad and each.grad is None]
        if missed:
            raise RecipeError(
                "model.name",
                expected="a model that uses all its parameters, as several ranks add up the gradients of each",
                found=f"{counted(len(missed), 'parameter')} without a gradient, such as {missed[0]}",
                remedy="Remove these from the model, or set their requires_grad to False",
            )

    def _piece(self, task: Task, part: Tensors, kept: KeptValues, scale: torch.Tensor, *, lonely: bool) -> torch.Tensor:
        """Gradients of a micro-batch; the sums of its losses. One sample that holes have left alone is normalised by
        running statistics where a norm would have but its single value.
        """
        before = [buffer.clone() for buffer in self.model.buffers()] if lonely else []
        try:
            return self._passed(task, part, kept, scale)
        except ValueError as error:
            if not lonely or not str(error).startswith(_ALONE):
                raise
        for buffer, value in zip(self.model.buffers(), before, strict=True):
            buffer.copy_(value)
        with silent_norms(self.model):
            return self._passed(task, part, kept, scale)

    def _passed(self, task: Task, part: Tensors, kept: KeptValues, scale: torch.Tensor) -> torch.Tensor:
        """A forward and a backward pass, in which norms are as they were in the forward one."""
        kept.is_watching = True
        loss = self._forward(task, part, kept)
        kept.is_watching = False
        (loss * scale).sum().backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _forward(self, task: Task, part: Tensors, kept: KeptValues) -> torch.Tensor:
        outputs = self.outputs(self.network, task, part)
        kept.keep_outputs(outputs)
        return task.loss(outputs, part)

    def outputs(self, network: Any, task: Task, part: Tensors) -> Any:
        """What a network gives for some samples, in the precision of training."""
        with devices.autocast(self.device, self.options.precision):
            return network(devices.lay_out(task.inputs(part), self.layout))

    def _accompany(self, task: Task, blank: Tensors, scale: torch.Tensor) -> None:
        """Take part in what other ranks wait for, with gradients of 0, as all samples of this rank are holes."""
        with silent_norms(self.model):
            loss = self._forward(task, blank, KeptValues())
            (0.0 * loss * scale).sum().backward()  # type: ignore[no-untyped-call]


def _rows(tensors: Tensors, index: torch.Tensor) -> Tensors:
    return {name: tensor[index.to(tensor.device)] for name, tensor in tensors.items()}
