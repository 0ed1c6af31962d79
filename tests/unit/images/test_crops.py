from __future__ import annotations

import numpy as np
import pytest

from penstock.images.crops import crops, flip, pad
from penstock.images.geometry import pad_and_crop
from penstock.images.warp import warp_image


@pytest.mark.parametrize("fill", [None, (3, 5, 7)])
@pytest.mark.parametrize("margin", [0, 1, 3])
def test_each_is_what_a_warp_makes_of_the_same_place(margin, fill):
    """For every place that a crop can have."""
    size, crop = (9, 7), (8, 7)
    free = [side + 2 * margin - out + 1 for side, out in zip(size, crop, strict=True)]
    at = np.array([((y + 0.5) / free[0], (x + 0.5) / free[1]) for y in range(free[0]) for x in range(free[1])])
    images = np.random.default_rng(0).integers(0, 256, (len(at), *size, 3), np.uint8)
    padded = np.stack([pad(image, margin, fill) for image in images])
    chosen = np.random.default_rng(1).permutation(len(at))

    found = crops(padded, chosen, crop, (at[:, 0], at[:, 1]))

    for image, place, got in zip(images[chosen], at, found, strict=True):
        expected = np.empty((*crop, 3), np.uint8)
        warp_image(image, pad_and_crop(size, crop, margin, tuple(place)).affine, fill, expected)
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("channels", "dtype"), [(3, np.uint8), (1, np.uint16), (5, np.uint16)])
def test_those_that_are_chosen_are_mirrored(channels, dtype):
    images = np.random.default_rng(0).integers(0, 256, (3, 4, 5, channels)).astype(dtype)
    flipped = images.copy()

    flip(flipped, np.array([True, False, True]))

    np.testing.assert_array_equal(flipped, np.stack([images[0][:, ::-1], images[1], images[2][:, ::-1]]))
