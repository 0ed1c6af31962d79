from __future__ import annotations

from itertools import product

import numpy as np

from penstock.datasets.layouts.shapes import Bitmap, Shape


def test_painted_pixels_lie_where_they_were_painted_and_what_is_outside_is_gone():
    bits = np.array([[1, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]], bool)
    for left, top in product(range(-9, 12), (-20, -3, -1, 0, 2, 5, 30)):
        found = Shape("a", bitmap=Bitmap(left, top, lambda: bits)).pixels((6, 8))
        wide = np.zeros((106, 108), bool)
        wide[50 + top : 54 + top, 50 + left : 53 + left] = bits
        assert np.array_equal(found, wide[50:56, 50:58])
