"""The names of the networks that are built by name, and the error for a name that is none of them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

import timm

from penstock.errors import RecipeError

ARCHITECTURES: Final = {
    "deeplabv3plus": "DeepLabV3+ (Chen et al. 2018)",
    "deeplabv3": "DeepLabV3 (Chen et al. 2017)",
    "deeplab": "DeepLab with every part a setting (Chen et al. 2017, 2018)",
    "unet": "U-Net (Ronneberger et al. 2015)",
    "unetplusplus": "U-Net++ (Zhou et al. 2018)",
    "fpn": "feature pyramid network (Kirillov et al. 2019)",
    "segformer": "SegFormer (Xie et al. 2021)",
    "upernet": "UPerNet (Xiao et al. 2018)",
    "pspnet": "PSPNet (Zhao et al. 2017)",
    "linknet": "LinkNet (Chaurasia and Culurciello 2017)",
    "manet": "multi-scale attention network (Fan et al. 2020)",
    "dpt": "dense prediction transformer (Ranftl et al. 2021), on vision transformers",
    "pan": "pyramid attention network (Li et al. 2018)",
}
DETECTORS: Final = {
    "fasterrcnn": "Faster R-CNN (Ren et al. 2015) on a feature pyramid",
    "retinanet": "RetinaNet (Lin et al. 2017)",
    "fcos": "FCOS (Tian et al. 2019)",
    "ssd": "SSD (Liu et al. 2016)",
}
INSTANCE_NETWORKS: Final = {"maskrcnn": "Mask R-CNN (He et al. 2017) on a feature pyramid"}
"""Detectors that give the pixels of every object too."""

NETWORKS: Final[Mapping[str, Mapping[str, str]]] = {
    "segmentation": ARCHITECTURES,
    "matting": ARCHITECTURES,
    "detection": DETECTORS,
    "instances": INSTANCE_NETWORKS,
}
"""Architectures, which are named as ARCHITECTURE:BACKBONE, by the task that data is packed for."""


def check_architecture(name: str, found: str, known: Mapping[str, str]) -> None:
    """Whether a network is one of those that a task has.

    Raises:
        RecipeError: it is not; the error says which task it is for, or suggests the nearest.
    """
    if found in known:
        return
    other = next((task for task, names in NETWORKS.items() if found in names), "")
    if other:
        raise _of_another_task(name, found, other, known)
    raise unknown(name, "an architecture", found, list(known)) if ":" in name else _without_backbone(name, known)


def _of_another_task(name: str, found: str, other: str, known: Mapping[str, str]) -> RecipeError:
    return RecipeError(
        f"model.name = {name!r}",
        remedy=f"Choose one of {', '.join(known)}, or pack the data with --task {other}",
        message=f"model.name = {name!r}: {found} is a network for {other}, which this data is not packed for.",
    )


def _without_backbone(name: str, known: Mapping[str, str]) -> RecipeError:
    example = "unet" if "unet" in known else next(iter(known))
    if timm.is_model(name.partition(".")[0]):
        return RecipeError(
            f"model.name = {name!r}",
            expected="ARCHITECTURE:BACKBONE",
            found="a backbone of timm without an architecture",
            remedy=f"Name one, for example {example}:{name}",
        )
    return RecipeError(
        f"model.name = {name!r}",
        expected=f"ARCHITECTURE:BACKBONE, for example {example}:resnet50",
        found=name or "nothing",
        remedy=f"The architectures are {', '.join(known)}; the backbones are those of timm",
    )


def unknown(name: str, what: str, found: str, known: list[str]) -> RecipeError:
    """The error for a model's name of which a part is not known, with the nearest that are."""
    near = difflib.get_close_matches(found, known, n=3)
    few = len(known) < 20  # noqa: PLR2004 - as many as one can read in a line
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Choose one of {', '.join(known)}" if few else ""
    return RecipeError(
        f"model.name = {name!r}",
        expected=what,
        found=found or "nothing",
        remedy=hint or "List them with penstock models",
    )
