"""models."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter, validators

from penstock.errors import RecipeError
from penstock.models import catalogue

_UNSTATED = "not stated"


def models(
    pattern: Annotated[str, Parameter(help="Name or pattern of backbones: resnet50, 'convnext*'.")] = "", /, *,
    count: Annotated[
        int, Parameter(name=["--count", "-n"], validator=validators.Number(gte=1), help="Largest number of lines.")
    ] = 20,
) -> None:  # fmt: skip
    """List architectures, or backbones with published weights: parameters, image size and licence.

    Nothing is downloaded. Accuracies are listed in the documentation of timm.
    """
    if not pattern:
        _architectures()
        return
    names = catalogue.backbones(pattern)
    if not names:
        raise RecipeError(
            "penstock models",
            expected="a backbone of timm with published weights",
            found=pattern,
            remedy="Try a shorter name",
            message=f"timm has no backbone with published weights whose name contains {pattern!r}. Try a shorter name.",
        )
    width = max(len(name) for name in names[:count])
    print(f"{'backbone':<{width}}  parameters  image size  licence of the weights")
    for found in map(catalogue.describe, names[:count]):
        size = f"{found.size[0]} x {found.size[1]}"
        millions = f"{found.parameters / 1e6:,.1f} M"
        print(f"{found.name:<{width}}  {millions:>10}  {size:>10}  {found.licence or _UNSTATED}")
    if len(names) > count:
        print(f"and {len(names) - count:,} more: add --count {len(names)}, or give a longer name")


def _architectures() -> None:
    for task, networks in catalogue.NETWORKS.items():
        print(f"{task}: --model ARCHITECTURE:BACKBONE")
        for name, about in networks.items():
            print(f"  {name:<13}  {about}")
    print("classification: --model BACKBONE, any of timm; cifar10-tutorial, cifar10-fast")
    print("volumes: unet3d")
    print(f"{len(catalogue.backbones('*')):,} backbones have published weights: penstock models resnet lists some")
