"""models."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter, validators

import penstock as ps


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
    for line in ps.list_models(pattern, count=count):
        print(line)
