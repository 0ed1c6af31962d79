"""models."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter, validators

from penstock.errors import RecipeError

_UNSTATED = "not stated"


def models(
    pattern: Annotated[
        str, Parameter(help="Name or pattern of architectures or backbones: unet, resnet50, 'convnext*'.")
    ] = "", /, *,
    count: Annotated[
        int, Parameter(name=["--count", "-n"], validator=validators.Number(gte=1), help="Largest number of lines.")
    ] = 20,
) -> None:  # fmt: skip
    """List architectures, or backbones with published weights: parameters, image size and licence.

    Nothing is downloaded. Accuracies are listed in the documentation of timm.
    """
    from penstock.models import catalogue

    if not pattern:
        _architectures()
        return
    networks = catalogue.architectures(pattern)
    for name, (about, tasks) in networks.items():
        print(f"{name}  {about}, for {' and '.join(tasks)}: --model {name}:BACKBONE")
    names = catalogue.backbones(pattern)
    if not names and networks:
        return
    if not names:
        raise RecipeError(
            "penstock models",
            expected="an architecture, or a backbone of timm with published weights",
            found=pattern,
            remedy="Try a shorter name",
            message=f"The name {pattern!r} is in that of no architecture, and of no backbone of timm with published "
            "weights. Try a shorter name.",
        )
    _backbones(names, count)


def _backbones(names: list[str], count: int) -> None:
    from penstock.models import catalogue

    width = max(len(name) for name in names[:count])
    print(f"{'backbone':<{width}}  parameters  image size  licence of the weights")
    for found in map(catalogue.describe, names[:count]):
        size = f"{found.size[0]} x {found.size[1]}"
        millions = f"{found.parameters / 1e6:,.1f} M"
        print(f"{found.name:<{width}}  {millions:>10}  {size:>10}  {found.licence or _UNSTATED}")
    if len(names) > count:
        print(f"and {len(names) - count:,} more: add --count {len(names)}, or give a longer name")


def _architectures() -> None:
    from penstock.models import catalogue
    from penstock.models.architectures import NETWORKS
    from penstock.models.published import coco_scores

    tasks: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for task, networks in NETWORKS.items():
        tasks.setdefault(tuple(networks.items()), []).append(task)
    for group, named in tasks.items():
        print(f"{', '.join(named)}: --model ARCHITECTURE:BACKBONE")
        for name, about in group:
            print(f"  {name:<13}  {about}")
    print("classification: --model BACKBONE, any of timm; cifar10-tutorial, cifar10-fast")
    print("volumes: unet3d")
    print("detectors with weights of COCO from torchvision (BSD 3-Clause): --weights coco")
    for name, (parameters, scores) in coco_scores().items():
        said = ", ".join(f"{score.removesuffix('_map')} mAP {value:g} %" for score, value in scores.items())
        print(f"  {name:<20}  {parameters / 1e6:.1f} M parameters, {said}")
    print("whole networks of segmentation_models.pytorch, and backbones of timm, from the Hugging Face hub:")
    print("  --weights OWNER/NAME: --model segformer:mit_b0 --weights smp-hub/segformer-b0-512x512-ade-160k (ADE20K)")
    print(f"{len(catalogue.backbones('*')):,} backbones have published weights: penstock models resnet lists some")
