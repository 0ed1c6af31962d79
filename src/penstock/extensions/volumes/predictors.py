"""What predicts a whole volume: a network of three dimensions, or one of two dimensions slice by slice."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

import numpy as np
import torch

from penstock.errors import ImageError
from penstock.tasks import Ability

if TYPE_CHECKING:
    from penstock.extensions.volumes.task import Volumes
    from penstock.extensions.volumes.volume import Volume
    from penstock.tasks import ReadyModel, Segmentation, Task
    from penstock.values import Pixels


class VolumePredictor(ABC):
    """Predicts whole volumes."""

    @abstractmethod
    def predict(self, ready: ReadyModel, volume: Volume) -> Pixels:
        """The labels of a volume, in the order of its file's axes: uint8 (x, y, z).

        Args:
            ready: the model.
            volume: with the modalities that the model was trained on.
        """


@runtime_checkable
class PredictsVolumes(Protocol):
    """A task that predicts volumes in a way of its own."""

    @property
    def volume_predictor(self) -> VolumePredictor:
        """Predicts them."""


def predictor_of(task: Task) -> VolumePredictor | None:
    """What predicts volumes by models of a task: its own, or slice by slice if it predicts masks of class ids; else
    None.
    """
    if isinstance(task, PredictsVolumes):
        return task.volume_predictor
    return SlicePredictor(cast("Segmentation", task)) if Ability.ORIGINAL_IDS in task.supports else None


@dataclass(frozen=True)
class SlicePredictor(VolumePredictor):
    """Predicts the slices of a volume one by one."""

    task: Segmentation

    def predict(self, ready: ReadyModel, volume: Volume) -> Pixels:
        """The labels of a volume."""
        images, predictor = volume.images(self.task.pixel_format.channels), self.task.predictor
        return volume.labels(np.stack([predictor.predict(ready, image).mask for image in images]))


@dataclass(frozen=True)
class PatchPredictor(VolumePredictor):
    """Predicts volumes; the network slides over patches by itself."""

    task: Volumes

    @torch.inference_mode()
    def predict(self, ready: ReadyModel, volume: Volume) -> Pixels:
        """The labels of a volume."""
        images = volume.images(self.task.pixel_format.channels)
        if len(volume.voxels) == 1 != self.task.pixel_format.channels:
            raise ImageError(
                volume.name,
                expected="the two or three modalities that the run learnt",
                found="one",
                remedy="Name the folder of the case's files, or one file with all of them",
            )
        with ready.autocast():
            logits = ready.model(self.task.inputs({"image": torch.from_numpy(images).to(ready.device).unsqueeze(0)}))
        return volume.labels(logits[0].argmax(dim=0).to(torch.uint8).cpu().numpy())
