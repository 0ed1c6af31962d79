"""Models and optimizers as named tensors in files: no pickles, the same bytes for the same values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn

from penstock import files
from penstock.errors import CheckpointError
from penstock.runs import manifests
from penstock.session.sharding import cut_like

_LIKE_PARAMETER = frozenset(("momentum_buffer", "exp_avg", "exp_avg_sq", "square_avg", "grad_avg"))
"""Entries of an optimizer's state that have the shape of their parameter."""


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write tensors in the safetensors format, contiguous and on the CPU, and sync the file."""
    plain = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    files.write_synced(path, save(plain))


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Read what `write_tensors` wrote.

    Raises:
        CheckpointError: the file is missing or damaged.
    """
    try:
        return load_file(path)
    except (OSError, SafetensorError, RuntimeError, OverflowError) as error:
        raise CheckpointError(
            str(path),
            expected="a safetensors file",
            found=str(error).splitlines()[0],
            remedy="Use another checkpoint of the run",
        ) from error


def not_finite(tensors: Mapping[str, torch.Tensor]) -> list[str]:
    """The names of the tensors that hold infinity or NaN."""
    floats = {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()}
    return [name for name, tensor in floats.items() if not bool(tensor.isfinite().all())]


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, torch.Tensor]:
    """The optimizer's state as `PARAMETER/ENTRY` tensors, for example `decoder.0.weight/momentum_buffer`."""
    return {
        f"{name}/{entry}": value
        for name, parameter in model.named_parameters()
        for entry, value in sorted(optimizer.state.get(parameter, {}).items())
        if isinstance(value, torch.Tensor)
    }


def load_optimizer(
    optimizer: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, torch.Tensor], where: str
) -> None:
    """Put back what `optimizer_tensors` gave; what the optimizer has beside it goes.

    Raises:
        CheckpointError: it is of another model; `where` names the checkpoint.
    """
    parameters = dict(model.named_parameters())
    optimizer.state.clear()
    for name, tensor in tensors.items():
        owner, _, entry = name.rpartition("/")
        if owner not in parameters:
            expected = "the state of the optimizer, for parameters of the model"
            raise manifests.damaged(Path(where) / "optimizer.safetensors", expected, f"the tensor {name}")
        parameter = parameters[owner]
        fits = tensor.shape == parameter.shape and tensor.is_floating_point() == parameter.is_floating_point()
        if fits:
            optimizer.state[parameter][entry] = torch.empty_like(parameter).copy_(cut_like(tensor, parameter))
        elif entry == "step" and (tensor.numel() != 1 or not tensor.is_floating_point()):
            expected, found = f"{name} of one float", f"{tensor.dtype} and {tuple(tensor.shape)}"
            raise manifests.damaged(Path(where) / "optimizer.safetensors", expected, found)
        elif entry in _LIKE_PARAMETER:
            expected = f"{name} of {parameter.dtype} and shape {tuple(parameter.shape)}, as the parameter is"
            found = f"{tensor.dtype} and {tuple(tensor.shape)}"
            raise manifests.damaged(Path(where) / "optimizer.safetensors", expected, found)
        else:  # a step counter
            optimizer.state[parameter][entry] = tensor.clone()
    if isinstance(optimizer, torch.optim.RMSprop):  # which wants a buffer where there was no momentum before
        for group in optimizer.param_groups:
            for parameter in group["params"] if group["momentum"] else ():
                if begun := optimizer.state.get(parameter):
                    begun.setdefault("momentum_buffer", torch.zeros_like(parameter))


def load_model(model: nn.Module, tensors: Mapping[str, torch.Tensor], where: str) -> None:
    """Put all weights back; every tensor must fit.

    Raises:
        CheckpointError: the tensors are of another model.
    """
    try:
        own = model.state_dict()
        fits = {name for name, tensor in tensors.items() if name in own and own[name].shape == tensor.shape}
        if other := next((name for name in sorted(fits) if own[name].dtype != tensors[name].dtype), None):
            found = f"{tensors[other].dtype}, which would be rounded in silence"
            raise manifests.damaged(Path(where), f"{other} of {own[other].dtype}", found)
        model.load_state_dict(
            {name: cut_like(each, own[name]) if name in fits else each for name, each in tensors.items()}
        )
    except RuntimeError as error:
        raise CheckpointError(
            where,
            expected="the weights of the model in recipe.toml",
            found=" ".join(str(error).split())[:300].removesuffix("."),
            remedy="Restore the run's recipe.toml, or start a new run with --init RUN",
        ) from error
