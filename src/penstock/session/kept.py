"""What a step computes and hooks have asked for with `wants`; nothing else is kept."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

import torch
from torch import nn

from penstock.errors import RecipeError

OUTPUTS: Final = "outputs"
PARTS: Final = "loss_parts"


class KeptValues:
    """The values of one step on this rank, without their gradients.

    Attributes:
        wanted: "outputs", "loss_parts", and names of modules.
        is_watching: whether outputs of modules are kept; not while a backward pass computes them again.
        values: by these names. Outputs of the model and of modules are lists with an entry for every micro-batch;
            the parts of the loss are a tensor of shape (losses,) over the global batch.
    """

    def __init__(self, wanted: Collection[str] = ()) -> None:
        self.wanted = frozenset(wanted)
        self.is_watching = True
        self.values: dict[str, Any] = {}
        self.clear()

    def clear(self) -> None:
        """Forget the values of a pass that is repeated."""
        self.values = {name: [] for name in self.wanted if name != PARTS}

    @contextlib.contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """Keep what the modules of a model give, for the length of a block."""
        names = self.wanted - {OUTPUTS, PARTS}
        handles = [model.get_submodule(name).register_forward_hook(self._keeper(name)) for name in sorted(names)]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _keeper(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def keep(module: nn.Module, inputs: Any, outputs: Any) -> None:  # noqa: ARG001 - of its seam
            if self.is_watching:
                self.values[name].append(_detached(outputs))

        return keep

    def keep_outputs(self, outputs: Any) -> None:
        """Keep what the model gave for a micro-batch, where somebody wants it."""
        if OUTPUTS in self.wanted:
            self.values[OUTPUTS].append(_detached(outputs))

    def keep_parts(self, parts: torch.Tensor) -> None:
        """Keep the parts of the loss, where somebody wants them."""
        if PARTS in self.wanted:
            self.values[PARTS] = parts.detach()


def check_wants(hook: str, wanted: Collection[str], model: nn.Module, *, compiled: bool) -> None:
    """Whether a step can keep what a hook wants.

    Args:
        hook: its name, for errors.
        wanted: by `Hook.wants`.
        model: that is trained.
        compiled: whether it goes through torch.compile, which runs no hooks of modules.

    Raises:
        RecipeError: there is no such module, or its outputs cannot be seen.
    """
    modules = [name for name, _ in model.named_modules() if name]
    for name in sorted(set(wanted) - {OUTPUTS, PARTS}):
        if name not in modules:
            near = difflib.get_close_matches(name, modules, n=1, cutoff=0.5)
            raise RecipeError(
                f"{hook}.wants",
                expected=f"{OUTPUTS}, {PARTS} or the name of a module of the model",
                found=name,
                remedy=f"Did you mean {near[0]}?" if near else "See the names with model.named_modules()",
            )
        if compiled:
            raise RecipeError(
                f"{hook}.wants",
                expected="no outputs of modules with train.compile",
                found=name,
                remedy="Set train.compile=false, or remove the hook",
            )


def _detached(values: Any) -> Any:
    """Tensors in lists, tuples and dictionaries without their gradients."""
    if isinstance(values, torch.Tensor):
        return values.detach()
    if isinstance(values, dict):
        return {name: _detached(value) for name, value in values.items()}
    return [_detached(value) for value in values] if isinstance(values, (list, tuple)) else values
