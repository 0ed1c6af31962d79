"""Networks of three dimensions, for volumes: trained on patches, applied to whole volumes by a sliding window."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import nn

from penstock.errors import RecipeError, not_installed
from penstock.models.architectures import unknown

VOLUME_NETWORKS: Final = {"unet3d": "MONAI's residual U-Net (Kerfoot et al. 2018)"}
_CHANNELS: Final = (16, 32, 64, 128)
_STEPS: Final = (2, 2, 2)
_UNITS: Final = 2
_STRIDE: Final = 8  # sides of patches divide by it
_OVERLAP: Final = 0.5  # of neighbouring windows, as nnU-Net has it


class VolumeNetwork(nn.Module):
    """From float (n, channels, slices, rows, columns) to logits (n, classes, slices, rows, columns).

    In training the whole input goes through the network at once; in evaluation a window of the patch's size slides over
    it, and logits are averaged, weighted by a Gaussian around each window's middle.
    """

    def __init__(self, network: nn.Module, patch: Sequence[int], outside: float) -> None:
        super().__init__()
        self.network, self.patch, self.outside = network, tuple(patch), outside

    def forward(self, volumes: torch.Tensor) -> torch.Tensor:
        """Logits."""
        if self.training:
            logits: torch.Tensor = self.network(volumes)
            return logits
        _, slide = _monai()
        slid: torch.Tensor = slide(
            volumes, self.patch, 1, self.network, overlap=_OVERLAP, mode="gaussian", cval=self.outside
        )
        return slid


def build_volume_network(
    name: str, classes: int, channels: int, patch: Sequence[int], outside: float = 0.0
) -> VolumeNetwork:
    """A network for volumes, with random weights.

    Args:
        name: one of `VOLUME_NETWORKS`.
        classes: the number of classes.
        channels: modalities.
        patch: (slices, rows, columns) that it is trained on.
        outside: what lies around a volume that is smaller than a patch, as training pads it.

    Raises:
        RecipeError: the name is unknown, a side of the patch does not divide by 8, or MONAI is missing.
    """
    if name not in VOLUME_NETWORKS:
        raise unknown(name, "a network for volumes", name, list(VOLUME_NETWORKS))
    if any(side % _STRIDE or side < 2 * _STRIDE for side in patch):
        better = [max(2, round(side / _STRIDE)) * _STRIDE for side in patch]
        raise RecipeError(
            "augment.slices and augment.crop",
            expected=f"multiples of {_STRIDE}, of {2 * _STRIDE} at least",
            found=" x ".join(map(str, patch)),
            remedy=f"Use --set augment.slices={better[0]} --crop {better[1]} {better[2]}",
        )
    unet, _ = _monai()
    network = unet(3, channels, classes, _CHANNELS, _STEPS, num_res_units=_UNITS)
    return VolumeNetwork(network, patch, outside)


def _monai() -> tuple[Any, Any]:
    try:
        inferers = importlib.import_module("monai.inferers")  # an extra
        nets = importlib.import_module("monai.networks.nets")
    except ImportError:
        remedy = "Install penstock[volumes3d], or pack slices: --layout nifti"
        raise not_installed("A network for volumes", "MONAI", remedy) from None
    return nets.UNet, inferers.sliding_window_inference
