"""Trainings that are looked at from their first batch."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from PIL import Image

from penstock.datasets import inspect, pack
from penstock.session import Hook
from penstock.training import train
from support.images import array_png


class Fed(Hook):
    """Keeps what the network is fed."""

    def __init__(self):
        self.images, self.masks = [], []

    def after_step(self, session):
        self.images += list(session.batch.tensors["image"].numpy().copy())
        self.masks += list(session.batch.tensors["mask"].numpy().copy())


def make_mattes(root, count=8):
    """Shares that are the green of their images."""
    draw = np.random.default_rng(0)
    for number in range(count):
        shares = np.asarray(
            Image.fromarray(draw.integers(0, 256, (6, 8), np.uint8)).resize((64, 48), Image.Resampling.BICUBIC)
        )
        image = np.stack([draw.integers(0, 256, (48, 64), np.uint8), shares, shares], axis=2)
        for folder, data in (("images", array_png(image)), ("alphas", array_png(shares))):
            path = root / "raw" / folder / "train" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return pack(inspect(root / "raw"), root / "data")


class EnoughError(Exception):
    """Ends a training before its first step."""


def begun(chosen, folder):
    """The network that a training of a recipe begins with."""

    class Takes(Hook):
        def on_start(self, session):
            taken.append(copy.deepcopy(session.model))
            raise EnoughError

    taken = []
    with pytest.raises(EnoughError):
        train(chosen, folder, hooks=[Takes()])
    return taken[0].eval()
