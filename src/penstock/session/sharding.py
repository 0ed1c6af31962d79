"""Fully sharded data parallel (FSDP2): each rank holds a part of every weight, gradient and optimizer state, and
gathers the weights of a block for as long as it computes with them.

What is saved are whole tensors, as of one process: a checkpoint knows nothing of how many ranks there were.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from penstock.session.blocks import blocks


def shard(model: nn.Module, device: torch.device) -> nn.Module:
    """Cut contiguous parameters over all ranks, in place, block by block (torch.distributed.fsdp.fully_shard)."""
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for block in blocks(model).values():
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def local(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a tensor that this rank holds: all of it, where it is not cut."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """The whole tensor, gathered if it is cut over ranks; all ranks must call this."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def is_cut(model: nn.Module) -> bool:
    """Whether the weights of a model are cut over ranks."""
    return isinstance(model, FSDPModule)


def joined(tensors: Mapping[str, torch.Tensor], *, keep: bool) -> dict[str, torch.Tensor]:
    """Tensors by name, whole and on the CPU; all ranks must ask, and those that do not keep them get none."""
    found = {}
    for name, tensor in tensors.items():
        each = whole(tensor)
        if keep:
            found[name] = each.cpu()
    return found


def cut_like(tensor: torch.Tensor, model: torch.Tensor) -> torch.Tensor:
    """This rank's part of a tensor that all ranks have, cut as another one is; itself, where that is not cut."""
    if not isinstance(model, DTensor):
        return tensor
    placed = tensor.to(model.device)
    return distribute_tensor(placed, model.device_mesh, model.placements, src_data_rank=None)


@contextlib.contextmanager
def gathered(model: nn.Module) -> Iterator[None]:
    """For the length of a block, which all ranks begin, each rank holds whole weights."""
    parts = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.reshard()
            part.set_reshard_after_forward(part is not model, recurse=False)
