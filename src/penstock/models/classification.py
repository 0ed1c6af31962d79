"""Classifiers by name: any backbone of timm, for example `resnet50`, or one of the small networks for CIFAR."""

from __future__ import annotations

import functools
from typing import Any, Final

import timm
import torch
from torch import nn

from penstock.errors import RecipeError
from penstock.models import pretrained
from penstock.models.cifar import FastNetwork, TutorialNetwork
from penstock.models.custom import build_custom, is_custom
from penstock.models.normalization import IMAGENET, Normalization, of_backbone
from penstock.models.segmentation import check_backbone
from penstock.progress import counted

CIFAR_NETWORKS: Final = {"cifar10-tutorial": TutorialNetwork, "cifar10-fast": FastNetwork}

_COLORS: Final = 3
_CIFAR: Final = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # mean and deviation of CIFAR-10's training pixels


class Classifier(nn.Module):
    """A backbone and a linear layer: float (n, 3, h, w) to logits (n, classes)."""

    def __init__(self, encoder: nn.Module, features: int, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(features, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits."""
        logits: torch.Tensor = self.head(self.encoder(images))
        return logits


def classifier_normalization(name: str) -> Normalization:
    """What a classifier expects of its input.

    Raises:
        RecipeError: the name is unknown.
    """
    if is_custom(name):
        return IMAGENET
    _check(name)
    if name in CIFAR_NETWORKS:
        return Normalization(*_CIFAR, alone=name == "cifar10-tutorial")
    return of_backbone(name)


def build_classifier(name: str, classes: int, weights: str, channels: int = 3) -> nn.Module:
    """A model that maps float (n, channels, h, w) to logits (n, classes).

    Args:
        name: a backbone of timm, one of `CIFAR_NETWORKS`, or a place (`models.custom`).
        classes: the number of classes.
        weights: of the backbone: "pretrained" (timm's), "none", or the path of a file of timm's format. The networks
            for CIFAR have none and begin at random.
        channels: of the images; pretrained filters are spread over others than 3.

    Raises:
        RecipeError: the name is unknown.
        WeightsError: the weights cannot be had, or do not fit.
    """
    if is_custom(name):
        return build_custom(name, classes=classes, channels=channels, weights=weights)
    _check(name)
    if name in CIFAR_NETWORKS:
        if weights not in {"none", "pretrained"}:
            raise RecipeError(
                "model.weights",
                remedy="Remove model.weights. To start from the weights of a run, use --init RUN",
                message=f"model.weights = {weights} cannot be loaded: {name} has no backbone of timm.",
            )
        if channels != _COLORS:
            raise RecipeError(
                "model.name",
                expected=f"a backbone of timm, as the images have {counted(channels, 'channel')}",
                found=f"{name}, which takes RGB alone",
                remedy="Use for example resnet18",
            )
        return CIFAR_NETWORKS[name](classes)
    build = functools.partial(_build, name, classes, in_chans=channels)
    network: nn.Module = pretrained.weighted(build, name, weights)
    return network


def _check(name: str) -> None:
    backbone = name.partition(":")[2]
    if backbone:
        raise RecipeError(
            f"model.name = {name!r}",
            expected="a timm model without an architecture before it, as the dataset is for classification",
            found=name,
            remedy=f"Use {backbone}",
        )
    if name not in CIFAR_NETWORKS:
        check_backbone(name, name, "a timm model, or one of " + ", ".join(CIFAR_NETWORKS))


def _build(name: str, classes: int, *, encoder_weights: object, **options: Any) -> nn.Module:
    encoder = timm.create_model(name, pretrained=bool(encoder_weights), num_classes=0, **options)
    features: Any = getattr(encoder, "head_hidden_size", None) or encoder.num_features
    return Classifier(encoder, features, classes)
