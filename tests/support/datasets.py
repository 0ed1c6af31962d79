"""Small datasets to learn from, and what is in their records."""

from __future__ import annotations

import dataclasses

import numpy as np

from penstock.config import apply
from penstock.datasets import inspect, pack
from penstock.settings import Augment, DataSettings, Model, Objective, Recipe, Regularize, Train
from penstock.settings.optimizer import SGD
from penstock.settings.views import ResizedCrop, ScaleCrop
from support import miniatures
from support.defaults import default_recipe


def classes(folder):
    """What learns to tell a few images of two classes apart."""
    miniatures.folders(folder / "raw")
    dataset = pack(inspect(folder / "raw"), folder / "data")
    begun = default_recipe("classification", "test_resnet")
    begun = dataclasses.replace(begun, data=dataclasses.replace(begun.data, path=str(dataset.folder), validation=""))
    settings = ["train.steps=1", "train.batch=2", "augment.crop=[32, 32]", "train.device=cpu", "model.weights=none"]
    return apply(begun, settings)


def learn_colors(dataset, **changes):
    settings = {"steps": 8, "batch": 4, "evaluate_every": 4, "save_every": 3, "device": "cpu", "log_origins": True}
    return Recipe(
        seed=3,
        data=DataSettings(str(dataset.folder)),
        model=Model("test_resnet", "none"),
        augment=Augment((32, 32), ResizedCrop()),
        regularize=changes.pop("regularize", Regularize()),
        loss=changes.pop("loss", Objective()),
        optimizer=changes.pop("optimizer", SGD(lr=0.05)),
        train=Train(**{**settings, **changes}),
    )


def learn_squares(dataset, model="ssd:test_resnet", **changes):
    settings = {"steps": 4, "batch": 2, "evaluate_every": 4, "save_every": 1, "device": "cpu", "log_origins": True}
    settings["grad_clip"] = 5.0
    return Recipe(
        seed=3,
        data=DataSettings(str(dataset.folder)),
        model=Model(model, "none"),
        augment=Augment((64, 64), ScaleCrop(scale=(0.8, 1.25), scale_step=0.0)),
        optimizer=SGD(lr=0.002),
        train=Train(**{**settings, **changes}),
    )


def disk(seed, size=(48, 64)):
    """The image and shares of a bright disk with a soft edge."""
    draw = np.random.default_rng(seed)
    y, x = np.mgrid[: size[0], : size[1]]
    distance = np.hypot(y - draw.integers(14, 34), x - draw.integers(14, 50))
    shares = np.clip((14 - distance) / 8 + 0.5, 0, 1)
    colors = 30 + 200 * shares[..., np.newaxis] + draw.normal(0, 8, (*size, 3))
    return np.clip(colors, 0, 255).astype(np.uint8), (255 * shares).round().astype(np.uint8)


def records(dataset, split):
    source = dataset.source(split)
    return [r for p in source.snapshot().partitions for r in source.read(p.name, p.start, p.stop)]
