from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from penstock.models import Window, Windowed
from penstock.models.sliding_window import bell

CPU = torch.device("cpu")


class ImportPath(nn.Module):
    """Logits that depend on a pixel and on its place within what is seen, so that windows disagree where they meet."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, images):
        self.seen.append(tuple(images.shape[2:]))
        ramp = torch.linspace(-1, 1, images.shape[3]).expand(images.shape[0], 1, *images.shape[2:])
        return torch.cat([images[:, :1], 3 * ramp, images[:, 1:2] * ramp], dim=1)


@pytest.mark.parametrize(
    ("side", "overlap", "length", "starts"),
    [
        (32, 0.25, 32, [0]),
        (32, 0.25, 20, [0]),
        (32, 0.25, 33, [0, 1]),
        (32, 0.25, 80, [0, 24, 48]),
        (32, 0.0, 96, [0, 32, 64]),
        (32, 0.5, 70, [0, 16, 32, 38]),
    ],
)
def test_where_windows_begin(side, overlap, length, starts):
    assert Window(side, overlap).starts(length) == starts


@pytest.mark.parametrize("overlap", [0.0, 0.25, 0.6])
def test_every_pixel_is_seen_and_none_beyond(overlap):
    for side in (1, 7, 32):
        for length in range(1, 120):
            starts = Window(side, overlap).starts(length)
            seen = [pixel for start in starts for pixel in range(start, min(start + side, length))]
            assert set(seen) == set(range(length))
            assert max(starts) + side <= max(length, side)


def test_probabilities_are_weighted_by_a_gaussian_around_each_windows_middle():
    images = torch.randn(2, 3, 64, 80)
    total, weights = torch.zeros(2, 3, 64, 80), torch.zeros(64, 80)
    for y in (0, 24, 32):
        for x in (0, 24, 48):
            place = slice(y, y + 32), slice(x, x + 32)
            along = np.exp(-0.5 * ((np.arange(32) + 0.5 - 16) / 4) ** 2)  # the deviation is an eighth of the side
            weight = torch.from_numpy(np.maximum(np.outer(along, along), 1e-4)).float()
            total[(..., *place)] += weight * ImportPath()(images[(..., *place)]).softmax(dim=1)
            weights[place] += weight
    found = Windowed(ImportPath(), Window(32), CPU)(images).exp()

    torch.testing.assert_close(found, total / weights)
    plain = Windowed(ImportPath(), Window(32, 0.0), CPU)(images).exp()
    assert not torch.allclose(found, plain, atol=0.05), "windows that do not overlap have seams"


def test_windows_are_filled_up_to_what_networks_take():
    model = ImportPath()
    found = Windowed(model, Window(40), CPU)(torch.randn(1, 3, 50, 30))

    assert (set(model.seen), found.shape) == ({(64, 64)}, (1, 3, 50, 30))


def test_the_bell_is_highest_in_the_middle_and_nowhere_nothing():
    found = bell(8, 12).numpy()

    assert np.unravel_index(found.argmax(), found.shape) in {(3, 5), (3, 6), (4, 5), (4, 6)}
    assert found.min() > 0
    np.testing.assert_allclose(found, found[::-1, ::-1], rtol=1e-5)
    assert found[4, 8] / found[4, 5] == pytest.approx(np.exp(-(2.5**2 - 0.5**2) / 2 / (12 / 8) ** 2))
