"""Segmentation of whole volumes: every voxel gets a class, by a network of three dimensions on patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from penstock.datasets.description import Description, SplitInfo
from penstock.errors import LabelError, RecipeError
from penstock.extensions.volumes.kind import VOLUMES, read_slices, telling_slice
from penstock.extensions.volumes.network import VolumeNetwork, build_volume_network
from penstock.extensions.volumes.predictors import PatchPredictor
from penstock.extensions.volumes.scores import Cases, VolumeScores
from penstock.feed import Field, Prepare
from penstock.images import PixelFormat, probe
from penstock.images.geometry import Size
from penstock.kinds.fields import decode_segmentation
from penstock.kinds.labels import LabelSet
from penstock.losses import Mixture
from penstock.seeds import Generator
from penstock.settings import Augment, Objective, TaskSettings
from penstock.tasks.abilities import Ability
from penstock.tasks.base import Task
from penstock.tasks.exported import Graph, class_graph
from penstock.tasks.objective import mixture, weights_of
from penstock.tasks.roles import Exporter, Tensors
from penstock.tasks.scoring import Collective
from penstock.tasks.segmentation import MaskDrawing
from penstock.values import Pixels, Record

Box = tuple[int, int, int]

_MEAN, _STD = 127.5, 63.75  # of bytes; volumes bring no statistics of their own
_LABELLED: Final = 1 / 3  # of patches are around a voxel that is not background, as nnU-Net has it


@dataclass(frozen=True)
class PrepareVolume:
    """A record to `image`, uint8 (slices, rows, columns, channels), and `mask`, uint8 (slices, rows, columns).

    Attributes:
        classes: the number of classes; every other id but `ignore` is refused.
        ignore: the label that does not count; fills what lies outside the volume, whose voxels are 0.
        channels: modalities.
        size: of a sample: a patch of training, or what the largest volume fits into.
        flip: probability of mirroring along each axis of a patch; None shows the whole volume instead.
    """

    classes: int
    ignore: int
    channels: int
    size: Box
    flip: float | None = None

    @property
    def fields(self) -> dict[str, Field]:
        """The tensors of a sample."""
        return {"image": Field((*self.size, self.channels), "uint8"), "mask": Field(self.size, "uint8")}

    def __call__(self, record: Record, generator: Generator | None, out: Mapping[str, NDArray[Any]]) -> None:
        """Decode, and fetch a patch or all of it.

        Raises:
            DataError: the record is not what it should be, or larger than the sample.
        """
        voxels, ids = read_slices(record, self.channels, self._labels)
        if self.flip is not None and generator:
            start = self._corner(ids, generator)
            self._place(voxels, ids, start, out)
            flipped = tuple(axis for axis in range(3) if generator.chance(self.flip))
            for array in out.values():
                array[...] = np.flip(array, flipped).copy() if flipped else array
            return
        if any(have > fits for have, fits in zip(ids.shape, self.size, strict=True)):
            raise LabelError(
                record.origin,
                expected=f"a volume of at most {' x '.join(map(str, self.size))} (slices x rows x columns)",
                found=f"one of {' x '.join(map(str, ids.shape))}",
                remedy="Pack the dataset again: its dataset.json states a smaller largest size",
            )
        self._place(voxels, ids, [0, 0, 0], out)

    def _corner(self, ids: Pixels, generator: Generator) -> list[int]:
        """Where a patch begins: anywhere, or around a labelled voxel; a volume that is smaller lies inside it."""
        draws = [generator.uniform() for _ in range(3)]
        around, which = generator.chance(_LABELLED), generator.uniform()
        ranges = [sorted((0, have - side)) for have, side in zip(ids.shape, self.size, strict=True)]
        labelled = np.flatnonzero((ids != 0) & (ids != self.ignore)) if around else np.empty(0, np.int64)
        if not labelled.size:
            return [low + int(draw * (high - low + 1)) for draw, (low, high) in zip(draws, ranges, strict=True)]
        voxel = np.unravel_index(int(labelled[int(which * labelled.size)]), ids.shape)
        middles = [int(at) - side // 2 for at, side in zip(voxel, self.size, strict=True)]
        return [min(max(at, low), high) for at, (low, high) in zip(middles, ranges, strict=True)]

    def _place(self, voxels: Pixels, ids: Pixels, start: Sequence[int], out: Mapping[str, NDArray[Any]]) -> None:
        out["image"][...], out["mask"][...] = 0, self.ignore
        source = tuple(
            slice(max(0, at), max(0, min(at + side, have)))
            for at, side, have in zip(start, self.size, ids.shape, strict=True)
        )
        target = tuple(slice(part.start - at, part.stop - at) for part, at in zip(source, start, strict=True))
        out["image"][target] = voxels[source]
        out["mask"][target] = ids[source]

    @cached_property
    def _labels(self) -> LabelSet:
        return LabelSet(self.classes, self.ignore)


class VolumeMetric:
    """Counts voxels of every class, case by case."""

    def __init__(self, names: Sequence[str], ignore: int) -> None:
        self.cases = Cases(names, ignore)

    def gather(self, ranks: Collective) -> None:
        """Put together the cases of all ranks."""
        self.cases.take(ranks.gather(self.cases.lines()))

    def update(self, outputs: torch.Tensor, tensors: Tensors, origins: Sequence[str]) -> None:
        """Count one batch of logits; padding has only ignored labels."""
        self.cases.update(outputs.argmax(dim=1), tensors["mask"], origins)

    def scores(self) -> VolumeScores:
        """Dice, and intersection over union."""
        return self.cases.scores()


@dataclass(frozen=True)
class Volumes(Task):
    """Semantic segmentation of volumes.

    Attributes:
        name: the model.
        classes: the classes' names; their index is their id, 0 is background.
        ignore: the label that does not count.
        augment: the patch's `slices` and `crop`, and `flip` along each axis; no more of it applies to volumes.
        pixel_format: as many channels as there are modalities.
        canvas: (slices, rows, columns) that every volume to evaluate fits into.
        objective: the losses.
        class_weights: of cross-entropy, one per class or none.
        step: finished steps, where the objective depends on them; None stands for the end of training.
    """

    name: str
    classes: tuple[str, ...]
    ignore: int = 255
    augment: Augment = field(default_factory=Augment)
    pixel_format: PixelFormat = PixelFormat(1)  # noqa: RUF009 - frozen
    canvas: Box = (1, 1, 1)
    objective: Objective = field(default_factory=Objective)
    class_weights: tuple[float, ...] = ()
    step: int | None = None

    kind = VOLUMES
    best_metric = "mean_dice"
    supports = frozenset({Ability.ORIGINAL_IDS, Ability.LOSSES, Ability.SLICES, Ability.MODELS})

    @classmethod
    def of(cls, settings: TaskSettings, described: Description, split: SplitInfo, *, grows: bool = False) -> Self:
        """The task for a dataset."""
        weights = weights_of(settings.loss, described.classes, split.per_class, split.image_pixels)
        splits = described.splits.values()
        slices, height, width = (max(getattr(each, side) for each in splits) for side in ("slices", "height", "width"))
        return cls(
            settings.model.name,
            described.classes,
            described.ignore_label,
            settings.augment,
            described.pixel_format,
            (slices, height, width),
            settings.loss,
            weights,
        )

    @classmethod
    def defaults(cls, weights: str = "") -> Mapping[str, Any]:
        """Those of a 3-D U-Net; there are no published weights of one."""
        return {
            "model.name": "unet3d",
            "model.weights": "none",
            "augment.crop": (96, 96),
            "augment.slices": 32,
            "loss.dice": 1.0,
            "optimizer.name": "adamw",
            "optimizer.lr": 1e-3,
            "optimizer.weight_decay": 0.01,
            "optimizer.schedule.name": "cosine",
            "train.steps": 5000,
            "train.batch": 2,
            "train.evaluate_every": 500,
            "train.save_every": 500,
        }

    def for_images(self, height: int, width: int, slices: int = 0) -> Self:
        """The task with a canvas that volumes of up to a size fit."""
        return replace(self, canvas=(slices, height, width))

    @property
    def patch(self) -> Box:
        """What the network sees, (slices, rows, columns)."""
        return (self.augment.slices, *self.augment.crop)

    def prepare(self, *, train: bool) -> Prepare:
        """A random patch for training, the whole volume for evaluation."""
        flip = self.augment.flip if train else None
        size = self.patch if train else self.canvas
        return PrepareVolume(len(self.classes), self.ignore, self.pixel_format.channels, size, flip)

    def model(self) -> nn.Module:
        """A new model."""
        return build_volume_network(self.name, len(self.classes), self.pixel_format.channels, self.patch, -_MEAN / _STD)

    def inputs(self, tensors: Tensors) -> torch.Tensor:
        """Float32 (n, channels, slices, rows, columns), about -2 to 2."""
        return tensors["image"].permute(0, 4, 1, 2, 3).float().sub_(_MEAN).div_(_STD)

    def mask_padding(self, tensors: Tensors, weight: torch.Tensor) -> Tensors:
        """All voxels of padding samples get the ignored label."""
        real = weight.to(tensors["mask"].device).view(-1, 1, 1, 1) > 0
        return {**tensors, "mask": torch.where(real, tensors["mask"], self.ignore)}

    def count(self, tensors: Tensors) -> torch.Tensor:
        """What each loss is divided by: voxels or patches with a label."""
        return self.losses.count(tensors["mask"], self.ignore)

    def loss(self, outputs: torch.Tensor, tensors: Tensors) -> torch.Tensor:
        """The sum of each loss."""
        return self.losses.sum(outputs, tensors["mask"], self.ignore)

    def after(self, step: int) -> Self:
        """The task as it is after some steps: hard mining may begin slowly."""
        return replace(self, step=step) if self.objective.ohem_warmup_steps else self

    @cached_property
    def losses(self) -> Mixture:
        """The losses as they are now."""
        return mixture(self.objective, self.class_weights, self.step)

    def metric(self) -> VolumeMetric:
        """A fresh counter of cases."""
        return VolumeMetric(self.classes, self.ignore)

    @property
    def drawing(self) -> VolumeDrawing:
        """Draws the slice with the most labels."""
        return VolumeDrawing(self.classes, self.ignore)

    @property
    def volume_predictor(self) -> PatchPredictor:
        """Predicts volumes through the network's own sliding window."""
        return PatchPredictor(self)

    @property
    def exporter(self) -> PatchExporter:
        """Makes graphs from patches to classes and probabilities."""
        return PatchExporter(self)


@dataclass(frozen=True)
class VolumeDrawing(MaskDrawing):
    """Draws the slice of a volume that has the most labels; class 0 is background."""

    def draw(
        self, arrays: Mapping[str, NDArray[Any]], outputs: torch.Tensor | None = None, record: Record | None = None
    ) -> Pixels:
        """The slice with the most labels, its labels over it and, where there are logits, prediction and errors."""
        if record:
            fields = decode_segmentation(record)
            info = probe(fields.image, record.origin)
            real = fields.slices, info.height // fields.slices, info.width
            inside = tuple(slice(0, side) for side in real)
            arrays = {name: array[inside] for name, array in arrays.items()}
            outputs = None if outputs is None else outputs[(slice(None), *inside)]
        best, image = telling_slice(arrays["image"], arrays["mask"], self.ignore)
        logits = None if outputs is None else outputs[:, best]
        return self.beside(image, arrays["mask"][best], logits, background=0)  # as scores leave it out


@dataclass(frozen=True)
class PatchExporter(Exporter):
    """Graphs from patches to classes and probabilities, without the sliding window."""

    task: Volumes

    def check_size(self, size: Size) -> None:
        """The network takes patches of training's size."""
        crop = self.task.augment.crop
        if size != crop:
            raise RecipeError(
                "--size",
                expected="the size of the patches of training",
                found=f"{size[0]} x {size[1]}",
                remedy=f"Use --size {crop[0]} {crop[1]}, or remove --size",
            )

    def input_note(self, size: Size | None) -> str:
        """Patches."""
        slices, height, width = self.task.patch if size is None else (self.task.patch[0], *size)
        return (
            f"patches of {slices} x {height} x {width} voxels (slices, rows, columns) of a volume that is oriented and "
            "scaled to 0 to 255 as penstock pack does it"
        )

    def graph(self, model: nn.Module, size: Size) -> Graph:
        """Patches of one size."""
        assert isinstance(model, VolumeNetwork)  # noqa: S101 - `model` makes no other
        return class_graph(self.task, model.network, (self.task.patch[0], *size, self.task.pixel_format.channels))
