"""Loading weights of another run: what fits is loaded, and every tensor is accounted for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import WeightsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch
    from torch import nn


@dataclass(frozen=True, slots=True)
class Loaded:
    """An account of a partial load, by tensor name.

    Attributes:
        loaded: taken over.
        reshaped: present, but of another shape (as a last layer for other classes is); left as initialised.
        missing: in the model only; left as initialised.
        unused: in the file only.
    """

    loaded: tuple[str, ...]
    reshaped: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]

    def lines(self) -> list[str]:
        """The account as people read it."""
        total = len(self.loaded) + len(self.reshaped) + len(self.missing)
        rows = [
            ("another shape, left as initialised", self.reshaped),
            ("not in the run, left as initialised", self.missing),
        ]
        rows.append(("in the run only, not used", self.unused))
        tail = [f"  {what}: {', '.join(names)}" for what, names in rows if names]
        return [f"loaded {len(self.loaded)} of {total} tensors", *tail]


def load_matching(model: nn.Module, tensors: Mapping[str, torch.Tensor], where: str) -> Loaded:
    """Copy the tensors that a model has under the same name and shape.

    Raises:
        WeightsError: less than half of the model's tensors fit: it is another model.
    """
    own = model.state_dict()
    fits = {name: tensors[name] for name, mine in own.items() if name in tensors and tensors[name].shape == mine.shape}
    account = Loaded(
        loaded=tuple(fits),
        reshaped=tuple(name for name in own if name in tensors and name not in fits),
        missing=tuple(name for name in own if name not in tensors),
        unused=tuple(name for name in tensors if name not in own),
    )
    if 2 * len(fits) < len(own):
        raise WeightsError(
            where,
            expected="weights of the same model, but perhaps other classes",
            found=f"{len(fits)} of {len(own)} tensors that fit",
            remedy="Train the model that the other run trained, with --model",
        )
    model.load_state_dict(fits, strict=False)
    return account
