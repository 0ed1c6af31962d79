"""Hooks that watch a training from outside, for tests that work out the same by other means."""

from __future__ import annotations

import copy

import pytest
import timm
import torch

from penstock.session import Hook
from penstock.training import train


class Batches(Hook):
    """Keeps the batches of the steps."""

    def __init__(self):
        self.batches = []

    def before_step(self, session):
        self.batches.append({name: tensor.clone() for name, tensor in session.batch.tensors.items()})


class Given(Batches):
    """Keeps what the network was given in training and what it answered, and the batches and losses of the steps."""

    def __init__(self):
        super().__init__()
        self.inputs, self.outputs, self.losses = [], [], []

    def on_start(self, session):
        def keep(module, inputs, output):
            if module.training:
                self.inputs.append(inputs[0].detach().clone())
                self.outputs.append(output.detach().clone())

        session.model.register_forward_hook(keep)

    def after_step(self, session):
        self.losses.append(session.loss)


class Losses(Hook):
    """The loss of every step, and what a function makes of the same batch and the same weights."""

    def __init__(self, expected):
        self.expected, self.found = expected, []

    def before_step(self, session):
        tensors = session.batch.tensors
        images = tensors["image"].permute(0, 3, 1, 2).float() / 127.5 - 1
        with torch.no_grad():
            logits = copy.deepcopy(session.model).train()(images)
        self.wanted = float(self.expected(logits, tensors["mask"], session.step))

    def after_step(self, session):
        self.found.append((session.loss, self.wanted))


def compare_losses(chosen, folder, expected):
    known = timm.models.get_pretrained_cfg("test_resnet")
    assert (known.mean, known.std) == ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    hook = Losses(expected)
    train(chosen, folder, hooks=[hook])
    ours, theirs = zip(*hook.found, strict=True)
    assert ours == pytest.approx(theirs, rel=1e-4)
