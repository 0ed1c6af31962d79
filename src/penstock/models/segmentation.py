"""Segmentation models by name: `ARCHITECTURE:BACKBONE`, for example `deeplabv3plus:resnet50`."""

from __future__ import annotations

import difflib
import functools
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies

import segmentation_models_pytorch as smp
import timm
from huggingface_hub import constants

from penstock.errors import RecipeError, WeightsError

if TYPE_CHECKING:
    from torch import nn

ARCHITECTURES: Final = {
    "deeplabv3plus": "DeepLabV3+ (Chen et al. 2018)",
    "deeplabv3": "DeepLabV3 (Chen et al. 2017)",
    "unet": "U-Net (Ronneberger et al. 2015)",
    "unetplusplus": "U-Net++ (Zhou et al. 2018)",
    "fpn": "feature pyramid network (Kirillov et al. 2019)",
    "segformer": "SegFormer (Xie et al. 2021)",
    "upernet": "UPerNet (Xiao et al. 2018)",
    "pspnet": "PSPNet (Zhao et al. 2017)",
    "linknet": "LinkNet (Chaurasia and Culurciello 2017)",
    "pan": "pyramid attention network (Li et al. 2018)",
}
STRIDE: Final = 32
"""Input sides are padded to a multiple of this, which every architecture here accepts."""

_MIX_TRANSFORMERS: Final = tuple(f"mit_b{size}" for size in range(6))


@dataclass(frozen=True, slots=True)
class Normalization:
    """What a backbone expects of its input: `(pixel / 255 - mean) / std`, RGB."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    @property
    def fill(self) -> tuple[int, int, int]:
        """The mean pixel, 0 to 255: what lies outside the picture."""
        red, green, blue = (round(255 * value) for value in self.mean)
        return red, green, blue


def parse_name(name: str) -> tuple[str, str]:
    """Architecture and backbone of a model's name.

    Raises:
        RecipeError: one of them is unknown; the error suggests the nearest.
    """
    architecture, _, backbone = name.partition(":")
    if architecture not in ARCHITECTURES:
        raise _unknown(name, "an architecture", architecture, list(ARCHITECTURES))
    if not backbone:
        raise RecipeError(
            "model.name",
            expected="ARCHITECTURE:BACKBONE, for example deeplabv3plus:resnet50",
            found=name,
            remedy="Add a backbone; timm names over a thousand",
        )
    if backbone not in _MIX_TRANSFORMERS and not timm.is_model(backbone.split(".", maxsplit=1)[0]):
        raise _unknown(name, "a timm backbone", backbone, timm.list_models())
    return architecture, backbone


def _unknown(name: str, what: str, found: str, known: list[str]) -> RecipeError:
    near = difflib.get_close_matches(found, known, n=3)
    few = len(known) < 20  # noqa: PLR2004 - as many as one can read in a line
    hint = f"Did you mean {' or '.join(near)}" if near else f"Choose one of {', '.join(known)}" if few else ""
    return RecipeError(
        f"model.name = {name!r}", expected=what, found=found or "nothing", remedy=hint or "Run timm.list_models()"
    )


def normalization(backbone: str) -> Normalization:
    """The normalisation that timm's weights of a backbone were trained with; ImageNet's where it knows none."""
    found = None if backbone in _MIX_TRANSFORMERS else timm.models.get_pretrained_cfg(backbone)
    if found is None:
        return Normalization((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    red, green, blue = (float(value) for value in found.mean)
    spread = tuple(float(value) for value in found.std)
    return Normalization((red, green, blue), (spread[0], spread[1], spread[2]))


def build_segmenter(name: str, classes: int, weights: str) -> nn.Module:
    """A model that maps float (n, 3, h, w) to logits (n, classes, h, w).

    Args:
        name: `ARCHITECTURE:BACKBONE`.
        classes: the number of classes.
        weights: of the backbone: "pretrained" (timm's), "none", or the path of a file of timm's format.

    Raises:
        RecipeError: the name is unknown.
        WeightsError: the weights cannot be had, or do not fit.
    """
    architecture, backbone = parse_name(name)
    native = backbone in _MIX_TRANSFORMERS
    build = functools.partial(
        smp.create_model, architecture, encoder_name=backbone if native else f"tu-{backbone}", classes=classes
    )
    if weights == "none":
        return _network(build(encoder_weights=None))
    if weights == "pretrained":
        return _pretrained(build, backbone)
    return _from_file(build, backbone, Path(weights), native=native)


def _network(model: Any) -> nn.Module:
    network: nn.Module = model
    return network


def _pretrained(build: functools.partial[Any], backbone: str) -> nn.Module:
    constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE or not _reachable(constants.ENDPOINT)
    try:
        return _network(build(encoder_weights="imagenet" if backbone in _MIX_TRANSFORMERS else True))
    except Exception as error:
        # huggingface_hub, its HTTP client and timm raise a dozen unrelated types here.
        reason = str(error).strip().splitlines()
        raise WeightsError(
            f"weights of {backbone}",
            expected="timm's pretrained weights, from the network or the local cache",
            found=f"{type(error).__name__}: {reason[0][:160] if reason else 'no reason given'}",
            remedy="Connect to the network once, or train from random weights with --weights none, or give a "
            "downloaded file with --weights FILE",
        ) from error


def _reachable(endpoint: str) -> bool:
    """Whether the hub can be spoken to at all; without this an offline machine waits a minute for retries."""
    if getproxies():
        return True
    address = urlsplit(endpoint)
    try:
        socket.create_connection((address.hostname or "", address.port or 443), timeout=5).close()
    except OSError:
        return False
    return True


def _from_file(build: functools.partial[Any], backbone: str, path: Path, *, native: bool) -> nn.Module:
    if not path.is_file():
        raise WeightsError(
            str(path),
            expected="'pretrained', 'none', or a file of backbone weights in timm's format",
            found="no such file",
            remedy="Check the path",
        )
    if native:
        raise WeightsError(
            str(path),
            expected="a backbone of timm, to load a file into",
            found="a Mix Transformer of segmentation_models.pytorch",
            remedy="Use --weights pretrained or --weights none with it",
        )
    _check_fit(backbone, path)
    try:
        overlay = {"file": str(path), "hf_hub_id": None, "url": ""}
        return _network(build(encoder_weights=True, pretrained_cfg_overlay=overlay))
    except (RuntimeError, KeyError, ValueError, OSError) as error:
        raise _no_fit(path, str(error).strip().splitlines()[0][:200]) from error


def _check_fit(backbone: str, path: Path) -> None:
    """Every tensor of the backbone must be in the file: timm would leave the others random, without a word.

    Raises:
        WeightsError: the file is no weights, or of another backbone.
    """
    expected = timm.create_model(backbone, num_classes=0).state_dict()
    try:
        found = timm.models.load_state_dict(str(path))
    except Exception as error:
        # torch, pickle and safetensors raise unrelated types here.
        raise _no_fit(path, f"a file that cannot be read ({type(error).__name__})") from error
    missing = [name for name, mine in expected.items() if name not in found or found[name].shape != mine.shape]
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]
    if missing:
        shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")  # noqa: PLR2004 - a line
        raise _no_fit(path, f"{len(expected) - len(missing)} of {len(expected)} tensors that fit; not {shown}")


def _no_fit(path: Path, found: str) -> WeightsError:
    return WeightsError(
        str(path),
        expected="weights that fit the backbone",
        found=found,
        remedy="Give the weights of the same backbone, as timm saves them",
    )
