"""Options of the decoders of segmentation_models.pytorch, by the names that its classes give them."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from typing import Any, Final

import segmentation_models_pytorch as smp
from torch import nn

from penstock.errors import RecipeError, is_out_of_memory, reason_of
from penstock.models.custom import is_custom

_CLASSES: Final = {
    each.__name__.lower(): each
    for each in (
        smp.DeepLabV3Plus, smp.DeepLabV3, smp.Unet, smp.UnetPlusPlus, smp.FPN, smp.Segformer, smp.UPerNet, smp.PSPNet,
        smp.Linknet, smp.MAnet, smp.DPT, smp.PAN,
    )
}  # fmt: skip
"""Those of segmentation_models.pytorch, by architecture."""
_OPTIONS: Final = ("encoder_depth", "encoder_output_stride", "encoder_output_indices", "decoder_", "psp_", "upsampling")
"""How the names of the options begin that change a network's inside, and not what it takes and gives."""


def decoder_options(name: str) -> dict[str, Any]:
    """The options of a network's decoder with their defaults; none where it has no such options."""
    network = _CLASSES.get(name.partition(":")[0])
    if network is None or is_custom(name):
        return {}
    taken = inspect.signature(network.__init__).parameters
    return {option: taken[option].default for option in taken if option.startswith(_OPTIONS)}


def check_decoder(name: str, options: Mapping[str, Any]) -> None:
    """Whether a network's decoder has some options.

    Raises:
        RecipeError: it has not; the error names those that it has.
    """
    known = decoder_options(name)
    if options and not known:
        raise RecipeError(
            "model.decoder",
            remedy="Remove model.decoder",
            message=f"model.decoder has no effect on {name}, which is no network of segmentation_models.pytorch.",
        )
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            raise RecipeError(
                f"model.decoder.{option}",
                expected=f"one of {', '.join(known)}",
                found=option,
                remedy=f"Did you mean model.decoder.{near[0]}?" if near else "Check the name",
            )


def created(architecture: str, **given: Any) -> nn.Module:
    """A network whose decoder somebody chose options of.

    Raises:
        RecipeError: they do not fit.
    """
    try:
        network: nn.Module = smp.create_model(architecture, **given)
    except Exception as error:
        # Every decoder of segmentation_models.pytorch refuses in its own way.
        if is_out_of_memory(error):
            raise
        chosen = ", ".join(f"{name}={value}" for name, value in given.items() if name.startswith(_OPTIONS))
        raise RecipeError(
            "model.decoder",
            expected=f"options that the decoder of {architecture} takes",
            found=f"{chosen} ({reason_of(error)})",
            remedy="Change them, or remove model.decoder",
        ) from error
    return network
