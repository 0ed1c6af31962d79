"""Segmentation models by name: `ARCHITECTURE:BACKBONE`, for example `deeplabv3plus:resnet50`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

import segmentation_models_pytorch as smp
import timm
import torch
from torch import nn

from penstock.errors import RecipeError
from penstock.models import pretrained, published
from penstock.models.architectures import ARCHITECTURES, check_architecture, unknown
from penstock.models.custom import build_custom, is_custom
from penstock.models.decoder import check_decoder, created
from penstock.models.deeplab import build_deeplab
from penstock.models.normalization import IMAGENET, Normalization, of_backbone
from penstock.settings import DeepLabConfig

STRIDE: Final = 32
"""Input sides are padded to a multiple of this, which every architecture here accepts."""

_MIX_TRANSFORMERS: Final = tuple(f"mit_b{size}" for size in range(6))


def filled(side: int) -> int:
    """What a side is padded to, so that every architecture here accepts it."""
    return -(-side // STRIDE) * STRIDE


def nearest_size(size: tuple[int, int], stride: int = STRIDE) -> tuple[int, int]:
    """The (height, width) nearest to another one whose sides divide by a stride."""
    height, width = (max(1, round(side / stride)) * stride for side in size)
    return height, width


def parse_name(name: str) -> tuple[str, str]:
    """Architecture and backbone of a model's name.

    Raises:
        RecipeError: one of them is unknown; the error suggests the nearest.
    """
    architecture, _, backbone = name.partition(":")
    check_architecture(name, architecture, ARCHITECTURES)
    if not backbone:
        raise RecipeError(
            f"model.name = {name!r}",
            expected="ARCHITECTURE:BACKBONE",
            found="an architecture without a backbone",
            remedy=f"Name a backbone of timm, for example {name}:resnet50",
        )
    if backbone not in _MIX_TRANSFORMERS:
        check_backbone(name, backbone, "a timm backbone")
    return architecture, backbone


def check_backbone(name: str, backbone: str, what: str) -> None:
    """Whether timm has a backbone, and weights of the tag behind its dot.

    Raises:
        RecipeError: it has not; the error suggests the nearest.
    """
    architecture, _, tag = backbone.partition(".")
    if not timm.is_model(architecture):
        raise unknown(name, what, backbone, timm.list_models())
    try:
        timm.models.get_pretrained_cfg(backbone, allow_unregistered=not tag)
    except RuntimeError:
        tagged = timm.list_models(f"{architecture}.*", pretrained=True)
        raise unknown(name, f"a tag of timm's weights for {architecture}", backbone, tagged) from None


def normalization(backbone: str) -> Normalization:
    """The normalisation of a backbone."""
    return IMAGENET if backbone in _MIX_TRANSFORMERS else of_backbone(backbone)


def segmenter_normalization(name: str) -> Normalization:
    """The normalisation of a segmentation model: its backbone's, or ImageNet's for a custom one.

    Raises:
        RecipeError: the name is unknown.
    """
    return IMAGENET if is_custom(name) else normalization(parse_name(name)[1])


def build_segmenter(
    name: str,
    classes: int,
    weights: str,
    parts: DeepLabConfig = DeepLabConfig(),  # noqa: B008 - frozen
    channels: int = 3,
    options: Mapping[str, Any] | None = None,
) -> nn.Module:
    """A model that maps float (n, channels, h, w) to logits (n, classes, h, w).

    Args:
        name: `ARCHITECTURE:BACKBONE`, or a place (`models.custom`).
        classes: the number of classes.
        weights: of the backbone: "pretrained" (timm's), "none", or the path of a file of timm's format; or OWNER/NAME,
            of a whole network of segmentation_models.pytorch on the Hugging Face hub.
        parts: of a `deeplab`.
        channels: of the images; pretrained filters are spread over others than 3.
        options: of the decoder of a network of segmentation_models.pytorch, by its names for them.

    Raises:
        RecipeError: the name is unknown, a `deeplab`'s backbone cannot be dilated, or an option does not fit.
        WeightsError: the weights cannot be had, or do not fit.
    """
    if is_custom(name):
        return build_custom(name, classes=classes, channels=channels, weights=weights)
    if pretrained.is_repository(weights) and published.is_whole(weights):
        whole = build_segmenter(name, classes, "none", parts, channels, options)
        whole.account = published.load_repository(whole, weights)  # type: ignore[assignment] # not a module
        return whole
    architecture, backbone = parse_name(name)
    if architecture == "deeplab":
        return build_deeplab(name, backbone, classes, weights, parts, channels)
    native = backbone in _MIX_TRANSFORMERS
    encoder = backbone if native else f"tu-{backbone}"
    given = dict(options or {})
    check_decoder(name, given)
    if architecture == "dpt":
        given["dynamic_img_size"] = True  # else images have the size of pretraining alone
    build = functools.partial(
        created if options else smp.create_model, architecture, encoder_name=encoder, classes=classes,
        in_channels=channels, **given,
    )  # fmt: skip
    network: nn.Module = pretrained.weighted(build, backbone, weights, native=native)
    return _without_unreached(network, channels) if architecture in ("pspnet", "dpt") else network


def _without_unreached(network: nn.Module, channels: int) -> nn.Module:
    """Freeze parameters that never get a gradient, as in PSPNet and DPT: several ranks would wait for it."""
    learning = network.training
    try:
        network.eval()(torch.zeros(1, channels, 2 * STRIDE, 2 * STRIDE)).sum().backward()
    except Exception:  # noqa: BLE001 - a backbone of another size: every architecture refuses in its own way
        return network.train(learning)
    for parameter in network.parameters():
        if parameter.grad is None:
            parameter.requires_grad_(False)  # noqa: FBT003 - PyTorch's own
        parameter.grad = None
    return network.train(learning)


def check_crop(model: nn.Module, name: str, crop: tuple[int, int]) -> None:
    """Whether a network takes images of the size of training's crop, as far as it says: by `crop_side`, where its
    layers are made for one size, or by `crop_multiple` or its encoder's `output_stride`, which must divide the sides.

    Raises:
        RecipeError: it does not; the error names the nearest size that it takes.
    """
    side = getattr(model, "crop_side", 0)
    stride = int(getattr(model, "crop_multiple", 0) or getattr(getattr(model, "encoder", None), "output_stride", 1))
    if side and crop != (side, side):
        expected, better = f"{side} x {side}, which {name} is made for", (side, side)
    elif any(length % stride for length in crop):
        expected, better = f"multiples of {stride}, the largest stride of {name}", nearest_size(crop, stride)
    else:
        return
    found, remedy = f"{crop[0]} x {crop[1]}", f"Use --crop {better[0]} {better[1]}"
    raise RecipeError("augment.crop", expected=expected, found=found, remedy=remedy)
