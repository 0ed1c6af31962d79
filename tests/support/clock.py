"""A clock of our own for hooks."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from penstock.hooks import console, saving
from penstock.ranks import Ranks
from penstock.settings import Train


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        own = SimpleNamespace(monotonic=lambda: self.now, perf_counter=lambda: self.now)
        for module in (console, saving):  # of them alone: other threads go on by the real one
            monkeypatch.setattr(module, "time", own)


def clocked_session(step=0, steps=100):
    return SimpleNamespace(
        step=step, options=Train(steps=steps), ranks=Ranks(), device=torch.device("cpu"), feed=SimpleNamespace(batch=8),
        loss=0.25, lr=0.01, timing={"step": 0.0, "wait": 0.0}, is_best=True, outcome=None,
    )  # fmt: skip
