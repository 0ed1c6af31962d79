"""Run lengths are read as COCO's own tools read them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.datasets.layouts.coco_runs import counts_of, edges, part

masks = pytest.importorskip("faster_coco_eval").mask

sides = st.integers(1, 40)
images = st.tuples(sides, sides, st.integers(0, 2**32), st.floats(0, 1)).map(
    lambda drawn: (np.random.default_rng(drawn[2]).random(drawn[:2]) < drawn[3]).astype(np.uint8)
)


def painted(counts, size):
    return 7 * part(counts, size).whole(size)


@given(images)
def test_pixels_come_back(pixels):
    counts = counts_of(masks.encode(np.asfortranarray(pixels))["counts"])

    assert np.array_equal(painted(counts, pixels.shape), 7 * pixels)


@given(
    st.lists(
        st.lists(st.floats(-50, 150, width=32), min_size=6, max_size=14).filter(lambda p: not len(p) % 2), min_size=1
    )
)
def test_polygons_are_drawn_alike(outlines):
    size = (60, 90)
    drawn = masks.merge(masks.frPyObjects(outlines, *size))

    assert np.array_equal(painted(counts_of(drawn["counts"]), size), 7 * masks.decode(drawn))


@pytest.mark.parametrize("size", [(1, 1), (3000, 2), (2, 40_000)])
def test_long_runs_are_many_letters(size):
    for pixels in (np.zeros(size, np.uint8), np.ones(size, np.uint8), np.indices(size).sum(0).astype(np.uint8) % 2):
        counts = counts_of(masks.encode(np.asfortranarray(pixels))["counts"])
        assert np.array_equal(painted(counts, size), 7 * pixels)


def test_pixels_lie_in_the_columns_of_their_runs():
    found = part(np.array([3, 2, 5, 0, 2]), (2, 6))

    assert (found.rows, found.columns, found.bits.tolist()) == (
        slice(2),
        slice(1, 5),
        [[False, True, False, False], [True, False, False, False]],
    )


@given(images)
def test_edges_are_those_of_the_pixels(pixels):
    counts = counts_of(masks.encode(np.asfortranarray(pixels))["counts"])
    rows, columns = np.nonzero(pixels)
    around = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1) if rows.size else None

    assert edges(counts, pixels.shape[0]) == around
