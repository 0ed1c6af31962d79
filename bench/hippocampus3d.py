"""The same hippocampus volumes kept whole, for a network of three dimensions: MONAI's U-Net on patches from random weights.

python bench/hippocampus3d.py DATA WORK    DATA holds images/ and labels/; WORK is filled, and a second call resumes
"""

from __future__ import annotations

import common
from hippocampus import measured

STEPS = common.sized("600", "1")
TRAIN = [
    "--steps", STEPS, "--batch", "2", "--crop", "56", "40", "--set", "augment.slices=40", "--set", "augment.flip=0",
    "--set", "train.ema_decay=0.99", "--set", "train.evaluate_every=300",
]  # fmt: skip


if __name__ == "__main__":
    measured("hippocampus3d", ["--layout", "nifti-volumes"], TRAIN, ["monai"])
