from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from support.images import make_image
from support.strategies import seeds

from penstock.images.color import Jitter, apply
from penstock.seeds import generator


class TestColor:
    def test_nothing_asked_is_nothing_done(self):
        assert Jitter().draw(generator(0, "j", 0)) is None
        pixels = make_image()
        assert apply(pixels, None) is pixels

    def test_brightness_scales_and_saturation_greys(self):
        pixels = make_image()
        light = Jitter(brightness=0.5).draw(generator(0, "j", 1))
        ratio = apply(pixels, light).astype(float).sum() / pixels.sum()
        assert 0.5 <= ratio <= 1.5
        assert ratio != pytest.approx(1, abs=0.01)
        gray = np.full((4, 4, 3), 90, np.uint8)
        saturated = apply(gray, Jitter(saturation=1, hue=0.5).draw(generator(0, "j", 2)))
        assert np.abs(saturated.astype(int) - 90).max() <= 1

    @given(seeds)
    def test_draws_are_matrices_of_the_seed(self, seed):
        jitter = Jitter(0.4, 0.4, 0.4, 0.1)
        a, b = (jitter.draw(generator(seed, "j", 0)) for _ in range(2))

        assert np.array_equal(a, b)
        assert a.shape == (3, 4)
