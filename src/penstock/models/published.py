"""Published weights of whole networks, by name: torchvision's detectors of COCO, and networks on the Hugging Face hub.

A last layer for other classes is left as initialised, and every tensor is accounted for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import safetensors.torch
import torch
from torch import nn
from torchvision.models import detection as tv

from penstock.errors import RecipeError, reason_of
from penstock.models.pretrained import fetched, is_reachable, unavailable
from penstock.models.weights import Loaded, load_matching

COCO: Final = "coco"
"""The name of torchvision's weights of detectors that were trained on COCO."""

_DETECTORS: Final[Mapping[str, Any]] = {
    "fasterrcnn": tv.FasterRCNN_ResNet50_FPN_Weights.COCO_V1,
    "maskrcnn": tv.MaskRCNN_ResNet50_FPN_Weights.COCO_V1,
    "retinanet": tv.RetinaNet_ResNet50_FPN_Weights.COCO_V1,
    "fcos": tv.FCOS_ResNet50_FPN_Weights.COCO_V1,
}
_BACKBONE: Final = "resnet50"
_OURS: Final = {"backbone.body.": "network.backbone.encoder.", "backbone.fpn.": "network.backbone.neck."}


def coco_scores() -> dict[str, tuple[int, dict[str, float]]]:
    """Parameters and published scores (mAP in per cent on val2017) of the detectors with weights of COCO."""
    return {
        f"{name}:resnet50": (weights.meta["num_params"], dict(weights.meta["_metrics"]["COCO-val2017"]))
        for name, weights in _DETECTORS.items()
    }


def is_whole(repository: str) -> bool:
    """Whether a repository of the hub holds a whole network of segmentation_models.pytorch, and not a backbone of timm.

    Raises:
        WeightsError: it cannot be asked.
    """
    return "encoder_name" in _config(repository)


def options_of(repository: str) -> dict[str, Any]:
    """How a whole network on the hub was made: the arguments of its class in segmentation_models.pytorch.

    Raises:
        WeightsError: the repository cannot be asked.
    """
    return _config(repository)


def load_coco(model: nn.Module, architecture: str, backbone: str) -> Loaded:
    """Load torchvision's weights of COCO into a detector of ours.

    Raises:
        RecipeError: there are none for such a detector.
        WeightsError: they cannot be had.
    """
    if architecture not in _DETECTORS or backbone != _BACKBONE:
        names = ", ".join(f"{each}:resnet50" for each in _DETECTORS)
        raise RecipeError(
            "model.weights",
            expected=f"a detector with published weights of COCO: {names}",
            found=f"{architecture}:{backbone}",
            remedy="Choose one of them, or use --weights pretrained",
        )
    found = _downloaded(_DETECTORS[architecture])
    tensors = {_renamed(name, backbone): value for name, value in found.items()}
    own = model.state_dict()
    for name, value in tensors.items():
        if name.endswith("running_var"):  # these norms were made with an epsilon of 0, ours have 1e-5
            tensors[name] = value - _epsilon(model, name)
    counted = {name: value for name, value in own.items() if name.endswith("num_batches_tracked")}
    return load_matching(model, {**counted, **tensors}, f"weights of {architecture} on COCO")


def _renamed(name: str, backbone: str) -> str:
    """The name of a tensor in our detectors."""
    for theirs, ours in _OURS.items():
        if name.startswith(theirs):
            inner = "body." if ours.endswith("encoder.") and "/" in backbone else ""
            return ours + inner + name.removeprefix(theirs)
    return f"network.{name}"


def _epsilon(model: nn.Module, name: str) -> float:
    norm = model.get_submodule(name.rpartition(".")[0])
    return norm.eps if isinstance(norm, nn.BatchNorm2d) else 0.0


def _downloaded(weights: Any) -> dict[str, torch.Tensor]:
    """The tensors of torchvision's weights, from its cache or the network; the file's name has its checksum."""
    cached = Path(torch.hub.get_dir()) / "checkpoints" / Path(urlsplit(weights.url).path).name
    if not cached.is_file() and not is_reachable(weights.url):
        raise unavailable(str(weights), f"{urlsplit(weights.url).hostname} does not answer")
    try:
        found: dict[str, torch.Tensor] = weights.get_state_dict(progress=False, check_hash=True)
    except Exception as error:
        # urllib, pickle and torch.hub raise unrelated types here.
        raise unavailable(str(weights), reason_of(error)) from error
    return found


def load_repository(model: nn.Module, repository: str) -> Loaded:
    """Load the weights of a network of segmentation_models.pytorch on the hub.

    Raises:
        WeightsError: they cannot be had, or are of another network.
    """
    tensors = safetensors.torch.load_file(fetched(repository, "model.safetensors"))
    config = _config(repository)
    named = f"{config.get('_model_class', 'a network')} with {config['encoder_name']}"
    return load_matching(model, tensors, f"{repository} ({named})")


def _config(repository: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(fetched(repository, "config.json")).read_text())
    return found
