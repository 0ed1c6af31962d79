"""Batches with and without holes, of every task."""

from __future__ import annotations

import numpy as np
import torch

from penstock.extensions.volumes.task import Volumes
from penstock.feed import Batch
from penstock.settings import Augment, DeepLabConfig, Objective, Regularize
from penstock.tasks import Classification, Detection, Matting, Segmentation
from penstock.values import Cursor

CPU = torch.device("cpu")


SIDE = 64


MIXED = Regularize(mixup=1.0, cutmix=1.0, random_erasing=0.5, brightness=20.0, contrast=(0.5, 1.5))


LOSSES = Objective(cross_entropy=1.0, dice=0.5, focal=0.5, lovasz=0.2, tversky=0.3, ohem_ratio=0.4)


AUGMENT = Augment((SIDE, SIDE))


TASKS = {
    "masks": Segmentation("unet:test_resnet", ("a", "b", "c"), augment=AUGMENT, objective=LOSSES),
    "pooled masks": Segmentation(
        "deeplab:test_resnet", ("a", "b"), augment=AUGMENT, parts=DeepLabConfig(aux_loss_weight=0.4)
    ),
    "weighted masks": Segmentation(
        "unet:test_resnet",
        ("a", "b"),
        augment=AUGMENT,
        objective=Objective(ohem_threshold=0.4),
        class_weights=(1.0, 5.0),
    ),
    "mattes": Matting("unet:test_resnet", ("back", "front"), augment=AUGMENT),
    "classes": Classification("test_resnet", ("a", "b", "c"), AUGMENT, objective=Objective(label_smoothing=0.1)),
    "mixed classes": Classification("test_resnet", ("a", "b", "c"), AUGMENT, MIXED),
    "volumes": Volumes(
        "unet3d", ("back", "front"), augment=Augment((16, 16), slices=16), objective=Objective(dice=1.0)
    ),
    **{name: Detection(f"{name}:test_resnet", ("a", "b"), 3, AUGMENT) for name in ("retinanet", "fcos", "ssd")},
    "fasterrcnn": Detection("fasterrcnn:resnet10t", ("a", "b"), 3, AUGMENT),
}


def sample(task, number):
    """Arrays of one sample, as a feed would give them."""
    draw = np.random.default_rng(number)
    fields = task.prepare(train=True).fields
    arrays = {name: np.zeros(field.shape, field.dtype) for name, field in fields.items()}
    arrays["image"][...] = draw.integers(0, 256, arrays["image"].shape)
    if "mask" in arrays:
        arrays["mask"][...] = draw.integers(0, len(task.classes), arrays["mask"].shape)
    if isinstance(task, Classification):
        arrays["label"][...] = draw.integers(0, 3)
    if "draws" in arrays:
        from penstock.seeds import generator

        arrays["draws"][...] = task.regularize.draw(generator(5, "augment", number))
    if "boxes" in arrays:
        arrays["boxes"][...] = [(4, 6, 30, 40), (20, 10, 60, 50), (0, 0, 0, 0)]
        arrays["label"][...] = [0, 1, -1]
        arrays["size"][...], arrays["scale"][...] = SIDE, 1
    return arrays


def batch(task, numbers):
    """Samples by number; None is a hole."""
    rows = [sample(task, n or 0) for n in numbers]
    for row in (row for row, number in zip(rows, numbers, strict=True) if number is None):
        for array in row.values():
            array[...] = 0  # as a feed blanks a row
    tensors = {name: torch.from_numpy(np.stack([row[name] for row in rows])) for name in rows[0]}
    weight = torch.tensor([float(n is not None) for n in numbers])
    return Batch(tensors, weight, Cursor(), tuple("" if n is None else f"t#{n}" for n in numbers))
