"""What a network expects of its input."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import timm
import torch

from penstock.images import PixelFormat

_USUAL: Final = 3  # deviations
_BYTES: Final = 257  # 65535 / 255


@dataclass(frozen=True, slots=True)
class Normalization:
    """`(pixel / 255 - mean) / std`, RGB, or as many channels as there are means.

    Attributes:
        mean, std: of each channel.
        alone: whether every image is brought to mean 0 and deviation 1 by itself first, all channels together
            (tf.image.per_image_standardization); `mean` is then only what lies outside an image.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    alone: bool = False

    @property
    def fill(self) -> tuple[int, ...]:
        """The mean pixel, 0 to 255: what lies outside the image."""
        return self.mean_pixel(255)

    def mean_pixel(self, highest: int) -> tuple[int, ...]:
        """The mean pixel of images whose values are from 0 to `highest`."""
        return tuple(round(highest * value) for value in self.mean)

    def usual_values(self, highest: int) -> tuple[int, int]:
        """The values within three deviations of the mean in any channel, of images whose values go up to `highest`."""
        low = min(mean - _USUAL * std for mean, std in zip(self.mean, self.std, strict=True))
        high = max(mean + _USUAL * std for mean, std in zip(self.mean, self.std, strict=True))
        return round(highest * max(0.0, low)), round(highest * min(1.0, high))

    def over(self, channels: int) -> Normalization:
        """For another number of channels: begun again from the first, as timm spreads the weights of its filters."""
        chosen = [index % len(self.mean) for index in range(channels)]
        return replace(self, mean=tuple(self.mean[i] for i in chosen), std=tuple(self.std[i] for i in chosen))

    def apply(self, pixels: torch.Tensor) -> torch.Tensor:
        """Pixels from 0 to 255, float32 (n, channels, h, w), normalised; they may be written over."""
        if self.alone:
            spread = pixels.std(dim=(1, 2, 3), correction=0, keepdim=True)
            smallest = math.prod(pixels.shape[1:]) ** -0.5
            return (pixels - pixels.mean(dim=(1, 2, 3), keepdim=True)) / spread.clamp(min=smallest)
        mean = torch.tensor(self.mean, device=pixels.device).view(1, -1, 1, 1)
        std = torch.tensor(self.std, device=pixels.device).view(1, -1, 1, 1)
        return pixels.sub_(255 * mean).div_(255 * std)


IMAGENET = Normalization((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Of most published weights."""


def of_backbone(name: str) -> Normalization:
    """The normalisation that timm's weights of a backbone were trained with; ImageNet's where it knows none."""
    found = timm.models.get_pretrained_cfg(name)
    if found is None:
        return IMAGENET
    (red, green, blue), spread = (float(value) for value in found.mean), [float(value) for value in found.std]
    return Normalization((red, green, blue), (spread[0], spread[1], spread[2]))


def blank_images(count: int, size: tuple[int, int], pixels: PixelFormat) -> torch.Tensor:
    """Black images of a format: uint8 or uint16 (count, height, width, channels)."""
    return torch.zeros((count, *size, pixels.channels), dtype=getattr(torch, pixels.dtype))


def as_floats(images: torch.Tensor) -> torch.Tensor:
    """Float32 (n, c, h, w) of 0 to 255, channels last in memory, from uint8 or float, or from 16 bits (n, h, w, c)."""
    floats = images.permute(0, 3, 1, 2).float()
    is_deep = images.dtype in (torch.uint16, torch.int32)
    return floats.div_(_BYTES) if is_deep else floats
