"""What a step changes before its update, kept so that a step that fails can be undone: a failed training then saves
the last good step.

The forward pass of a step changes the model's buffers (the running statistics of norms) and nothing else; the update
changes weights, optimizer and moving average.
"""

from __future__ import annotations

import torch
from torch import nn


class Undo:
    """Copies of a model's buffers, made before every step.

    Attributes:
        is_begun: whether a step has begun that is not finished.
        is_torn: whether weights are being updated, which cannot be undone.
    """

    def __init__(self, model: nn.Module) -> None:
        self.is_begun = self.is_torn = False
        self._modules = [module._buffers for module in model.modules()]  # noqa: SLF001 - to walk a model takes long
        self._buffers: list[torch.Tensor] = []
        self._copies: list[torch.Tensor] = []

    @torch.no_grad()
    def begin(self) -> None:
        """A step begins: keep the buffers."""
        buffers = [each for named in self._modules for each in named.values() if each is not None]
        if [*map(id, buffers)] == [*map(id, self._buffers)]:
            _copy(buffers, self._copies)
        else:  # the first step, or a module has put another tensor in the place of its own
            self._buffers, self._copies = buffers, [buffer.clone() for buffer in buffers]
        self.is_begun = True

    def update(self) -> None:
        """Weights are about to be updated."""
        self.is_torn = True

    def end(self) -> None:
        """The step is done."""
        self.is_begun = self.is_torn = False

    @torch.no_grad()
    def restore(self) -> bool:
        """Undo a step that has begun; whether the model is as after the step before."""
        if self.is_torn:
            return False
        if self.is_begun:
            self.restore_again()
            self.is_begun = False
        return True

    @torch.no_grad()
    def restore_again(self) -> None:
        """Give the buffers their values from before the last step that has begun."""
        _copy(self._copies, self._buffers)


def _copy(given: list[torch.Tensor], taken: list[torch.Tensor]) -> None:
    """Copy tensors into others, which cost one launch on a GPU for many."""
    if given:
        torch._foreach_copy_(taken, given)
