"""The gradients of a step of many networks: same_child.py OUT ["apart" | "fsdp"], as one process or as one of several
ranks.

Each rank takes its share of the same six samples; what rank 0 is left with is written to OUT. "apart" leaves out what
makes ranks agree, "fsdp" cuts weights over ranks and computes activations again.
"""

import dataclasses
import sys

import torch
from torch import nn

from penstock.extensions.volumes.task import Volumes
from penstock.models import ARCHITECTURES, synchronise_norms
from penstock.ranks import from_environment, joined
from penstock.session import Learner
from penstock.session.sharding import whole
from penstock.settings import Augment, Objective, Train
from penstock.settings.optimizer import SGD
from penstock.tasks import Classification, Matting, Segmentation
from support.holes import CPU, batch

BATCH = 6
CROP = Augment((64, 64))
CLASSES = ("a", "b", "c")
BACKBONES = {"dpt": "test_vit", "segformer": "mit_b0"}


class Wide(nn.Module):
    """A network with every layer that drops something, and norms of one and two dimensions."""

    def __init__(self, classes):
        from timm.layers import DropPath
        from torchvision.ops import StochasticDepth

        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=4), nn.BatchNorm2d(8), nn.Dropout2d(0.3), nn.ReLU())
        self.branch, self.path = nn.Conv2d(8, 8, 3, padding=1), DropPath(0.4)
        self.other, self.depth = nn.Conv2d(8, 8, 1), StochasticDepth(0.4, "row")
        self.head = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, classes))

    def forward(self, images):
        features = self.stem(images)
        features = features + self.path(self.branch(features))
        features = features + self.depth(self.other(features))
        return self.head(features.mean(dim=(2, 3)))


def tasks():
    """By name."""
    for name in ARCHITECTURES:
        network = f"{name}:{BACKBONES.get(name, 'test_resnet')}"
        crop = Augment((128, 128)) if name == "pan" else CROP  # which halves it seven times
        yield name, Segmentation(network, CLASSES, augment=crop, objective=Objective(dice=0.5))
    for name in ("test_resnet", "test_vit", "test_convnext", "test_efficientnet", f"{__file__}:Wide"):
        yield name.rpartition("/")[2], Classification(name, CLASSES, CROP)
    yield "mattes", Matting("unet:test_resnet", CLASSES[:2], augment=CROP)
    yield "volumes", Volumes("unet3d", CLASSES[:2], augment=Augment((16, 16), slices=16))


def gradients(task, ranks, mode):
    """The loss and the gradients of the first step, and running statistics after it."""
    torch.manual_seed(1)
    model = task.model()
    apart, fsdp = mode == "apart", mode == "fsdp"
    if ranks.world_size > 1 and not apart:
        synchronise_norms(model)
    options, spec = Train(steps=1, fsdp=fsdp, activation_checkpointing=fsdp), SGD(lr=0.1)
    learner = Learner.of(model, options=options, optimizer=spec, ranks=ranks, device=CPU)
    learner.begin()
    rows = ranks.batch_slice.rows(BATCH)
    own = dataclasses.replace(batch(task, list(rows)), first=0 if apart else rows.start)
    loss = learner.backward(task, own, 0, ranks.rank)
    found = {name: whole(each.grad) for name, each in learner.model.named_parameters() if each.grad is not None}
    buffers = {name: each.clone() for name, each in learner.model.named_buffers() if each.is_floating_point()}
    return {"loss": loss, **found, **buffers}


if __name__ == "__main__":
    with joined(CPU):
        ranks = from_environment()
        mode = sys.argv[2] if len(sys.argv) > 2 else ""
        found = {name: gradients(task, ranks, mode) for name, task in tasks()}
        if ranks.is_main:
            torch.save(found, sys.argv[1])
