"""Activation checkpointing: a block's activations are not kept for the backward pass, but computed again in it.

Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost" (arXiv:1604.06174); torch.utils.checkpoint.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from penstock.errors import RecipeError
from penstock.session.blocks import blocks


def recompute_blocks(model: nn.Module) -> None:
    """Have the blocks of a model compute their activations again in the backward pass, in place.

    Raises:
        RecipeError: the model has no blocks.
    """
    found = blocks(model).values()
    if not found:
        raise RecipeError(
            "train.activation_checkpointing",
            expected="a model with blocks in nn.Sequential, nn.ModuleList or nn.ModuleDict",
            found=f"none in {type(model).__name__}",
            remedy="Remove it, or build the model of such blocks",
        )
    for block in found:
        block.forward = _recomputed(block, block.forward)


def _recomputed(block: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(*inputs: Any, **named: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*inputs, **named)
        if torch.compiler.is_compiling():  # what is compiled changes no buffers when it computes again
            return checkpoint(forward, *inputs, use_reentrant=False, **named)
        return checkpoint(forward, *inputs, use_reentrant=False, context_fn=contexts, **named)

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return contextlib.nullcontext(), _remembering_nothing(block)

    return run


@contextlib.contextmanager
def _remembering_nothing(block: nn.Module) -> Iterator[None]:
    """Restore the running statistics of norms behind a block: they learnt in the forward pass already."""
    buffers = list(block.buffers())
    copies = [buffer.clone() for buffer in buffers]
    try:
        yield
    finally:
        if buffers:
            with torch.no_grad():
                torch._foreach_copy_(buffers, copies)
