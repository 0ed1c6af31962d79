"""Penstock's feed in PyTorch Lightning, which can be stopped and resumed at any step.

python examples/lightning_loop.py DATA --steps 20
python examples/lightning_loop.py DATA --steps 40      # goes on from lightning.ckpt
"""

import argparse
from dataclasses import replace
from pathlib import Path

import lightning
import torch
from torch import nn

import penstock as ps

CHECKPOINT = Path("lightning.ckpt")


class Segmenter(lightning.LightningModule):
    """A small network that learns masks, and knows its place in the data."""

    def __init__(self, classes):
        super().__init__()
        self.model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, classes, 1))
        self.cursor = ps.Cursor()

    def transfer_batch_to_device(self, batch, device, dataloader_idx):
        return replace(batch, tensors={name: tensor.to(device) for name, tensor in batch.tensors.items()})

    def training_step(self, batch, number):
        images = batch.tensors["image"].permute(0, 3, 1, 2).float() / 255  # uint8 (n, h, w, 3)
        loss = nn.functional.cross_entropy(self.model(images), batch.tensors["mask"].long(), ignore_index=255)
        self.cursor = batch.cursor
        print(f"step {self.global_step + 1}  loss {loss.item():.6f}  {batch.origins[0]}")
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)

    def on_save_checkpoint(self, checkpoint):
        checkpoint["cursor"] = [self.cursor.position, self.cursor.plan]

    def on_load_checkpoint(self, checkpoint):
        self.cursor = ps.Cursor(*checkpoint["cursor"])


class Batches:
    """The batches of a feed from a module's cursor on, as an iterable for Trainer.fit."""

    def __init__(self, feed, module):
        self.feed, self.module = feed, module

    def __iter__(self):
        return self.feed.batches(self.module.cursor)


def main():
    """Train a small network on the train split of a packed dataset of masks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()

    lightning.seed_everything(0)
    data = ps.open(options.data)
    module = Segmenter(len(data.classes))
    trainer = lightning.Trainer(
        max_steps=options.steps, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    # Where Lightning runs several processes, each takes its slice of every global batch.
    share = {"rank": trainer.global_rank, "world_size": trainer.world_size}
    feed = data["train"].feed(batch=8, crop=(64, 64), seed=1, **share)
    trainer.fit(module, Batches(feed, module), ckpt_path=CHECKPOINT if CHECKPOINT.exists() else None)
    trainer.save_checkpoint(CHECKPOINT)


if __name__ == "__main__":
    main()
