"""A training small enough for tests: a tiny timm network with a narrow decoder on 32 x 32 crops."""

from __future__ import annotations

import os

from penstock.session import Hook
from penstock.settings import Augment, DataSettings, Model, Recipe, Train
from penstock.settings.optimizer import SGD
from penstock.settings.views import ScaleCrop

UNET = "unet:test_resnet"
NARROW = {"decoder_channels": [32, 16, 16, 8, 8]}
"""A decoder with a fifth of the weights, in a quarter of the time."""


def recipe(data, model=UNET, *, wide=False, **changes):
    """Twelve steps of four images, with everything that has state: momentum, average, evaluation, saves.

    What is `wide` has its own decoder, and finds more than the background after so few steps.
    """
    train = {
        "steps": 12,
        "batch": 4,
        "evaluate_every": 4,
        "save_every": 3,
        "ema_decay": 0.9,
        "device": "cpu",
        "log_origins": True,
        "log_every": 5,
    }
    return Recipe(
        seed=3,
        data=DataSettings(str(data)),
        model=Model(model, "none", decoder=NARROW if model == UNET and not wide else {}),
        augment=Augment((32, 32), ScaleCrop(scale=(0.5, 1.5))),
        optimizer=SGD(lr=0.05),
        train=Train(**{**train, **changes}),
    )


def state(folder):
    """What must come out the same, as bytes: the last checkpoint, the metrics, the origins."""
    last = (folder / "checkpoints" / "last").resolve()
    names = ["model.safetensors", "ema.safetensors", "optimizer.safetensors", "state.json", "manifest.json"]
    saved = {name: (last / name).read_bytes() for name in names if (last / name).exists()}
    logs = {name: (folder / name).read_bytes() for name in ("metrics.jsonl", "origins.jsonl")}
    best = (folder / "checkpoints" / "best").resolve().name
    return {**saved, **logs, "last": last.name, "best": best}


def stops(steps):
    """The steps at which tests stop a training: each of them in `make soak`, every third otherwise.

    Tests that ask are marked `every_step`. One, of masks (test_resume.py), stops at each step in every run.
    """
    return list(steps) if os.environ.get("PENSTOCK_EVERY_STEP") else list(steps)[1::3]


class Stop(Hook):
    """Stops a training after a step, as a person would."""

    def __init__(self, step):
        self.step = step

    def after_step(self, session):
        if session.step == self.step:
            session.request_stop("the test asks")
