"""A network of one's own: `penstock train DATA --model examples/own_parts/my_net.py:build`."""

from torch import nn


def build(classes, channels=3):
    """Maps float (n, channels, h, w) to logits (n, classes, h, w)."""
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=2, dilation=2),
        nn.ReLU(),
        nn.Conv2d(16, classes, 1),
    )
