"""The processes of one training: `torchrun` starts them, this module lets them agree."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from penstock.values import BatchSlice

_JOINS: Final = itertools.count()  # every rank joins the others as often


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among the others.

    Attributes:
        rank: its number, from 0 to `world_size - 1`.
        world_size: the number of processes.
        local: its number on its machine.
    """

    rank: int = 0
    world_size: int = 1
    local: int = 0

    @property
    def batch_slice(self) -> BatchSlice:
        """The part of every global batch that this rank takes."""
        return BatchSlice(self.rank, self.world_size)

    @property
    def is_main(self) -> bool:
        """Whether this is the one rank that writes files and prints."""
        return self.rank == 0

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor added up over all ranks, in place."""
        if self.world_size > 1:
            dist.all_reduce(tensor)
        return tensor

    def any(self, flag: bool, device: torch.device) -> bool:  # noqa: FBT001 - the one value it takes
        """Whether the flag is set on any rank; all ranks get the same answer."""
        if self.world_size == 1:
            return flag
        return bool(self.sum(torch.tensor(int(flag), device=device)).item())

    def barrier(self) -> None:
        """Wait for all ranks."""
        if self.world_size > 1:
            dist.barrier()

    def broadcast(self, text: str) -> str:
        """The main rank's text, on every rank."""
        box: list[Any] = [text]
        if self.world_size > 1:
            dist.broadcast_object_list(box)
        return str(box[0])

    def gather(self, texts: Sequence[str]) -> list[str]:
        """The texts of all ranks in the order of the ranks, on every rank."""
        boxes: list[Any] = [list(texts)]
        if self.world_size > 1:
            boxes = [None] * self.world_size
            dist.all_gather_object(boxes, list(texts))
        return [text for box in boxes for text in box]

    def broadcast_buffers(self, model: nn.Module) -> None:
        """Give every rank the main rank's buffers: running statistics differ between ranks after a step."""
        if self.world_size > 1:
            for buffer in model.buffers():
                dist.broadcast(buffer, 0)

    def wrap(self, model: nn.Module, device: torch.device) -> nn.Module:
        """The model with gradients averaged over ranks; itself where there is one rank."""
        if self.world_size == 1:
            return model
        return DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)

    @contextlib.contextmanager
    def alone(self, network: Any) -> Iterator[None]:
        """For the length of a block, each rank adds up its own gradients and waits for no other."""
        if hasattr(network, "set_requires_gradient_sync"):  # FSDP, perhaps in a module of torch.compile
            network.set_requires_gradient_sync(False)
            yield
            network.set_requires_gradient_sync(True)
        else:
            with network.no_sync():
                yield


def from_environment() -> Ranks:
    """What torchrun says in RANK, WORLD_SIZE and LOCAL_RANK; one rank where it did not start us."""
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return Ranks()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    return Ranks(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), local)


@dataclass(frozen=True, slots=True)
class Launch:
    """The command of torchrun that started this process.

    Attributes:
        name: the same in all processes that one command started on a machine, restarts included, and in no others.
        restarts: how often it has started all processes again, as one of them failed (`--max-restarts`).
    """

    name: str
    restarts: int


def launch() -> Launch | None:
    """What torchrun says of itself; None where it did not start us."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    parent = os.getppid()
    try:
        began = (
            Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[19]
        )  # in ticks since the machine did
    except (OSError, IndexError):
        began = ""
    name = f"{os.environ['TORCHELASTIC_RUN_ID']} {parent} {began}"
    return Launch(name, int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")))


@contextlib.contextmanager
def joined(device: torch.device) -> Iterator[Ranks]:
    """Join the other ranks for the length of a block: NCCL on CUDA, gloo elsewhere."""
    ranks = from_environment()
    if ranks.world_size == 1:
        yield ranks
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    address = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    # Ranks that are started again, or join again, must not find the addresses of before: torchrun's store keeps them.
    fresh = PrefixStore(f"penstock/attempt-{attempt}/join-{next(_JOINS)}", _store(address, ranks))
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=fresh, rank=ranks.rank, world_size=ranks.world_size)
    yield ranks
    # Only after a good end: with NCCL it would wait for ranks that wait for this one, and hide this one's error.
    dist.destroy_process_group()


@functools.cache
def _store(address: str, ranks: Ranks) -> Any:  # noqa: ARG001 - of its seam
    """Where the ranks meet, made once a process: a rank that joins again would reach a store that is closing."""
    return next(rendezvous("env://"))[0]
