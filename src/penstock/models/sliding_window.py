"""A window that slides over images which a network is not to see whole."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

from penstock.models.segmentation import filled
from penstock.settings.predicting import OVERLAP

_TINY: Final = 1e-12


@dataclass(frozen=True)
class Window:
    """A sliding window: its side in pixels, and the fraction of it by which neighbours overlap."""

    side: int = 512
    overlap: float = OVERLAP

    @property
    def name(self) -> str:
        """For a file's name: `window512`, or `window512-0.5` where the overlap was chosen."""
        return f"window{self.side}" + (f"-{self.overlap:g}" if self.overlap != OVERLAP else "")

    def starts(self, length: int) -> list[int]:
        """Where the windows begin along an axis of `length` pixels; the last one ends at its end."""
        if length <= self.side:
            return [0]
        stride = max(1, int(self.side * (1 - self.overlap)))
        return [*range(0, length - self.side, stride), length - self.side]


class Windowed(nn.Module):
    """Maps float (n, channels, h, w) to the logarithm of the windows' mean probabilities, float32 (n, classes, h, w).

    Where windows overlap, probabilities are weighted by a Gaussian around each window's middle (as nnU-Net does), so
    that no seams show. Each window goes to `device`; sums stay where the images are, so that the device's memory does
    not grow with them. Being logarithms, the result can take the place of logits.
    """

    def __init__(self, model: nn.Module, window: Window, device: torch.device) -> None:
        super().__init__()
        self.model, self.window, self.device = model, window, device

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Slide and average."""
        total: torch.Tensor | None = None
        side = self.window.side
        for y, x in product(*(self.window.starts(length) for length in images.shape[2:])):
            tile = images[:, :, y : y + side, x : x + side]
            found = self._probabilities(tile).to(images.device)
            if total is None:
                total = found.new_zeros((*found.shape[:2], *images.shape[2:]))
            here = total[:, :, y : y + side, x : x + side]
            here += bell(found.shape[2], found.shape[3]).to(images.device) * found
        assert total is not None  # noqa: S101 - there is a window
        return total.div_(total.sum(dim=1, keepdim=True)).clamp_(min=_TINY).log_()

    def _probabilities(self, tile: torch.Tensor) -> torch.Tensor:
        """Class probabilities of a window, filled up with the mean to a size that every network takes."""
        height, width = tile.shape[2:]
        side = filled(self.window.side)
        padded = F.pad(tile, (0, side - width, 0, side - height)).to(self.device)
        logits: torch.Tensor = self.model(padded)
        return logits.float().softmax(dim=1)[:, :, :height, :width]


@lru_cache(maxsize=8)
def bell(height: int, width: int) -> torch.Tensor:
    """A Gaussian of both axes, whose deviation is an eighth of the side; nowhere too small to count. Float32."""
    sides = [torch.exp(-32 * ((torch.arange(n) + 0.5) / n - 0.5) ** 2) for n in (height, width)]
    return torch.outer(*sides).clamp(min=1e-4)
