"""Trainings on images of two classes of which every sample is looked at."""

from __future__ import annotations

import dataclasses

import numpy as np

from penstock.config import apply
from penstock.datasets import inspect, pack
from penstock.settings import DataSettings, Model
from penstock.training import train
from support import miniatures
from support.defaults import default_recipe
from support.images import color_png
from support.watching import Given

HEIGHT, WIDTH = 48, 64


ROWS, COLUMNS = np.mgrid[:HEIGHT, :WIDTH]


def folders(root, images):
    """Images of two classes, packed; one of each in split val."""
    for number, pixels in enumerate(images):
        split = "val" if number < 2 else "train"
        miniatures.write(root / "raw" / split / "ab"[number % 2] / f"{number}.png", color_png(pixels))
    return pack(inspect(root / "raw"), root / "data")


def classified(dataset, folder, *settings, steps=4, batch=32, hooks=(), flip=("augment.flip=0.0",)):
    """A training of a small classifier, with what it was given."""
    begun = dataclasses.replace(
        default_recipe("classification"), data=DataSettings(str(dataset.folder)), model=Model("test_resnet", "none")
    )
    given = Given()
    words = ["train.device=cpu", f"train.steps={steps}", f"train.batch={batch}", "train.ema_decay=0.0", *flip]
    folder, _ = train(apply(begun, [*words, *settings]), folder, hooks=[given, *hooks])
    return given


def areas(logits, target, image, label):
    """True positives, false positives and false negatives of a class in an image, as probabilities."""
    valid, own = target[image] != 255, target[image] == label
    found = logits[image].softmax(dim=0)[label]
    return found[own].sum(), found[valid & ~own].sum(), (1 - found[own]).sum()
