"""Batch normalisation over the global batch: each rank sees a part of it, all normalise by the whole.

PyTorch's own SyncBatchNorm works on accelerators only; this one works wherever ranks can add up tensors, so that tests
can hold it against one process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn
from torch.autograd.function import FunctionCtx


class _Sum(torch.autograd.Function):
    """The sum over all ranks; every rank's loss depends on it, so gradients are added up too."""

    @staticmethod
    def forward(ctx: FunctionCtx, tensor: torch.Tensor) -> torch.Tensor:
        total = tensor.contiguous().clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: torch.Tensor) -> torch.Tensor:
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total)
        return total


class SyncNorm(nn.modules.batchnorm._BatchNorm):  # noqa: SLF001 - of any number of dimensions
    """Batch normalisation whose mean and variance are those of all ranks' images together.

    Attributes:
        drop, act: what timm's norms do after normalising; nothing for others.
        silent: whether this rank's features are normalised by the statistics of other ranks, and add nothing to them.
        alone: whether this rank normalises by its local statistics, without waiting for other ranks.
    """

    drop: nn.Module
    act: nn.Module
    silent: bool = False
    alone: bool = False

    def _check_input_dim(self, input: torch.Tensor) -> None:  # noqa: A002 - PyTorch's name
        """Any number of dimensions will do."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Float (n, channels, ...), the same on every rank but for n; in training all ranks must call it."""
        if not self.training:
            return self._finish(super().forward(features))
        values = features.float()
        add = _unchanged if self.alone else _Sum.apply
        mean, variance, count = _moments(values[:0] if self.silent else values, add)
        if self.silent and not count:  # so are all other ranks: nothing to normalise by
            running = self.running_mean, self.running_var, self.weight, self.bias
            return self._finish(F.batch_norm(features, *running, training=self.running_mean is None, eps=self.eps))
        self._remember(mean.detach(), variance.detach(), count)
        axes = features.ndim
        normal = (values - _spread(mean, axes)) * _spread((variance + self.eps).rsqrt(), axes)
        if self.affine:
            normal = normal * _spread(self.weight, axes) + _spread(self.bias, axes)
        return self._finish(normal.to(features.dtype))

    def _finish(self, normal: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.act(self.drop(normal))
        return found

    def _remember(self, mean: torch.Tensor, variance: torch.Tensor, count: torch.Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None or not count:
            return
        self.num_batches_tracked += 1
        weight = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        unbiased = variance * count / (count - 1).clamp(min=1)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), weight)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), weight)


def _unchanged(tensor: torch.Tensor) -> torch.Tensor:
    """The sum over this rank."""
    return tensor


def _moments(
    values: torch.Tensor, add: Callable[[torch.Tensor], torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean and variance of every channel over all ranks by `add`, with counts; from deviations, which keeps digits."""
    axes = (0, *range(2, values.ndim))
    own = values.new_full((1,), values.numel() / values.shape[1])
    sums = add(torch.cat([values.sum(dim=axes), own]))
    count = sums[-1].detach()
    mean = sums[:-1] / count.clamp(min=1)
    squares = add((values - _spread(mean, values.ndim)).square().sum(dim=axes))
    return mean, squares / count.clamp(min=1), count


def _spread(channels: torch.Tensor, axes: int) -> torch.Tensor:
    return channels.view(1, -1, *[1] * (axes - 2))


def synchronise_norms(model: nn.Module) -> nn.Module:
    """The model, each of its batch norms replaced by one over all ranks with the same tensors."""
    for name, child in model.named_children():
        if isinstance(child, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
            setattr(model, name, _replaced(child))
        else:
            synchronise_norms(child)
    return model


@contextlib.contextmanager
def silent_norms(model: nn.Module) -> Iterator[None]:
    """For the length of a block, batch norms learn nothing from what they see, over one rank or all."""
    learning = [each for each in model.modules() if isinstance(each, nn.modules.batchnorm._BatchNorm) and each.training]  # noqa: SLF001 - the common base
    for norm in learning:
        if isinstance(norm, SyncNorm):
            norm.silent = True
        else:
            norm.eval()
    try:
        yield
    finally:
        for norm in learning:
            norm.train()
            if isinstance(norm, SyncNorm):
                norm.silent = False


@contextlib.contextmanager
def lone_norms(model: nn.Module) -> Iterator[None]:
    """For the length of a block, each rank normalises by its own samples, so that it need not wait for the others."""
    shared = [each for each in model.modules() if isinstance(each, SyncNorm)]
    for norm in shared:
        norm.alone = True
    try:
        yield
    finally:
        for norm in shared:
            norm.alone = False


def _replaced(norm: Any) -> SyncNorm:
    new = SyncNorm(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
    new.weight, new.bias = norm.weight, norm.bias
    new.running_mean, new.running_var = norm.running_mean, norm.running_var
    new.num_batches_tracked = norm.num_batches_tracked
    new.drop, new.act = getattr(norm, "drop", nn.Identity()), getattr(norm, "act", nn.Identity())
    new.training = norm.training
    return new
