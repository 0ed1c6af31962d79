"""Two small networks for CIFAR: TensorFlow's tutorial, and one that learns in 8 epochs."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

import torch
from torch import nn

_PATCH: Final = 2  # side of the patches that are whitened
_EPSILON: Final = 5e-4
_MOMENTUM: Final = 0.4  # of running statistics: batches are large, and few


class TutorialNetwork(nn.Module):
    """The network of TensorFlow's CIFAR-10 tutorial (cifar10.py, 2016), for 24 x 24; hidden linear layers decay."""

    crop_side = 24

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.encoder = nn.ModuleDict(
            {
                "conv1": nn.Conv2d(3, 64, 5, padding=2),
                "pool": nn.MaxPool2d(3, 2, ceil_mode=True),
                "norm": nn.LocalResponseNorm(9, alpha=0.001, beta=0.75, k=1.0),
                "conv2": nn.Conv2d(64, 64, 5, padding=2),
                "local3": nn.Linear(6 * 6 * 64, 384),
                "local4": nn.Linear(384, 192),
            }
        )
        self.head = nn.Linear(192, classes)
        for name, spread, bias in (
            ("conv1", 0.05, 0.0),
            ("conv2", 0.05, 0.1),
            ("local3", 0.04, 0.1),
            ("local4", 0.04, 0.1),
        ):
            _truncated(self.encoder[name], spread, bias)
        _truncated(self.head, 1 / 192, 0.0)

    def no_weight_decay(self) -> AbstractSet[str]:
        """The names of the weights that do not decay, as timm's models say it."""
        return {"encoder.conv1.weight", "encoder.conv2.weight", "head.weight"}

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits (n, classes) from float (n, 3, 24, 24)."""
        layers = self.encoder
        x = layers["norm"](layers["pool"](layers["conv1"](images).relu()))
        x = layers["pool"](layers["norm"](layers["conv2"](x).relu()))
        x = layers["local4"](layers["local3"](x.flatten(1)).relu()).relu()
        logits: torch.Tensor = self.head(x)
        return logits


def _truncated(layer: nn.Module, spread: float, bias: float) -> None:
    """TensorFlow's truncated normal: no further than two deviations."""
    assert isinstance(layer, nn.Conv2d | nn.Linear)  # noqa: S101 - what has weight and bias
    nn.init.trunc_normal_(layer.weight, std=spread, a=-2 * spread, b=2 * spread)
    assert layer.bias is not None  # noqa: S101 - none is made without
    nn.init.constant_(layer.bias, bias)


class FastNetwork(nn.Module):
    """The network of airbench94 (Jordan 2024, arXiv:2404.00498), for 32 x 32 images."""

    crop_side = 32

    def __init__(self, classes: int) -> None:
        super().__init__()
        wide = 2 * 3 * _PATCH**2
        first = nn.Conv2d(3, wide, _PATCH)
        first.weight.requires_grad_(False)  # noqa: FBT003 - PyTorch's own
        self.encoder = nn.Sequential(
            first, nn.GELU(), _Pair(wide, 64), _Pair(64, 256), _Pair(256, 256), nn.MaxPool2d(3)
        )
        self.head = nn.Linear(256, classes, bias=False)

    @torch.no_grad()
    def initialize_from(self, images: torch.Tensor) -> None:
        """Set the first layer, which does not learn, to whitened principal patches of images, in both signs."""
        patches = nn.functional.unfold(images, _PATCH).transpose(1, 2).flatten(0, 1).double()
        values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
        scaled = (vectors.T / (values + _EPSILON).sqrt().unsqueeze(1)).flip(0).view(-1, 3, _PATCH, _PATCH)
        first = self.encoder[0]
        assert isinstance(first, nn.Conv2d)  # noqa: S101 - see above
        first.weight.copy_(torch.cat([scaled, -scaled]))
        if first.bias is not None:
            first.bias.zero_()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits (n, classes) from float (n, 3, 32, 32)."""
        logits: torch.Tensor = self.head(self.encoder(images).flatten(1)) / 9
        return logits


class _Pair(nn.Sequential):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__(
            _convolution(inside, outside), nn.MaxPool2d(2), _norm(outside), nn.GELU(),
            _convolution(outside, outside), _norm(outside), nn.GELU(),
        )  # fmt: skip


def _convolution(inside: int, outside: int) -> nn.Conv2d:
    layer = nn.Conv2d(inside, outside, 3, padding=1, bias=False)
    nn.init.dirac_(layer.weight[:inside])
    return layer


def _norm(channels: int) -> nn.BatchNorm2d:
    layer = nn.BatchNorm2d(channels, eps=1e-12, momentum=_MOMENTUM)
    layer.weight.requires_grad_(False)  # noqa: FBT003 - PyTorch's own
    return layer
