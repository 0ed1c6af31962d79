from __future__ import annotations

import numpy as np
import pytest

from penstock.metrics import dice


@pytest.mark.filterwarnings("ignore")  # MONAI's imports
def test_dice_is_monais():
    metrics, torch = pytest.importorskip("monai.metrics"), pytest.importorskip("torch")
    found, true = (np.random.default_rng(seed).integers(0, 4, (8, 9, 7), np.uint8) for seed in (0, 1))
    encoded = (
        torch.nn.functional.one_hot(torch.from_numpy(ids).long(), 4).permute(3, 0, 1, 2)[None] for ids in (found, true)
    )

    assert dice(found, true, 4) == pytest.approx(metrics.compute_dice(*encoded, include_background=False)[0].tolist())
    assert dice(np.zeros((2, 2, 2), np.uint8), np.zeros((2, 2, 2), np.uint8), 2) == [None]
