"""DeepLab as its authors trained it (Chen et al. 2017, 2018): `deeplab:BACKBONE`, every part of it a setting.

segmentation_models.pytorch has DeepLabV3 and V3+ with one choice of parts; these are the others: any output stride and
rates, multi-grid, a sum in the decoder, a pyramid of images, losses at every scale, small logits, an auxiliary head.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

import timm
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

from penstock.errors import RecipeError
from penstock.models import pretrained
from penstock.models.atrous import DROPOUT, context, convolution
from penstock.settings import DeepLabConfig

_SKIP: Final = 48  # channels that the decoder's features are brought to


class Decoder(nn.Module):
    """Finer features put beside coarser ones, or added to them."""

    def __init__(self, inside: int, coarse: int, parts: DeepLabConfig, classes: int = 0) -> None:
        super().__init__()
        self.adds = parts.decoder_sum
        width = parts.channels
        self.skip = convolution(inside, coarse if self.adds else _SKIP)
        first = coarse if self.adds else coarse + _SKIP
        if classes:  # they are the logits, without a norm or a cut at 0
            self.refine = nn.Sequential(nn.Conv2d(first, classes, 3, padding=1))
        else:
            self.refine = nn.Sequential(
                convolution(first, width, 3, separable=parts.separable),
                convolution(width, width, 3, separable=parts.separable),
            )

    def forward(self, coarse: torch.Tensor, fine: torch.Tensor) -> torch.Tensor:
        """Features of the size of `fine`."""
        skip = self.skip(fine)
        coarse = _resized(coarse, skip.shape[2:])
        refined: torch.Tensor = self.refine(coarse + skip if self.adds else torch.cat([coarse, skip], dim=1))
        return refined


class DeepLabNetwork(nn.Module):
    """The whole: float (n, 3, h, w) to logits (n, classes, h, w).

    In training it gives a list of (weight, logits): those of all sizes of the pyramid merged, of each of them, and of
    the auxiliary head; of the image's size, or where `upsample` is off `stride` times smaller.
    """

    crop_multiple = 32

    def __init__(self, encoder: Any, classes: int, parts: DeepLabConfig) -> None:
        super().__init__()
        channels, strides = encoder.feature_info.channels(), encoder.feature_info.reduction()
        self.parts = parts
        self.encoder = encoder
        self.aspp = context(channels[-1], parts)
        self.taken = [strides.index(stride) for stride in parts.decoder_strides] if parts.decoder else []
        widths = [self.aspp.outside, *[parts.channels] * (len(self.taken) - 1)]
        stages = [
            Decoder(channels[index], width, parts, classes if parts.decoder_logits and index == self.taken[-1] else 0)
            for index, width in zip(self.taken, widths, strict=False)
        ]
        self.coarser = nn.ModuleList(stages[:-1])
        self.decoder = stages[-1] if stages else None
        width = parts.channels if stages else self.aspp.outside
        kernel = parts.logits_kernel
        self.logits = nn.Identity() if parts.decoder_logits else nn.Conv2d(width, classes, kernel, padding=kernel // 2)
        self.auxiliary = _head(channels[-2], classes, parts.channels) if parts.aux_loss_weight else None

    def forward(self, images: torch.Tensor) -> Any:
        """Logits, or in training a list of weighted ones."""
        sizes = [_resized(images, _scaled(images, scale)) for scale in self.parts.image_pyramid]
        seen = [self._look(each) for each in sizes]
        end = images.shape[2:] if self.parts.upsample or not self.training else _shrunk(images, self.parts.stride)
        scales = [_resized(logits, end) for logits, _ in seen]
        merged = functools.reduce(torch.maximum, scales)
        if self.parts.merge == "average":
            merged = torch.stack(scales).mean(dim=0)
        if not self.training:
            return merged
        weighted = [(1.0, merged), *((1.0, each) for each in scales if len(scales) > 1)]
        return weighted + [(self.parts.aux_loss_weight, _resized(extra, end)) for _, extra in seen if extra is not None]

    def _look(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Logits of one size, and in training those of the auxiliary head."""
        features = self.encoder(images)
        found = self.aspp(features[-1])
        if self.decoder is not None:
            for index, stage in zip(self.taken, [*self.coarser, self.decoder], strict=True):
                found = stage(found, features[index])
        extra = self.auxiliary(features[-2]) if self.training and self.auxiliary is not None else None
        return self.logits(found), extra


def _head(inside: int, classes: int, width: int) -> nn.Sequential:
    """A small head of its own, as PSPNet's and MMSegmentation's auxiliary ones."""
    return nn.Sequential(convolution(inside, width, 3), nn.Dropout(DROPOUT), nn.Conv2d(width, classes, 1))


def _resized(values: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    if tuple(values.shape[2:]) == tuple(size):
        return values
    return F.interpolate(values, size=tuple(size), mode="bilinear", align_corners=False)


def _scaled(images: torch.Tensor, scale: float) -> tuple[int, int]:
    height, width = images.shape[2:]
    return max(1, round(height * scale)), max(1, round(width * scale))


def _shrunk(images: torch.Tensor, stride: int) -> tuple[int, int]:
    return -(-images.shape[2] // stride), -(-images.shape[3] // stride)


def build_deeplab(
    name: str, backbone: str, classes: int, weights: str, parts: DeepLabConfig, channels: int = 3
) -> DeepLabNetwork:
    """A DeepLab network on a backbone of timm.

    Args:
        name: the model's, for errors.
        backbone: as timm names it.
        classes: the number of classes.
        weights: of the backbone: "pretrained" (timm's), "none", or the path of a file of timm's format.
        parts: what it is made of.
        channels: of the images.

    Raises:
        RecipeError: the backbone cannot be dilated.
        WeightsError: the weights cannot be had, or do not fit.
    """
    _check_parts(parts)
    build = functools.partial(_encoder, name, backbone, parts, in_chans=channels)
    encoder = pretrained.weighted(build, backbone, weights)
    _multiply(encoder, parts.multi_grid)
    return DeepLabNetwork(encoder, classes, parts)


def _check_parts(parts: DeepLabConfig) -> None:
    """Check rules between DeepLab settings, which types cannot express."""
    strides = parts.decoder_strides
    finer = list(strides) == sorted(set(strides), reverse=True) and set(strides) <= {4, 8, 16}
    below = ", ".join(str(stride) for stride in (16, 8, 4) if stride < parts.output_stride)
    if not strides or not finer or max(strides) >= parts.output_stride:
        raise _refused(
            "decoder_strides",
            f"one or more of {below}, from coarse to fine (smaller than the output stride of {parts.output_stride})",
            strides,
        )
    if not parts.decoder and (parts.decoder_logits or parts.decoder_sum or strides != (4,)):
        raise _refused("decoder", "true, as there are settings of it", parts.decoder)
    if parts.decoder_logits and parts.logits_kernel != 1:
        raise _refused("logits_kernel", "1, as the decoder gives the logits", parts.logits_kernel)
    if parts.logits_kernel % 2 != 1:
        raise _refused("logits_kernel", "an odd number", parts.logits_kernel)
    sides = (*parts.pooling_size, *parts.pooling_stride)
    if len(parts.pooling_size) not in (0, 2) or min(sides) < 1:
        raise _refused("pooling_size", "a height and a width, and steps of at least 1", sides)
    if parts.pooling_size and (parts.squeeze_excite or not parts.pooling):
        raise _refused("pooling_size", "none, as there is no image pooling", parts.pooling_size)
    if parts.squeeze_excite and not parts.projection:
        raise _refused("projection", "true, as its channels are weighed", parts.projection)


def _refused(part: str, expected: str, found: object) -> RecipeError:
    shown = ", ".join(map(str, found)) if isinstance(found, tuple) else str(found).lower()
    remedy = "Change one of the two settings" if ", as " in expected else "Change the setting"
    return RecipeError(f"model.deeplab.{part}", expected=expected, found=shown or "none", remedy=remedy)


def _encoder(name: str, backbone: str, parts: DeepLabConfig, *, encoder_weights: object, **options: Any) -> Any:
    """Features for the decoder, of the stage before the last, and of the last, dilated as the output stride wants."""
    wanted = sorted(parts.decoder_strides) if parts.decoder else []
    try:
        every: Any = timm.create_model(backbone, features_only=True, output_stride=parts.output_stride)
        strides = every.feature_info.reduction()
        chosen = sorted({*map(strides.index, wanted), len(strides) - 2, len(strides) - 1})
    except (AssertionError, NotImplementedError, RuntimeError, TypeError, ValueError, AttributeError):
        having = f"with features of stride {', '.join(map(str, wanted))}, " if wanted else ""
        raise RecipeError(
            f"model.name = {name!r}",
            expected=f"a backbone {having}which can be dilated to stride {parts.output_stride}",
            found=backbone,
            remedy="Choose a convolutional one, such as resnet50, xception65 or convnext_tiny",
        ) from None
    return timm.create_model(
        backbone, pretrained=bool(encoder_weights), features_only=True, output_stride=parts.output_stride,
        out_indices=chosen, **options,
    )  # fmt: skip


def _blocks(encoder: Any) -> list[nn.Module]:
    stage = list(encoder.children())[-1]
    blocks = list(getattr(stage, "blocks", stage).children())
    if not blocks or any(isinstance(block, nn.Sequential) for block in blocks):
        raise RecipeError(
            "model.deeplab.multi_grid",
            expected="a backbone whose last stage is a row of blocks, such as resnet50 or convnext_tiny",
            found=f"{type(stage).__name__} of {len(blocks)}",
            remedy="Leave it out, or choose another backbone",
        )
    return blocks


def _multiply(encoder: Any, factors: tuple[int, ...]) -> None:
    """Multi-grid: multiply the dilation of the last stage's blocks, one factor a block, the last one for the rest."""
    if not factors:
        return
    for number, block in enumerate(_blocks(encoder)):
        factor = factors[min(number, len(factors) - 1)]
        for layer in block.modules():
            if isinstance(layer, nn.Conv2d) and max(layer.kernel_size) > 1 and max(layer.stride) == 1:
                rates = tuple(rate * factor for rate in layer.dilation)
                layer.dilation = (rates[0], rates[1])
                sides = [rate * (side // 2) for rate, side in zip(rates, layer.kernel_size, strict=True)]
                layer.padding = (sides[0], sides[1])
