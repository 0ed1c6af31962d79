"""Which device the model runs on, and in which precision."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import torch

from penstock.errors import RecipeError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from torch import nn

PRECISIONS: Final = ("float32", "bfloat16")


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
            remedy="Leave it at auto to take the best one there is",
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
    """The device as people know it."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return f"cpu ({torch.get_num_threads()} threads)" if device.type == "cpu" else str(device)


def place(model: nn.Module, device: torch.device) -> nn.Module:
    """The model on a device, its filters laid out channels last, which convolutions are fastest with."""
    three_dimensional = any(parameter.ndim == 5 for parameter in model.parameters())  # noqa: PLR2004
    layout = torch.channels_last_3d if three_dimensional else torch.channels_last
    moved: nn.Module = model.to(device).to(memory_format=layout)
    return moved


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """The context that forward passes run in."""
    if precision == "float32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)
