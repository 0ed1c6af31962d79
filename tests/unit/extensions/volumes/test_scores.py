from __future__ import annotations

import numpy as np
import pytest
import torch

from penstock.extensions.volumes.scores import Cases, dice


def test_dice_is_that_of_the_volumes_themselves():
    draw = torch.Generator().manual_seed(0)
    predicted, target = (torch.randint(0, 4, (5, 3, 6, 7), generator=draw) for _ in range(2))
    target[0][target[0] == 2] = 0
    predicted[0][predicted[0] == 2] = 0
    cases_ = Cases(("background", "a", "b", "c"), 255)
    cases_.update(predicted[:2], target[:2], ["0", "1"])
    cases_.update(predicted[2:], target[2:], ["2", "3", ""])
    scores = cases_.scores()
    expected = {str(i): dice(predicted[i].numpy(), target[i].numpy(), 4) for i in range(4)}

    assert scores.dice == expected
    assert scores.dice["0"][1] is None
    assert scores.means[1] == pytest.approx(np.mean([expected[str(i)][1] for i in range(1, 4)]))
    assert scores.summary()["mean_dice"] == pytest.approx(np.mean(scores.means))


def test_ranks_put_their_cases_together():
    draw = torch.Generator().manual_seed(0)
    predicted, target = (torch.randint(0, 3, (4, 2, 3, 3), generator=draw) for _ in range(2))
    alone, parts = Cases(("a", "b", "c"), 255), [Cases(("a", "b", "c"), 255) for _ in range(2)]
    alone.update(predicted, target, list("wxyz"))
    parts[0].update(predicted[::2], target[::2], list("wy"))
    parts[1].update(predicted[1::2], target[1::2], list("xz"))
    parts[0].take([line for part in parts for line in part.lines()])

    assert parts[0].scores() == alone.scores()


@pytest.mark.filterwarnings("ignore")  # MONAI's imports
def test_dice_is_monais():
    metrics = pytest.importorskip("monai.metrics")
    found, true = (np.random.default_rng(seed).integers(0, 4, (8, 9, 7), np.uint8) for seed in (0, 1))
    encoded = (
        torch.nn.functional.one_hot(torch.from_numpy(ids).long(), 4).permute(3, 0, 1, 2)[None] for ids in (found, true)
    )

    assert dice(found, true, 4) == pytest.approx(metrics.compute_dice(*encoded, include_background=False)[0].tolist())
    assert dice(np.zeros((2, 2, 2), np.uint8), np.zeros((2, 2, 2), np.uint8), 2) == [None]
