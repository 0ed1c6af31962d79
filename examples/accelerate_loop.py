"""Penstock's feed in Hugging Face Accelerate, on any number of processes, which can be stopped and resumed at any step.

accelerate launch examples/accelerate_loop.py DATA --steps 20
accelerate launch examples/accelerate_loop.py DATA --steps 40      # goes on from accelerate-state/
"""

import argparse
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn

import penstock as ps

STATE = Path("accelerate-state")


class Progress:
    """Progress of the loop, which Accelerate saves beside weights and optimizer."""

    def __init__(self):
        self.step, self.cursor = 0, ps.Cursor()

    def state_dict(self):
        return {"step": self.step, "position": self.cursor.position, "plan": self.cursor.plan}

    def load_state_dict(self, state):
        self.step, self.cursor = state["step"], ps.Cursor(state["position"], state["plan"])


def main():
    """Train a small network on the train split of a packed dataset of masks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()

    accelerator = Accelerator(cpu=True)
    set_seed(0)
    data, progress = ps.open(options.data), Progress()
    network = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, len(data.classes), 1))
    model, optimizer = accelerator.prepare(network, torch.optim.AdamW(network.parameters(), lr=1e-3))
    accelerator.register_for_checkpointing(progress)
    if STATE.exists():
        accelerator.load_state(STATE)

    share = {"rank": accelerator.process_index, "world_size": accelerator.num_processes}
    feed = data["train"].feed(batch=8, crop=(64, 64), seed=1, **share)
    for batch in feed.batches(progress.cursor):
        if progress.step == options.steps:
            break
        images = batch.tensors["image"].to(accelerator.device).permute(0, 3, 1, 2).float() / 255
        masks = batch.tensors["mask"].to(accelerator.device).long()
        loss = nn.functional.cross_entropy(model(images), masks, ignore_index=255)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        progress.step, progress.cursor = progress.step + 1, batch.cursor
        accelerator.print(f"step {progress.step}  loss {loss.item():.6f}  {batch.origins[0]}")
    accelerator.save_state(STATE)


if __name__ == "__main__":
    main()
