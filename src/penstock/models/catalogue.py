"""Which models there are: architectures, and backbones with published weights."""

from __future__ import annotations

from dataclasses import dataclass

import timm
import torch


@dataclass(frozen=True)
class Backbone:
    """A backbone of timm with published weights.

    Attributes:
        name: as `--model` takes it, with the name of the weights after a dot.
        parameters: how many it has, with its classifier.
        size: (height, width) of the images that it was trained on, in pixels.
        licence: of the weights; "" where timm does not say.
        hub: where the weights are on the Hugging Face hub; "" for other places.
    """

    name: str
    parameters: int
    size: tuple[int, int]
    licence: str
    hub: str


def backbones(pattern: str) -> list[str]:
    """The names of timm's backbones with published weights that fit a pattern such as `resnet*`, in natural order."""
    return timm.list_pretrained(pattern if any(letter in pattern for letter in "*?[") else f"*{pattern}*")


def describe(name: str) -> Backbone:
    """One of them. It is built without memory for its weights, to count them; nothing is downloaded."""
    config = timm.models.get_pretrained_cfg(name, allow_unregistered=False)
    assert config is not None  # noqa: S101 - names with published weights have one
    with torch.device("meta"):
        model = timm.create_model(name, pretrained=False)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    _, height, width = config.input_size
    return Backbone(name, parameters, (height, width), config.license or "", config.hf_hub_id or "")
