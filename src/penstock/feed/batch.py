"""What a feed gives."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray

from penstock.values import Cursor


@dataclass(frozen=True, slots=True)
class Batch:
    """One rank's slice of a global batch.

    Its memory is its own for as long as any of its tensors, or a view of one, lives; then the feed uses it again.

    Attributes:
        tensors: by name, each of shape (samples, ...).
        weight: float32 of shape (samples,); 1 for a real sample, 0 for padding and for offsets that hold no record.
        cursor: the state of the data path after this batch, the same on every rank.
        origins: the samples' addresses as people read them, "" for padding.
        first: the position of the first sample; the others follow it.
    """

    tensors: Mapping[str, torch.Tensor]
    weight: torch.Tensor
    cursor: Cursor
    origins: tuple[str, ...]
    first: int = 0

    def __len__(self) -> int:
        return len(self.origins)

    def __repr__(self) -> str:
        tensors = (f"{name} {tuple(each.shape)}" for name, each in self.tensors.items())
        return f"<Batch of {len(self)} up to position {self.cursor.position:,}: {', '.join(tensors)}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{tuple(each.shape)}</td><td>{str(each.dtype).removeprefix('torch.')}"
            f"</td><td>{each.min().item():.4g} to {each.max().item():.4g}</td></tr>"
            for name, each in self.tensors.items()
            if each.numel()
        )
        title = f"{len(self)} samples, up to position {self.cursor.position:,}: {', '.join(filter(None, self.origins))}"
        heads = "<tr><th>tensor</th><th>shape</th><th>dtype</th><th>values</th></tr>"
        return f"<b>{html.escape(title)}</b><table>{heads}{rows}</table>"


@dataclass(frozen=True, slots=True)
class FedSample:
    """One prepared sample.

    Attributes:
        arrays: by name, each without a batch axis.
        weight: 1, or 0 where the source holds no record any more: then the arrays are zeros.
        origin: where the record is.
        position: in the plan.
    """

    arrays: Mapping[str, NDArray[Any]]
    weight: float
    origin: str
    position: int
