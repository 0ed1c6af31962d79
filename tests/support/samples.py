"""Records with a noisy image, samples of them, and outputs to score."""

from __future__ import annotations

import numpy as np
import torch

from penstock.extensions.volumes.task import Volumes
from penstock.images.codecs import encode_png
from penstock.settings import Augment
from penstock.tasks import Classification, Detection, Matting, Segmentation

NOISE = np.random.default_rng(2)


IMAGE = NOISE.integers(0, 256, (30, 40, 3), np.uint8)


PNG = encode_png(IMAGE)


def filled(prepare, record, drawn=None, before=77):
    """A sample, whose memory held something else before."""
    out = {name: np.full(field.shape, before, field.dtype) for name, field in prepare.fields.items()}
    prepare(record, drawn, out)
    return out


def dense(*size):
    """Logits and labels of masks, in halves."""
    mask = torch.from_numpy(NOISE.integers(0, 3, (4, *size), np.uint8))
    return torch.from_numpy(NOISE.random((4, 3, *size), np.float32)), mask


def found(number):
    """Boxes that are found, in a sample that is enlarged by 2."""
    edges = torch.tensor([(4.0, 6.0, 40.0, 46.0), (60.0, 10.0, 80.0, 30.0)])
    shift = torch.tensor([number, 0.0, number, 0.0])
    return {"boxes": edges + shift, "labels": torch.tensor([1, 0]), "scores": torch.tensor([0.9, 0.5])}


def cases():
    """Of every kind of task: it, what a network gives, and the labels."""
    classes = ("a", "b", "c")
    logits, mask = dense(16, 16)
    size = torch.full((4, 2), 16)
    yield Segmentation("unet:test_resnet", classes), logits, {"mask": mask}
    yield Segmentation("unet:test_resnet", classes, segments=True), logits, {"mask": mask, "size": size}
    shares = torch.from_numpy(NOISE.integers(-1, 256, (4, 8, 8))).short()
    yield Matting("unet:test_resnet", classes[:2]), dense(8, 8)[0][:, :2], {"mask": shares}
    deep, voxels = dense(2, 8, 8)
    yield Volumes("unet3d", classes), deep, {"mask": voxels}
    predictions = torch.from_numpy(NOISE.random((4, 3), np.float32))
    yield Classification("test_resnet", classes, Augment((8, 8))), predictions, {"label": torch.tensor([0, 1, 2, 1])}
    true = torch.tensor([[(4.0, 6.0, 40.0, 46.0), (60.0, 10.0, 80.0, 30.0), (0, 0, 0, 0)]]).expand(4, -1, -1)
    label, crowd = torch.tensor([[1, 0, -1]] * 4), torch.zeros(4, 3, dtype=torch.uint8)
    boxes = {"boxes": true, "label": label, "crowd": crowd, "scale": torch.full((4,), 2.0)}
    yield Detection("ssd:test_resnet", classes[:2], 3), [found(n) for n in range(4)], boxes
