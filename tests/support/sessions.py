"""A session made of its parts."""

from __future__ import annotations

import torch

from penstock.ranks import Ranks
from penstock.session import CheckpointStore, HookList, Learner, Saver, Session
from penstock.settings.optimizer import SGD


def make_session(parts, folder, options, hooks=(), *, freeze=False, evaluate=None):
    model = parts.model()
    if freeze:
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.forward = torch.nn.Identity().forward
    folder.mkdir(exist_ok=True)
    ranks, device = Ranks(), torch.device("cpu")
    return Session(
        parts.task,
        Learner.of(model, options=options, optimizer=SGD(), ranks=ranks, device=device),
        parts.training_feed(),
        saver=Saver(CheckpointStore(folder), ranks, device),
        attached=HookList(tuple(hooks)),
        evaluate=evaluate,
    )
