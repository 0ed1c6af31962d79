"""Where the model runs: on which device, in which precision, and how it lies in memory."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from contextlib import AbstractContextManager
from typing import Any, Final

import torch
from torch import nn

from penstock import cores
from penstock.errors import RecipeError
from penstock.progress import counted

_M_TRIM_THRESHOLD: Final = -1  # <malloc.h>
_M_MMAP_THRESHOLD: Final = -3


def choose(name: str, local_rank: int = 0) -> torch.device:
    """The device by name; "auto" is CUDA where there is one, else MPS, else the CPU.

    Raises:
        RecipeError: the device is not there.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    kind, _, index = name.partition(":")
    if not present.get(kind, False) or not (index or "0").isdigit():
        raise RecipeError(
            "train.device",
            expected=f"one of auto, {', '.join(key for key, there in present.items() if there)} on this machine",
            found=name,
            remedy="Use auto or one of these",
        )
    device = torch.device(f"cuda:{local_rank}") if name == "cuda" else torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise RecipeError(
            "train.device",
            expected=f"one of the {torch.cuda.device_count()} CUDA devices of this machine, for every rank on it",
            found=str(device),
            remedy="Start fewer ranks, or leave the device at auto",
        )
    return device


def describe(device: torch.device) -> str:
    """The device as text, with the name of the GPU or the number of CPU threads."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return f"cpu ({counted(torch.get_num_threads(), 'thread')})" if device.type == "cpu" else str(device)


def place(model: nn.Module, device: torch.device, layout: torch.memory_format | None = None) -> nn.Module:
    """The model on a device, its filters laid out channels last, or as told."""
    moved: nn.Module = model.to(device).to(memory_format=layout or _channels_last(model))
    return moved


def training_layout(model: nn.Module, device: torch.device) -> torch.memory_format:
    """The layout in memory that training steps are fastest in.

    Channels last, but for networks with dilated dense convolutions on a CPU: oneDNN takes longer for their
    gradients in that layout (bench/layouts.py).
    """
    first = device.type == "cpu" and any(_is_dilated(module) for module in model.modules())
    return torch.contiguous_format if first else _channels_last(model)


def lay_out(inputs: Any, layout: torch.memory_format) -> Any:
    """Convert channels-last model inputs, a tensor or a dict of tensors, to the memory layout of training."""
    if isinstance(inputs, dict):
        return {name: lay_out(value, layout) for name, value in inputs.items()}
    first = layout is torch.contiguous_format and isinstance(inputs, torch.Tensor)
    return inputs.contiguous() if first else inputs


def _is_dilated(module: nn.Module) -> bool:
    convolution = isinstance(module, nn.Conv2d) and module.groups == 1 and module.kernel_size != (1, 1)
    return convolution and module.dilation != (1, 1)


def _channels_last(model: nn.Module) -> torch.memory_format:
    three_dimensional = any(parameter.ndim == 5 for parameter in model.parameters())  # noqa: PLR2004
    return torch.channels_last_3d if three_dimensional else torch.channels_last


def keep_freed_memory() -> None:
    """Have glibc keep what is freed for the next step, instead of giving it back to the system.

    Every step on a CPU frees its activations and asks for as many again; each page that was given back costs a fault,
    up to a seventh of a step's time (bench/layouts.py). It is a setting of the whole process, so commands make it, the
    library does not. Nothing is done where CUDA is, as activations lie elsewhere then, with another C library, or
    where the user has chosen (MALLOC_*, GLIBC_TUNABLES).
    """
    by_user = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    if sys.platform != "linux" or by_user or torch.cuda.is_available():
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "gnu_get_libc_version"):
        libc.mallopt(_M_MMAP_THRESHOLD, 1 << 30)
        libc.mallopt(_M_TRIM_THRESHOLD, -1)  # as a size_t the largest: never


def seed(device: torch.device, value: int) -> None:
    """Seed the generators of the CPU and of one device: `torch.manual_seed` takes half a millisecond for all kinds."""
    torch.default_generator.manual_seed(value)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(value)


def release_memory(device: torch.device) -> None:
    """Give memory that nobody uses back to the device, so that other sizes find room."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


def use_available_cores() -> None:
    """Have torch compute with as many threads as there are cores for this process, which in a container are fewer than
    torch sees. As `keep_freed_memory`, a setting of the whole process that commands make; nothing is done where the
    user has chosen (OMP_NUM_THREADS, MKL_NUM_THREADS).
    """
    if not {"OMP_NUM_THREADS", "MKL_NUM_THREADS"} & set(os.environ) and torch.get_num_threads() > cores.available():
        torch.set_num_threads(cores.available())


def too_many_threads(device: torch.device) -> str:
    """What to tell people who compute on a CPU with more threads than it has cores for them; "" where all is well."""
    threads, there = torch.get_num_threads(), cores.available()
    if device.type != "cpu" or threads <= there:
        return ""
    return (
        f"note: {threads} threads compute on {counted(there, 'core')}, where they wait for each other: training may be "
        f"ten times slower; set OMP_NUM_THREADS={there}"
    )


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """The context that forward passes run in."""
    if precision == "float32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)
