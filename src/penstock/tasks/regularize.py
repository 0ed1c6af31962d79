"""Batch augmentation of classifiers: mixed images, erased parts, changed tones.

Everything random is drawn with the sample, by its position, and applied to the batch on the device. Images are mixed
in pairs of neighbours of the global batch, 0 and 1, 2 and 3, ...: ranks and micro-batches take whole pairs, so that
their number changes nothing.
"""

from __future__ import annotations

import torch


def toned(pixels: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
    """Pixels of 0 to 255, float32 (n, 3, h, w), with other brightness and contrast; not clipped, as in TensorFlow."""
    brightness, contrast = (draws[:, i].view(-1, 1, 1, 1) for i in (9, 10))
    means = pixels.mean(dim=(2, 3), keepdim=True)
    return (pixels - means) * contrast + means + brightness


def mixed(images: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
    """Normalised images, float32 (n, 3, h, w), mixed with partners, and with a rectangle erased to the mean."""
    own = draws[:, 0].view(-1, 1, 1, 1)
    others = images[partners(len(images), images.device)]
    images = torch.where(_inside(images, draws[:, 1:5]), others, own * images + (1 - own) * others)
    return torch.where(_inside(images, draws[:, 5:9]), 0.0, images)


def mixed_targets(targets: torch.Tensor, draws: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """Probabilities of classes, float32 (n, classes), mixed as the images are, by the pixels that each gives."""
    cut = _cut(draws[:, 1:5], size)
    area = (cut[:, 1] - cut[:, 0]) * (cut[:, 3] - cut[:, 2]) / (size[0] * size[1])
    own = (draws[:, 0] * (1 - area)).unsqueeze(1)
    return own * targets + (1 - own) * targets[partners(len(targets), targets.device)]


def partners(count: int, device: torch.device) -> torch.Tensor:
    """The index of the image that each of a batch is mixed with: its neighbour; one that has none is its own."""
    index = torch.arange(count, device=device) ^ 1
    return torch.where(index < count, index, index - 1)


def whole_pairs(real: torch.Tensor) -> torch.Tensor:
    """Which images of a batch, bool (n,), are there and have a neighbour to be mixed with that is there too."""
    others = partners(len(real), real.device)
    return real & real[others] & (others != torch.arange(len(real), device=real.device))


def unmixed(draws: torch.Tensor, alone: torch.Tensor) -> torch.Tensor:
    """The draws without mixing where `alone`, bool (n,), is true; all other draws stay."""
    own = torch.zeros_like(draws[:, :5])
    own[:, 0] = 1
    return torch.where(alone.unsqueeze(1), torch.cat([own, draws[:, 5:]], dim=1), draws)


def _cut(edges: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """Edges in whole pixels."""
    pixels: torch.Tensor = edges * torch.tensor((size[0], size[0], size[1], size[1]), device=edges.device)
    return pixels.round()


def _inside(images: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    """Which pixels lie in each sample's rectangle: bool (n, 1, h, w)."""
    height, width = images.shape[2:]
    top, bottom, left, right = (edge.view(-1, 1, 1) for edge in _cut(edges, (height, width)).T)
    rows = torch.arange(height, device=images.device).view(1, -1, 1)
    columns = torch.arange(width, device=images.device).view(1, 1, -1)
    inside: torch.Tensor = ((rows >= top) & (rows < bottom) & (columns >= left) & (columns < right)).unsqueeze(1)
    return inside
