"""How long training waits for a checkpoint: written between two steps, and by a thread, by turns.

python bench/saving.py

What is saved is that of a DeepLabV3+ with a ResNet-50: weights, their EMA, and AdamW's two moments.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import common
import torch

from penstock.models.segmentation import build_segmenter
from penstock.ranks import Ranks
from penstock.session import CheckpointStore, Learner, Saver
from penstock.settings import Train
from penstock.settings.optimizer import AdamW
from penstock.session.saving import TrainingState

SAVES, NETWORK = common.sized((10, "deeplabv3plus:resnet50"), (1, "deeplabv3plus:test_resnet"))


def stepped(device: torch.device) -> Learner:
    """What learns, after a step, so that the optimizer has its moments."""
    network = build_segmenter(NETWORK, 11, "none")
    learner = Learner.of(
        network,
        options=Train(steps=1, evaluate_every=1, save_every=1, ema_decay=0.999),
        optimizer=AdamW(lr=1e-3),
        ranks=Ranks(),
        device=device,
    )
    for parameter in network.parameters():
        parameter.grad = torch.full_like(parameter, 1e-3)
    learner.optimizer.step()
    return learner


def pauses(learner: Learner, folder: Path, device: torch.device) -> dict[bool, list[tuple[float, float]]]:
    """Seconds until training goes on, and until the checkpoint is written; by whether a thread writes."""
    found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for number in range(2 * SAVES):
        in_background = number % 2 == 1
        saver = Saver(CheckpointStore(folder, 1), Ranks(), device, in_background)
        began = time.perf_counter()
        saver.save(learner, TrainingState(number + 1), {"hooks": {}})
        paused = time.perf_counter() - began
        saver.wait()
        found[in_background].append((paused, time.perf_counter() - began))
    return found


def main() -> None:
    """Measure, and write down."""
    device = torch.device("cpu")
    with tempfile.TemporaryDirectory() as folder:
        learner = stepped(device)
        found = pauses(learner, Path(folder), device)
        size = sum(each.stat().st_size for each in Path(folder).rglob("*.safetensors"))
    medians = {name: statistics.median(pause for pause, _ in found[name == "thread"]) for name in ("step", "thread")}
    common.write(
        "saving",
        "python bench/saving.py",
        {
            "versions": common.versions("penstock", "torch", "safetensors"),
            "saves": SAVES,
            "megabytes": round(size / 1e6),
            "pause_between_steps": round(medians["step"], 3),
            "pause_with_thread": round(medians["thread"], 3),
            "written_by_thread": round(statistics.median(whole for _, whole in found[True]), 3),
        },
    )


if __name__ == "__main__":
    main()
