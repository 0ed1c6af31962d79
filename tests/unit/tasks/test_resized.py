from __future__ import annotations

import numpy as np
import pytest
import torch

from penstock.images import geometry, warp_image
from penstock.tasks.resized import middle

SIZES = [(40, 60), (33, 31), (64, 64), (65, 97), (128, 100), (200, 131), (257, 300), (500, 640), (32, 500), (1, 7)]


@pytest.mark.parametrize("wanted", [(32, 32), (24, 48)])
@pytest.mark.parametrize("fraction", [0.875, 1.0])
@pytest.mark.parametrize("size", SIZES)
def test_it_is_what_predict_shows_the_network(size, wanted, fraction):
    """Against OpenCV, of images in bytes and in 16 bits."""
    draw = np.random.default_rng(sum(size))
    for dtype, same in ((np.uint8, 1), (np.uint16, 80)):  # OpenCV's bilinear weights have 11 bits
        pixels = draw.integers(0, np.iinfo(dtype).max, (*size, 3)).astype(dtype)
        view = geometry.middle(size, wanted, fraction)
        expected = np.empty((*wanted, 3), dtype)
        warp_image(pixels, view.affine, (0, 0, 0), expected)
        found = middle(torch.from_numpy(pixels.astype(np.int32)), wanted, fraction).numpy()

        assert np.abs(found - expected.astype(int)).max() <= same


def test_the_type_stays():
    assert middle(torch.zeros(9, 9, 5, dtype=torch.uint8), (4, 4), 1.0).dtype == torch.uint8
