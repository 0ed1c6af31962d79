"""Loading weights of another run: what fits is loaded, and every tensor is accounted for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import nn

from penstock.errors import WeightsError


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
    reshaped: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()

    def lines(self, where: str = "run") -> list[str]:
        """The account as people read it, of a run or a file; modules whose tensors all share a fate stand for them."""
        model = (*self.loaded, *self.reshaped, *self.missing)
        rows = [
            ("loaded", self.loaded, model),
            ("another shape, left as initialised", self.reshaped, model),
            (f"not in the {where}, left as initialised", self.missing, model),
            (f"in the {where} only, not used", self.unused, (*model, *self.unused)),
        ]
        tail = [f"  {what}: {', '.join(_together(names, among))}" for what, names, among in rows if names]
        return [f"loaded {len(self.loaded)} of {len(model)} tensors", *tail]


def _together(names: Collection[str], among: Collection[str]) -> list[str]:
    """The names, but `module.* (n)` for the largest modules all of whose tensors are among them."""
    whole, here = Counter(_modules(among)), Counter(_modules(names))
    found: dict[str, None] = {}
    for name in names:
        module = next((each for each in _modules([name]) if 1 < here[each] == whole[each]), "")
        found[f"{module}* ({here[module]})" if module else name] = None
    return list(found)


def _modules(names: Collection[str]) -> list[str]:
    """The modules that each tensor lies in, the largest first: `a.`, `a.b.` for `a.b.weight`."""
    return [module for name in names for module in accumulate(f"{part}." for part in name.split(".")[:-1])]


def load_matching(model: nn.Module, tensors: Mapping[str, torch.Tensor], where: str, *, strict: bool = True) -> Loaded:
    """Copy the tensors that a model has under the same name and shape.

    Args:
        model: whose weights are replaced.
        tensors: by name.
        where: they are from.
        strict: whether nothing may be left as initialised but a last layer, which is another one for other classes.

    Raises:
        WeightsError: tensors are missing or unused although `strict` is set, or no tensor fits.
    """
    own = model.state_dict()
    fits = {name: tensors[name] for name, mine in own.items() if name in tensors and tensors[name].shape == mine.shape}
    account = Loaded(
        loaded=tuple(fits),
        reshaped=tuple(name for name in own if name in tensors and name not in fits),
        missing=tuple(name for name in own if name not in tensors),
        unused=tuple(name for name in tensors if name not in own),
    )
    lacking = [*account.missing, *(name for name in account.reshaped if not _other_classes(own[name], tensors[name]))]
    lacking += [name for name in account.unused if not name.startswith("auxiliary.")]  # which is for training alone
    if not fits or (lacking and strict):
        named = first_named(_together(lacking, {**own, **tensors}))
        remedy = "Choose the model that these weights are of, with --model"
        if fits:
            remedy += ", or load the tensors that fit with --no-strict"
        raise WeightsError(
            where,
            remedy=remedy,
            message=f"{where}: only {len(fits)} of the {len(own)} tensors of the model are there with the same name "
            f"and shape. These differ: {named}.",
        )
    model.load_state_dict(fits, strict=False)
    return account


def _other_classes(mine: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Whether two tensors differ in the number of outputs only, as last layers do."""
    return 0 < mine.ndim == theirs.ndim and mine.shape[1:] == theirs.shape[1:]


def first_named(names: list[str]) -> str:
    """A few of some names, as there is room for in a line."""
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")  # noqa: PLR2004 - a line
