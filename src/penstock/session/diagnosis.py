"""Where numbers of a step became infinite or not a number: in which module, and in which samples."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from penstock.feed import Batch
from penstock.models import lone_norms
from penstock.session.sharding import gathered, local
from penstock.session.step import Gradients
from penstock.tasks import Task
from penstock.tasks.roles import Tensors


@dataclass(frozen=True)
class Cause:
    """Where it began.

    Attributes:
        place: the first module whose output is not finite, such as "encoder.model.layer4.0.conv1"; or "the loss", or
            "the gradient of encoder.conv1.weight"; "" where it is not known.
        samples: origins of the samples that give infinite numbers each by itself; none where it is not known.
    """

    place: str = ""
    samples: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f"it began in {self.place}" if self.place else "where it began is not known"
        return f"{where}, with {', '.join(self.samples)}" if self.samples else where


@dataclass(frozen=True)
class NonFinite:
    """A step that was not made, because its loss or its gradients are not finite.

    Attributes:
        step: its number.
        loss, norm: its loss, and the norm of its gradients.
        cause: where it began, over all ranks.
        action: what becomes of it: "stop", "skip" or "rewind".
    """

    step: int
    loss: float
    norm: float
    cause: Cause
    action: str


@torch.no_grad()
def diagnose(gradients: Gradients, task: Task, batch: Batch, restore: Callable[[], None]) -> Cause:
    """Find where numbers became infinite or NaN. Changes the model's mode.

    Args:
        gradients: those of the batch are in the parameters, and the model is as before the step.
        task: as it is for the step.
        batch: this rank's slice.
        restore: gives the running statistics the values from before the step.
    """
    real = gradients.real(task, batch)
    cuts = [(start, stop) for start, stop in gradients.cuts(real.rows, len(batch)) if start < stop]
    gradient = _gradient(gradients.model)
    samples: list[int] = []
    with gathered(gradients.model):
        with lone_norms(gradients.model):  # the other ranks may have found theirs by now
            place = _module(gradients, task, (gradients.part(real, *cut) for cut in cuts)) or gradient
        restore()  # one sample may have spoilt the statistics for all of them
        with contextlib.suppress(Exception):  # of a task whose samples cannot be alone, such as those mixed in pairs
            samples = _samples(gradients, task, real.tensors, real.rows)
    order = range(len(batch)) if bool(batch.weight.all()) else task.kept(batch.weight > 0).tolist()
    return Cause(place, tuple(batch.origins[order[row]] for row in samples))


def _module(gradients: Gradients, task: Task, parts: Iterable[Tensors]) -> str:
    """The first module whose output is not finite, or the loss; "" where all is finite."""
    found: list[str] = []

    def watch(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def look(module: nn.Module, inputs: Any, outputs: Any) -> None:  # noqa: ARG001 - of its seam
            if not found and not _is_finite(outputs):
                found.append(name)

        return look

    modules = gradients.model.named_modules()
    handles = [module.register_forward_hook(watch(name or "the model")) for name, module in modules]
    try:
        for part in parts:
            loss = task.loss(gradients.outputs(gradients.model, task, part), part)
            if found or not _is_finite(loss):
                return (found or ["the loss"])[0]
    finally:
        for handle in handles:
            handle.remove()
    return ""


def _gradient(model: nn.Module) -> str:
    """The first gradient that is not finite: they are computed from the last parameter to the first."""
    for name, parameter in reversed(list(model.named_parameters())):
        if parameter.grad is not None and not _is_finite(local(parameter.grad)):
            return f"the gradient of {name}"
    return ""


def _samples(gradients: Gradients, task: Task, tensors: Mapping[str, torch.Tensor], rows: int) -> list[int]:
    """The rows that are not finite in evaluation mode; none where all are not, as the weights are the cause then."""
    gradients.model.eval()
    wrong = []
    for row in range(rows):
        part = {name: tensor[row : row + 1] for name, tensor in tensors.items()}
        outputs = gradients.outputs(gradients.model, task, part)
        if not _is_finite(outputs) or (task.evaluates_loss and not _is_finite(task.loss(outputs, part))):
            wrong.append(row)
    return wrong if len(wrong) < rows else []


def _is_finite(values: Any) -> bool:
    """Whether all numbers of tensors in lists, tuples and dictionaries are finite."""
    if isinstance(values, torch.Tensor):
        return not values.is_floating_point() or bool(values.isfinite().all())
    if isinstance(values, dict):
        return all(map(_is_finite, values.values()))
    return all(map(_is_finite, values)) if isinstance(values, (list, tuple)) else True
