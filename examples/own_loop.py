"""A loop of one's own over Penstock's feed: plain PyTorch, which can be stopped and resumed at any step.

python examples/own_loop.py DATA --steps 20
python examples/own_loop.py DATA --steps 40      # goes on from loop.pt
"""

import argparse
from pathlib import Path

import torch
from torch import nn

import penstock as ps

STATE = Path("loop.pt")


def main():
    """Train a small network on the train split of a packed dataset of masks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()

    data = ps.open(options.data)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, len(data.classes), 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    feed = data["train"].feed(batch=8, crop=(64, 64), seed=1)

    step, cursor = 0, ps.Cursor()
    if STATE.exists():  # weights, optimizer and the place in the data: all that a loop needs to go on
        state = torch.load(STATE, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step, cursor = state["step"], ps.Cursor(state["position"], state["plan"])

    for batch in feed.batches(cursor):
        if step == options.steps:
            break
        images = batch.tensors["image"].permute(0, 3, 1, 2).float() / 255  # uint8 (n, h, w, 3)
        loss = nn.functional.cross_entropy(model(images), batch.tensors["mask"].long(), ignore_index=255)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        print(f"step {step}  loss {loss.item():.6f}  {batch.origins[0]}")
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save({**state, "position": batch.cursor.position, "plan": batch.cursor.plan}, STATE)


if __name__ == "__main__":
    main()
