"""Random masks."""

from __future__ import annotations

import cv2
import numpy as np


def random_masks(seed, size=(2, 48, 64), classes=4, ignored=True):
    draw = np.random.default_rng(seed)
    masks = np.stack(
        [cv2.resize(draw.integers(0, classes, (6, 8), np.uint8), size[:0:-1], interpolation=0) for _ in range(size[0])]
    )
    if ignored:
        masks[:, :5, :9] = 255
    return masks
