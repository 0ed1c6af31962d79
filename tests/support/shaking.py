"""A training whose weights are shaken, so that one step and the next answer differently."""

from __future__ import annotations

import copy

import torch

from penstock.inference import load_model
from penstock.session import Hook


class Shakes(Hook):
    """Gives the last layer random weights after every step, so that every checkpoint answers with all classes, and
    otherwise than the others.
    """

    def after_step(self, session):
        weight, bias = session.model.segmentation_head[0].weight, session.model.segmentation_head[0].bias
        weight.data = torch.randn(weight.shape, generator=torch.Generator().manual_seed(session.step))
        bias.data.zero_()


def normalised(run):
    """The model of a run's last step, and its task, apart from the command line."""
    trained = load_model(run, "last", "cpu")
    return trained.parts.task, trained.model


@torch.inference_mode()
def probabilities(task, model, images):
    """Of uint8 (n, h, w, 3)."""
    return model(task.inputs({"image": images})).float().softmax(dim=1)


def make_image(path):
    """As `predict` reads it: uint8 (1, h, w, 3)."""
    from penstock.images.upright import read_upright

    return torch.from_numpy(read_upright(path.read_bytes(), str(path))).unsqueeze(0)


class Looks(Hook):
    """Keeps what each step learns from, and the weights before it."""

    def __init__(self):
        self.batches, self.models, self.losses = [], [], []

    def before_step(self, session):
        self.batches.append({name: tensor.clone() for name, tensor in session.batch.tensors.items()})
        self.models.append(copy.deepcopy(session.model))

    def after_step(self, session):
        self.losses.append(session.loss)
