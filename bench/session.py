"""What a session costs: its steps and those of a bare loop by turns, on the same batches in memory.

python bench/session.py DATA    DATA is CamVid, packed

Both do the same to a network of their own: forward, loss, backward, AdamW. All else that lies between two batches is the
session's: counting labels, seeds, the check that loss and gradients are finite, the schedule, its cursor, what it agrees
on, its hooks and two logs. Batches are as small as the network takes, so that this is no less than what clocks differ by;
most of it goes with the network's parameters, not with the images.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import common
import torch

from penstock import devices
from penstock.hooks import MetricsLog, TimingsLog
from penstock.ranks import Ranks
from penstock.settings import DataSettings, Model, Recipe, Train
from penstock.assembly.experiment import open_experiment
from penstock.session import HookList, CheckpointStore, Learner, Saver, Session
from penstock.settings.optimizer import AdamW, SGD
from penstock.session.optimizer import make_optimizer
from penstock.feed import Batch
from penstock.settings import Augment
from penstock.tasks.base import Task
from penstock.values import Cursor

PAIRS, WARM, BATCH, CROP, TRIVIAL = common.sized((400, 20, 2, (64, 64), 5000), (4, 1, 2, (64, 64), 30))


class ByTurns:
    """A feed whose next batch comes after a bare step on the same one."""

    def __init__(self, feed, bare):
        self.feed, self.plan, self.batch, self.bare = feed, feed.plan, feed.batch, bare
        self.alone, self.whole = [], []

    def batches(self, cursor, give_up):
        for batch in self.feed.batches(cursor, give_up):
            tensors = {name: tensor.clone() for name, tensor in batch.tensors.items()}
            began = time.perf_counter()
            self.bare(tensors)
            given = time.perf_counter()
            self.alone.append(given - began)
            yield batch
            self.whole.append(time.perf_counter() - given)


def bare_step(task, network, layout, optimizer):
    def step(tensors):
        logits = network(devices.lay_out(task.inputs(tensors), layout))
        loss = torch.nn.functional.cross_entropy(logits, tensors["mask"].long(), ignore_index=task.ignore)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


class Line(Task):
    """Learns a number from two: a network that takes no time."""

    classes, ignore, best_metric = ("y",), -1, "score"

    def model(self):
        return torch.nn.Linear(2, 1)

    def inputs(self, tensors):
        return tensors["x"]

    def count(self, tensors):
        return torch.tensor([len(tensors["x"])])

    def loss(self, outputs, tensors):
        return ((outputs[:, 0] - tensors["y"]) ** 2).sum().unsqueeze(0)

    def _absent(self, *_, **__):
        raise NotImplementedError

    of = prepare = mask_padding = metric = drawing = _absent


class Numbers:
    """The same batch of four, again and again."""

    batch = 4

    def __init__(self):
        self.plan = SimpleNamespace(end=None, start=lambda cursor: None, epoch=lambda position: position / 12)

    def batches(self, cursor, give_up):
        tensors, origins = {"x": torch.rand(4, 2), "y": torch.rand(4)}, ("",) * 4
        for position in itertools.count(cursor.position, 4):
            yield Batch(tensors, torch.ones(4), Cursor(position + 4, "plan"), origins)


def bare_line(task, network, optimizer):
    def step(tensors):
        loss = task.loss(network(tensors["x"]), tensors).sum() / 4
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def measured(task, network, feed, spec, steps):
    """Seconds of a step of the session and of the bare one next to it, and of how much the first takes longer."""
    device, folder, ranks = torch.device("cpu"), Path(tempfile.mkdtemp()), Ranks()
    logs = [MetricsLog(folder / "metrics.jsonl", ranks), TimingsLog(folder / "timings.jsonl")]
    (folder / "checkpoints").mkdir()
    options = Train(steps=steps, evaluate_every=steps, save_every=steps)
    learner = Learner.of(network, options=options, optimizer=spec, ranks=ranks, device=device)
    saver = Saver(CheckpointStore(folder / "checkpoints"), ranks, device)
    Session(task, learner, feed, saver=saver, attached=HookList(tuple(logs))).train()
    pairs = list(zip(feed.whole, feed.alone, strict=False))[WARM:]  # nothing is asked for after the last step
    session, bare = (statistics.median(column) for column in zip(*pairs, strict=True))
    return session, bare, statistics.median(whole - alone for whole, alone in pairs), len(pairs)


def trivial():
    """What a step of a network that takes no time takes longer in the session, in seconds."""
    task, spec = Line(), SGD(lr=1e-3)
    network = task.model()
    feed = ByTurns(Numbers(), bare_line(task, network, make_optimizer(spec, network)))
    return measured(task, task.model(), feed, spec, TRIVIAL)[2]


def main():
    made = Recipe(
        data=DataSettings(sys.argv[1]),
        model=Model("deeplabv3plus:resnet18", "none"),
        augment=Augment(CROP),
        optimizer=AdamW(lr=1e-3),
        train=Train(steps=PAIRS, batch=BATCH),
    )
    parts = open_experiment(made)
    task, device = parts.task, torch.device("cpu")
    network = parts.model().train()
    layout = devices.training_layout(network, device)
    network = devices.place(network, device, layout)
    bare = bare_step(task, network, layout, make_optimizer(made.optimizer, network))
    feed = ByTurns(parts.training_feed(), bare)
    devices.keep_freed_memory()
    session_s, bare_s, more, pairs = measured(task, parts.model(), feed, made.optimizer, PAIRS)
    common.write(
        "session",
        "python bench/session.py DATA",
        {
            "versions": common.versions("penstock", "torch"),
            "batch": BATCH,
            "crop": CROP,
            "pairs": pairs,
            "session": round(session_s, 5),
            "bare": round(bare_s, 5),
            "more": round(more, 5),
            "trivial": round(trivial(), 6),
        },
    )


if __name__ == "__main__":
    main()
