"""Dropout and stochastic depth whose randomness belongs to samples, not to the process that computes them.

What is dropped of a sample follows from a key of the step, the sample's position and the layer, so that it is the same
however the batch is cut into ranks and micro-batches, and on every device. The numbers come from a hash
of integers in 32 bits (C. Wellons, "Prospecting for hash functions", 2018), in operations that torch.compile fuses and
that activation checkpointing repeats.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import torch
from timm.layers import DropPath  # type: ignore[attr-defined]
from torch import nn
from torchvision.ops import StochasticDepth

_MASK: Final = 0xFFFFFFFF
_FIRST, _SECOND = 0x21F0AAAD, 0x735A2D97  # below 2**31: no product of theirs overflows 64 bits
_UNIT: Final = 2.0**-24


def _mixed(words: torch.Tensor) -> torch.Tensor:
    """A well-mixed function of integers from 0 to 2**32 - 1."""
    words = (words ^ (words >> 16)) * _FIRST & _MASK
    words = (words ^ (words >> 15)) * _SECOND & _MASK
    return words ^ (words >> 15)


class SampleKeys:
    """Keys of the samples that a network is about to see, shared by all layers that drop something.

    Attributes:
        words: int64 of shape (samples, 2), each from 0 to 2**32 - 1; None where samples have no key.
    """

    words: torch.Tensor | None = None

    def __init__(self) -> None:
        self._step: tuple[int, ...] = (0, 0, 0, 0)

    def begin(self, key: bytes) -> None:
        """Begin a step, whose key of 16 bytes is the same on every rank."""
        self._step = struct.unpack("<4I", key)

    def show(self, places: torch.Tensor) -> None:
        """Say which samples the network sees next, by a number from 0 to 2**32 - 1 for each: int64 (samples,)."""
        first, second = (_mixed(_mixed(places ^ one) ^ other) for one, other in (self._step[:2], self._step[2:]))
        self.words = torch.stack([first, second], dim=1)


class _Keyed:
    """What all such layers share.

    Attributes:
        keys: of the samples.
        number: tells layers of a network apart.
    """

    keys: SampleKeys
    number: int

    def dropped(self, features: torch.Tensor, ratio: float, axes: int) -> torch.Tensor | None:
        """True where something is dropped; None if it is not known which sample is which.

        Args:
            features: (n, ...), with as many rows for each sample, one sample after the other.
            ratio: of what is dropped.
            axes: that have values of their own; along all later ones, values are dropped together.
        """
        words = self.keys.words
        if words is None or features.shape[0] % words.shape[0]:
            return None
        shape = features.shape[:axes]
        index = torch.arange(shape.numel() // words.shape[0], device=features.device)
        first = _mixed(words[:, :1] ^ (self.number * _FIRST & _MASK))
        uniform = (_mixed(_mixed(index ^ first) ^ words[:, 1:]) >> 8) * _UNIT
        return (uniform < ratio).view(*shape, *[1] * (features.ndim - axes))


class KeyedDropout(_Keyed, nn.Dropout):
    """Zeros single values."""

    axes: int | None = None

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """(n, ...), the same shape."""
        if not self.training or self.p == 0:
            return features
        dropped = self.dropped(features, self.p, self.axes or features.ndim)
        if dropped is None:
            return self._unkeyed(features)
        kept = 1 - self.p if self.p < 1 else 1
        return torch.where(dropped, 0, features / kept)

    def _unkeyed(self, features: torch.Tensor) -> torch.Tensor:
        return super().forward(features)


class KeyedChannelDropout(KeyedDropout):
    """Zeros whole channels of (n, channels, ...)."""

    axes = 2

    def _unkeyed(self, features: torch.Tensor) -> torch.Tensor:
        return torch.feature_dropout(features, self.p, self.training)


class KeyedDropPath(_Keyed, DropPath):
    """Zeros whole samples of a branch (stochastic depth)."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """(n, ...), the same shape."""
        if not self.training or self.drop_prob == 0:
            return features
        dropped = self.dropped(features, self.drop_prob, 1)
        if dropped is None:
            return torch.as_tensor(super().forward(features))  # type: ignore[no-untyped-call]
        scale = 1 - self.drop_prob if self.scale_by_keep and self.drop_prob < 1 else 1
        return torch.where(dropped, 0, features / scale)


def key_dropout(model: nn.Module) -> SampleKeys | None:
    """Replace a model's layers of dropout and stochastic depth by keyed ones, where that is; their keys, or None where
    there are none. Dropout that is no layer, as inside an attention, stays as it is.
    """
    keys, found = SampleKeys(), dict[nn.Module, nn.Module]()
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if child not in found:
                made = _keyed(child)
                if made is None:
                    continue
                made.keys, made.number, made.training = keys, len(found), child.training
                found[child] = made
            setattr(parent, name, found[child])
    return keys if found else None


def _keyed(layer: Any) -> Any:
    """What takes a layer's place; None for others."""
    kind = type(layer)
    if kind is nn.Dropout:
        return KeyedDropout(layer.p)
    if kind in (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d):
        return KeyedChannelDropout(layer.p)
    if kind is DropPath:
        return KeyedDropPath(layer.drop_prob, layer.scale_by_keep)
    if kind is StochasticDepth and layer.mode == "row":
        return KeyedDropPath(layer.p)
    return None
