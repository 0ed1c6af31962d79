"""What a session costs: its steps and those of a bare loop by turns, on the same batches in memory.

python bench/session.py DATA    DATA is CamVid, packed

Both do the same to a network of their own: forward, loss, backward, AdamW. All else that lies between two batches is the
session's: counting labels, seeds, the check that loss and gradients are finite, the schedule, its cursor, what it agrees
on, its hooks and two logs. Batches are as small as the network takes, so that this is no less than what clocks differ by;
most of it goes with the network's parameters, not with the images.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import common
import torch

from penstock import devices
from penstock.hooks import MetricsLog, TimingsLog
from penstock.ranks import Ranks
from penstock.config import Data, Model, Recipe, Train
from penstock.assembly.parts import open_parts
from penstock.session import Attached, CheckpointStore, Learner, Options, OptimizerSpec, Saver, Session
from penstock.session.optimizer import make_optimizer
from penstock.tasks import Augment

PAIRS, WARM, BATCH, CROP = 400, 20, 2, (64, 64)


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


def main():
    made = Recipe(
        data=Data(sys.argv[1]),
        model=Model("deeplabv3plus:resnet18", "none"),
        augment=Augment(CROP),
        optimizer=OptimizerSpec("adamw", 1e-3),
        train=Train(steps=PAIRS, batch=BATCH),
    )
    parts = open_parts(made)
    task, device, folder = parts.task, torch.device("cpu"), Path(tempfile.mkdtemp())
    network = parts.model().train()
    layout = devices.training_layout(network, device)
    network = devices.place(network, device, layout)
    bare = bare_step(task, network, layout, make_optimizer(made.optimizer, network))
    feed = ByTurns(parts.training_feed(), bare)
    logs = [MetricsLog(folder / "metrics.jsonl", Ranks()), TimingsLog(folder / "timings.jsonl")]
    (folder / "checkpoints").mkdir()
    ranks, options = Ranks(), Options(PAIRS, PAIRS, PAIRS)
    learner = Learner.of(parts.model(), options=options, optimizer=made.optimizer, ranks=ranks, device=device)
    saver = Saver(CheckpointStore(folder / "checkpoints"), ranks, device)
    session = Session(task, learner, feed, saver=saver, attached=Attached(tuple(logs)))
    devices.keep_freed_memory()
    session.train()
    pairs = list(zip(feed.whole, feed.alone, strict=False))[WARM:]  # nothing is asked for after the last step
    session_s, bare_s = (statistics.median(column) for column in zip(*pairs, strict=True))
    common.write(
        "session",
        "python bench/session.py DATA",
        {
            "versions": common.versions("penstock", "torch"),
            "batch": BATCH,
            "crop": CROP,
            "pairs": len(pairs),
            "session": round(session_s, 5),
            "bare": round(bare_s, 5),
            "more": round(statistics.median(whole - alone for whole, alone in pairs), 5),
        },
    )


if __name__ == "__main__":
    main()
