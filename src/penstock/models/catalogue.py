"""Which models there are: architectures, and backbones with published weights."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import timm
import torch

from penstock.errors import RecipeError
from penstock.extending import brought
from penstock.models.architectures import NETWORKS
from penstock.models.published import coco_scores

_UNSTATED: Final = "not stated"


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
    """Describe a backbone. It is built without memory for its weights, to count them; nothing is downloaded."""
    config = timm.models.get_pretrained_cfg(name, allow_unregistered=False)
    assert config is not None  # noqa: S101 - names with published weights have one
    with torch.device("meta"):
        model = timm.create_model(name, pretrained=False)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    _, height, width = config.input_size
    return Backbone(name, parameters, (height, width), config.license or "", config.hf_hub_id or "")


@dataclass(frozen=True)
class Models:
    """Architectures and backbones whose names fit a pattern.

    Attributes:
        pattern: what was asked for; "" lists the architectures alone.
        architectures: what each is, and the tasks that it learns, by name.
        backbones: the first of those with published weights.
        more: how many other backbones fit.
    """

    pattern: str
    architectures: dict[str, tuple[str, list[str]]]
    backbones: tuple[Backbone, ...] = ()
    more: int = 0

    def lines(self) -> list[str]:
        """A table for people."""
        if not self.pattern:
            return overview()
        found = [
            f"{name}  {about}, for {' and '.join(tasks)}: --model {name}:BACKBONE"
            for name, (about, tasks) in self.architectures.items()
        ]
        return [*found, *(self._table() if self.backbones else [])]

    def _table(self) -> Iterator[str]:
        width = max(len(found.name) for found in self.backbones)
        yield f"{'backbone':<{width}}  parameters  image size  licence of the weights"
        for found in self.backbones:
            size = f"{found.size[0]} x {found.size[1]}"
            millions = f"{found.parameters / 1e6:,.1f} M"
            yield f"{found.name:<{width}}  {millions:>10}  {size:>10}  {found.licence or _UNSTATED}"
        if self.more:
            yield f"and {self.more:,} more: add --count {self.more + len(self.backbones)}, or give a longer name"


def find(pattern: str, count: int) -> Models:
    """The architectures and backbones that a pattern fits.

    Raises:
        RecipeError: nothing is called so.
    """
    if not pattern:
        return Models("", architectures("*"))
    networks, names = architectures(pattern), backbones(pattern)
    if not names and not networks:
        raise RecipeError(
            "penstock models",
            remedy="Try a shorter name",
            message=f"The name {pattern!r} is in that of no architecture, and of no backbone of timm with published "
            "weights.",
        )
    return Models(pattern, networks, tuple(map(describe, names[:count])), max(0, len(names) - count))


def overview() -> list[str]:
    """All architectures by task, and what there is to begin with, for people."""
    tasks: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for task, networks in NETWORKS.items():
        tasks.setdefault(tuple(networks.items()), []).append(task)
    found = []
    for group, named in tasks.items():
        found.append(f"{', '.join(named)}: --model ARCHITECTURE:BACKBONE")
        found += [f"  {name:<13}  {about}" for name, about in group]
    found += [
        "classification: --model BACKBONE, any of timm; cifar10-tutorial, cifar10-fast",
        *(f"{task}: {', '.join(names)}" for task, names in brought("NETWORKS").items()),
        "detectors with weights of COCO from torchvision (BSD 3-Clause): --weights coco",
    ]
    for name, (parameters, scores) in coco_scores().items():
        said = ", ".join(f"{score.removesuffix('_map')} mAP {value:g} %" for score, value in scores.items())
        found.append(f"  {name:<20}  {parameters / 1e6:.1f} M parameters, {said}")
    return [
        *found,
        "whole networks of segmentation_models.pytorch, and backbones of timm, from the Hugging Face hub:",
        "  --weights OWNER/NAME: --model segformer:mit_b0 --weights smp-hub/segformer-b0-512x512-ade-160k (ADE20K)",
        f"{len(backbones('*')):,} backbones have published weights: penstock models resnet lists some",
    ]
