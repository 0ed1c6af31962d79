"""Backbones of torchvision, as features at several strides: `torchvision/resnet50`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn
from torchvision import models
from torchvision.models.feature_extraction import create_feature_extractor, get_graph_node_names

from penstock.errors import RecipeError, WeightsError, reason_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PREFIX: Final = "torchvision/"
_SIDE: Final = 128  # of an image that shows what size each layer's features have
_FEATURES: Final = 4  # axes
_LISTS: Final = ("features", "layers", "trunk_output")  # of blocks, in networks that keep them in one


class _Info:
    """What timm's backbones tell of themselves, as far as detectors ask."""

    def __init__(self, channels: Sequence[int]) -> None:
        self._channels = list(channels)

    def channels(self) -> list[int]:
        """Channels of every feature map, from fine to coarse."""
        return self._channels


class Features(nn.Module):
    """Some layers' outputs of a network, from fine to coarse."""

    def __init__(self, network: nn.Module, layers: Mapping[str, int]) -> None:
        super().__init__()
        self.body = create_feature_extractor(network, list(layers))
        self.feature_info = _Info(list(layers.values()))

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        """Float (n, channels, h / stride, w / stride) for every stride."""
        return list(self.body(images).values())


def is_known(backbone: str) -> bool:
    """Whether torchvision has a classifier of a name (with its prefix)."""
    return backbone.removeprefix(PREFIX) in models.list_models(module=models)


def build_features(name: str, backbone: str, strides: Sequence[int], weights: str) -> Features:
    """A backbone cut after the last layer of each stride.

    Args:
        name: the model's, for errors.
        backbone: with its prefix.
        strides: of the features, from fine to coarse.
        weights: "pretrained" (torchvision's newest), "none", or the path of a file of torchvision's format.

    Raises:
        RecipeError: the network has no features of such strides.
        WeightsError: the weights cannot be had, or do not fit.
    """
    network = _network(backbone.removeprefix(PREFIX), weights)
    layers = _last_layers(network)
    if not set(strides) <= set(layers):
        raise RecipeError(
            f"model.name = {name!r}",
            expected=f"a backbone with features at strides {', '.join(map(str, strides))}",
            found=backbone,
            remedy=f"Choose a convolutional one, such as {PREFIX}resnet50 or {PREFIX}convnext_tiny",
        )
    return Features(network, dict(layers[stride] for stride in strides))


def _last_layers(network: nn.Module) -> dict[int, tuple[str, int]]:
    """Of every stride the last layer of the last block that ends with it, and its channels.

    A block may begin with layers of the stride before it, which are not its features: ResNet's `layer2.0.conv1` is of
    `layer1`'s.
    """
    network.eval()
    try:
        _, names = get_graph_node_names(network)
        with torch.no_grad():
            found = create_feature_extractor(network, names)(torch.zeros(1, 3, _SIDE, _SIDE))
    except Exception:  # noqa: BLE001 - torch.fx and networks of a fixed size raise many types
        return {}
    network.train()
    ends: dict[str, tuple[str, torch.Tensor]] = {}
    for name, each in found.items():
        if torch.is_tensor(each) and each.ndim == _FEATURES and each.shape[2] == each.shape[3] > 1:
            ends[_block(name)] = name, each
    return {_SIDE // each.shape[2]: (name, each.shape[1]) for name, each in ends.values()}


def _block(name: str) -> str:
    """The part of the network that a layer is of: `layer1.0.conv1` of layer1, `features.3.block.0` of features.3."""
    parts = name.split(".")
    return ".".join(parts[: 2 if parts[0] in _LISTS else 1])


def _network(name: str, weights: str) -> Any:
    if weights in {"none", "pretrained"}:
        try:
            return models.get_model(name, weights=None if weights == "none" else "DEFAULT")
        except (OSError, RuntimeError) as error:
            remedy = (
                "Connect to the network once, train from random weights with --weights none, or give a downloaded "
                "file with --weights FILE"
            )
            raise WeightsError(
                f"weights of {PREFIX}{name}",
                expected="torchvision's pretrained weights, from the network or the local cache",
                found=reason_of(error),
                remedy=remedy,
                message=f"The pretrained weights of {PREFIX}{name} are not in the local cache and cannot be "
                f"downloaded: {reason_of(error)}. {remedy}.",
            ) from error
    network = models.get_model(name, weights=None)
    try:
        network.load_state_dict(torch.load(Path(weights), map_location="cpu", weights_only=True))
    except FileNotFoundError:
        raise WeightsError(
            weights,
            expected="'pretrained', 'none', or a file of weights",
            found="no such file",
            remedy="Check the path",
        ) from None
    except Exception as error:
        # torch and pickle raise unrelated types here.
        raise WeightsError(
            weights,
            expected="weights that fit the backbone",
            found=f"a file that cannot be loaded ({reason_of(error)})",
            remedy=f"Give the weights of torchvision's {name}, as it saves them",
        ) from error
    return network
