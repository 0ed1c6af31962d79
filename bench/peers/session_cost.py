"""Steps of a session and of a bare loop by turns, on the same batches in memory: session_cost.py DATA

Both do the same to a network of their own: forward, loss, backward, AdamW. The session's further work is what it costs:
counting labels, seeds, the check that loss and gradients are finite, the schedule, its cursor, its hooks and two logs.
Prints the medians, and the median of the ratios of neighbours.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from penstock import devices
from penstock.hooks import MetricsLog, TimingsLog
from penstock.ranks import Ranks
from penstock.recipe import Data, Model, Recipe, Train
from penstock.recipe.building import open_parts
from penstock.session import CheckpointStore, Options, OptimizerSpec, Session
from penstock.session.optimizer import make_optimizer
from penstock.tasks import Augment

PAIRS, WARM = 40, 4


class ByTurns:
    """A feed whose next batch comes after a bare step on the same one."""

    def __init__(self, feed, bare):
        self.feed, self.plan, self.bare, self.seconds = feed, feed.plan, bare, []

    def batches(self, cursor):
        for batch in self.feed.batches(cursor):
            tensors = {name: tensor.clone() for name, tensor in batch.tensors.items()}
            began = time.perf_counter()
            self.bare(tensors)
            self.seconds.append(time.perf_counter() - began)
            yield batch


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
        augment=Augment((176, 240)),
        optimizer=OptimizerSpec("adamw", 1e-3),
        train=Train(PAIRS, 8),
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
    session = Session(
        task, parts.model(), feed, options=Options(PAIRS, PAIRS, PAIRS), optimizer=made.optimizer,
        store=CheckpointStore(folder / "checkpoints"), ranks=Ranks(), device=device, hooks=logs,
    )  # fmt: skip
    session.train()
    ours = [line["step"] - line["wait"] for line in map(json.loads, (folder / "timings.jsonl").open())]
    pairs = list(zip(ours, feed.seconds, strict=True))[WARM:]
    medians = [statistics.median(column) for column in zip(*pairs, strict=True)]
    ratio = statistics.median(session / bare for session, bare in pairs)
    print(json.dumps({"session": medians[0], "bare": medians[1], "ratio": ratio, "pairs": len(pairs)}))


if __name__ == "__main__":
    main()
