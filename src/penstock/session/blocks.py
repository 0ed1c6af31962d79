"""The blocks that a network is built of, by which it is cut: what ranks hold a part of, and what is computed again."""

from __future__ import annotations

from typing import Final

from torch import nn

_CONTAINERS: Final = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


def blocks(model: nn.Module) -> dict[str, nn.Module]:
    """The innermost modules in a sequence, list or dictionary, by name, such as residual blocks; None without any."""
    listed = {
        f"{place}.{name}" if place else name
        for place, parent in model.named_modules()
        if isinstance(parent, _CONTAINERS)
        for name, child in parent.named_children()
        if not isinstance(child, _CONTAINERS) and any(True for _ in child.children())
    }
    return {name: each for name, each in model.named_modules() if name in listed and not _holds(name, listed)}


def _holds(name: str, others: set[str]) -> bool:
    """Whether another one lies inside."""
    return any(other.startswith(f"{name}.") for other in others)
