"""What DeepLab does between backbone and decoder: atrous spatial pyramid pooling, or a dense prediction cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

from penstock.errors import RecipeError
from penstock.settings import Branch, DeepLabConfig

_CELL_STRIDE: Final = 16  # that rates of cells are published for
_RATES: Final = {32: (3, 6, 9), 16: (6, 12, 18), 8: (12, 24, 36)}
DROPOUT: Final = 0.1
"""Share of features that the last layers leave out in training."""


DPC: Final = (Branch(-1, (1, 6)), Branch(0, (18, 15)), Branch(1, (6, 3)), Branch(0, (1, 1)), Branch(0, (6, 21)))
"""The best cell that was found on Cityscapes, as DeepLab publishes it (branch5_top1_cityscapes)."""


def convolution(
    inside: int,
    outside: int,
    size: int = 1,
    rate: int | tuple[int, int] = 1,
    *,
    separable: bool = False,
    norms: bool = True,
) -> nn.Sequential:
    """Convolution, batch normalisation, ReLU; a separable one has all three twice (DeepLabV3+)."""
    rates = (rate, rate) if isinstance(rate, int) else rate
    padding = rates[0] * (size // 2), rates[1] * (size // 2)
    if not separable:
        whole = nn.Conv2d(inside, outside, size, padding=padding, dilation=rates, bias=not norms)
        return nn.Sequential(*_normed(whole, norms=norms))
    depth = nn.Conv2d(inside, inside, size, padding=padding, dilation=rates, groups=inside, bias=not norms)
    point = nn.Conv2d(inside, outside, 1, bias=not norms)
    return nn.Sequential(*_normed(depth, norms=norms), *_normed(point, norms=norms))


def _normed(layer: nn.Conv2d, *, norms: bool) -> list[nn.Module]:
    return [layer, nn.BatchNorm2d(layer.out_channels), nn.ReLU()] if norms else [layer, nn.ReLU()]


class AtrousPyramid(nn.Module):
    """Atrous spatial pyramid pooling (ASPP): a 1 x 1 convolution, one at every rate, and the mean over the image."""

    def __init__(self, inside: int, parts: DeepLabConfig) -> None:
        super().__init__()
        rates, width, norms = parts.rates or _RATES[parts.output_stride], parts.channels, parts.norms
        self.point = convolution(inside, width, norms=norms)
        self.atrous = nn.ModuleList(
            convolution(inside, width, 3, rate, separable=parts.separable, norms=norms) for rate in rates
        )
        beside = parts.pooling and not parts.squeeze_excite
        self.pooling = convolution(inside, width, norms=norms) if beside else None
        self.squeeze = nn.Sequential(nn.Conv2d(inside, width, 1), nn.Sigmoid()) if parts.squeeze_excite else None
        branches = 1 + len(rates) + int(beside)
        self.outside = width if parts.projection else branches * width
        together = [convolution(branches * width, width, norms=norms)] if parts.projection else []
        self.project = nn.Sequential(*together, nn.Dropout(DROPOUT))
        self.parts = parts

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Features of the same size, with `channels` channels."""
        found = [self.point(features), *(branch(features) for branch in self.atrous)]
        mean = features.mean(dim=(2, 3), keepdim=True)
        if self.pooling is not None:
            found.append(self._pooled(features) if self.parts.pooling_size else self.pooling(mean).expand_as(found[0]))
        projected: torch.Tensor = self.project(torch.cat(found, dim=1))
        return projected if self.squeeze is None else projected * self.squeeze(mean)

    def _pooled(self, features: torch.Tensor) -> torch.Tensor:
        """Image pooling branch: means over windows of `pooling_size` pixels, or over all of a smaller image."""
        assert self.pooling is not None  # noqa: S101 - asked before
        size = features.shape[2:]
        pixels = zip(self.parts.pooling_size, size, strict=True)
        window = [min(side, max(1, length // self.parts.output_stride)) for length, side in pixels]
        means = self.pooling(F.avg_pool2d(features, window, self.parts.pooling_stride))
        return F.interpolate(means, size, mode="bilinear", align_corners=False)


class PredictionCell(nn.Module):
    """A dense prediction cell: branches on features or on one another, all put beside each other and projected."""

    def __init__(self, inside: int, parts: DeepLabConfig) -> None:
        super().__init__()
        self.cell, width = parts.cell, parts.channels
        self.outside = width
        self.branches = nn.ModuleList(
            _operation(branch, inside if branch.of < 0 else width, parts) for branch in parts.cell
        )
        self.project = nn.Sequential(
            nn.Dropout(DROPOUT), convolution(len(parts.cell) * width, width, norms=parts.norms)
        )

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Features of the same size, with `channels` channels."""
        found: list[torch.Tensor] = []
        for branch, operation in zip(self.cell, self.branches, strict=True):
            given = features if branch.of < 0 else found[branch.of]
            if any(branch.grid):
                sides = [-(-side // max(1, parts)) for side, parts in zip(given.shape[2:], branch.grid, strict=True)]
                pooled = operation(F.avg_pool2d(given, sides, stride=1))
                found.append(F.interpolate(pooled, size=given.shape[2:], mode="bilinear", align_corners=True))
            else:
                found.append(operation(given))
        projected: torch.Tensor = self.project(torch.cat(found, dim=1))
        return projected


def _operation(branch: Branch, inside: int, parts: DeepLabConfig) -> nn.Sequential:
    if any(branch.grid) or not any(branch.rate):
        return convolution(inside, parts.channels, norms=parts.norms)
    height, width = (max(1, rate * _CELL_STRIDE // parts.output_stride) for rate in branch.rate)
    return convolution(inside, parts.channels, 3, (height, width), separable=True, norms=parts.norms)


def context(inside: int, parts: DeepLabConfig) -> AtrousPyramid | PredictionCell:
    """The pyramid, or the cell where there is one.

    Raises:
        RecipeError: a branch of the cell works on one that comes later, or parts of the pyramid are set beside it.
    """
    if not parts.cell:
        return AtrousPyramid(inside, parts)
    _check_branches(parts.cell)
    plain = DeepLabConfig()
    names = ("rates", "pooling", "pooling_size", "squeeze_excite", "separable", "projection")
    if changed := [name for name in names if getattr(parts, name) != getattr(plain, name)]:
        raise RecipeError(
            "model.deeplab.cell",
            expected="no settings of the ASPP pyramid, which the cell replaces",
            found=", ".join(changed),
            remedy="Leave them out; a cell's branches have rates of their own",
        )
    return PredictionCell(inside, parts)


def _check_branches(cell: Sequence[Branch]) -> None:
    for number, branch in enumerate(cell):
        if not -1 <= branch.of < number or min(*branch.rate, *branch.grid) < 0:
            raise RecipeError(
                f"model.deeplab.cell, branch {number}",
                expected="a rate and a grid of at least 0, on the features (-1) or on an earlier branch",
                found=f"of = {branch.of}, rate = {list(branch.rate)}, grid = {list(branch.grid)}",
                remedy="Count branches from 0",
            )
