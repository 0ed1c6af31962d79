"""Which models there are: architectures, and backbones with published weights."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

import timm
import torch

from penstock.models.architectures import NETWORKS


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
    return timm.list_pretrained(_pattern(pattern))


def architectures(pattern: str) -> dict[str, tuple[str, list[str]]]:
    """What fits a pattern of the architectures that take a backbone: what each is, and the tasks that it learns."""
    found: dict[str, tuple[str, list[str]]] = {}
    for task, networks in NETWORKS.items():
        for name in fnmatch.filter(networks, _pattern(pattern)):
            found.setdefault(name, (networks[name], []))[1].append(task)
    return found


def _pattern(text: str) -> str:
    return text if any(letter in text for letter in "*?[") else f"*{text}*"


def describe(name: str) -> Backbone:
    """One of them. It is built without memory for its weights, to count them; nothing is downloaded."""
    config = timm.models.get_pretrained_cfg(name, allow_unregistered=False)
    assert config is not None  # noqa: S101 - names with published weights have one
    with torch.device("meta"):
        model = timm.create_model(name, pretrained=False)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    _, height, width = config.input_size
    return Backbone(name, parameters, (height, width), config.license or "", config.hf_hub_id or "")
