"""models."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter, validators

import penstock as ps
from penstock.cli.options import Json, as_json


def models(
    pattern: Annotated[
        str, Parameter(help="Name or pattern of architectures or backbones: unet, resnet50, 'convnext*'.")
    ] = "", /, *,
    count: Annotated[
        int, Parameter(name=["--count", "-n"], validator=validators.Number(gte=1), help="Largest number of lines.")
    ] = 20,
    json: Json = False,
) -> None:  # fmt: skip
    """List architectures, or backbones with published weights: parameters, image size and licence.

    Nothing is downloaded. Accuracies are listed in the documentation of timm.
    """
    found = ps.list_models(pattern, count=count)
    print(as_json(found) if json else "\n".join(found.lines()))
