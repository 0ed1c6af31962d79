from __future__ import annotations

import cv2
import numpy as np
import pytest

from penstock import seeds
from penstock.images import distort

SIZE = (96, 128)


def drawn(seed, perspective=0.0, elastic=0.0, size=SIZE):
    return distort.draw(seeds.generator(seed, "augment", 0), size, perspective, elastic)


@pytest.mark.parametrize(("perspective", "elastic"), [(0.6, 0.0), (0.0, 8.0), (0.4, 5.0)])
@pytest.mark.parametrize("seed", range(5))
def test_image_mask_and_boxes_move_together(seed, perspective, elastic):
    distortion = drawn(seed, perspective, elastic)
    ids = np.zeros(SIZE, np.uint8)
    ids[30:60, 40:90] = 1
    image = np.repeat(ids[..., np.newaxis] * np.uint8(255), 3, axis=2)
    box = distortion.boxes(np.array([[40.0, 30.0, 90.0, 60.0]]))[0]
    distortion.mask(ids, 0)
    distortion.image(image, (0, 0, 0))

    assert ((image[..., 0] >= 128) != (ids > 0)).mean() < 0.002  # half a pixel of the edge
    rows, columns = np.nonzero(ids)
    around = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    assert np.abs(box - around).max() < 2


def test_corners_move_inwards_by_no_more_than_is_said():
    moved = []
    for seed in range(60):
        ids = np.ones(SIZE, np.uint8)
        drawn(seed, perspective=0.5).mask(ids, 0)
        moved.append(ids.mean())
        assert ids[24:-24, 32:-32].all()  # a quarter of a side from every edge
    assert 0.5 < np.mean(moved) < 0.75
    assert max(moved) < 0.97


def test_points_move_smoothly_and_no_further_than_is_said():
    x, y = np.meshgrid(np.arange(SIZE[1]), np.arange(SIZE[0]))
    far = []
    for seed in range(30):
        distortion = drawn(seed, elastic=6.0)
        columns, rows = (np.repeat(each[..., np.newaxis], 1, axis=2).astype(np.uint16) * 100 for each in (x, y))
        for ramp in (columns, rows):
            moved = ramp.copy()
            distortion.image(moved, None)
            inside = (moved[8:-8, 8:-8, 0].astype(float) - ramp[8:-8, 8:-8, 0]) / 100
            far.append(np.abs(inside).max())
            assert np.abs(np.diff(inside, axis=0)).max() < 1.5
            assert np.abs(np.diff(inside, axis=1)).max() < 1.5
    assert 4 < max(far) <= 6.05


def test_many_channels_and_sixteen_bits_are_moved_alike():
    pixels = cv2.blur(np.random.default_rng(0).integers(0, 256, (*SIZE, 3), np.uint8), (15, 15))
    many = np.concatenate([pixels, pixels], axis=2).astype(np.uint16) * 257
    distortion = drawn(3, 0.4, 5.0)
    distortion.image(pixels, (1, 2, 3))
    distortion.image(many, (257, 514, 771, 257, 514, 771))

    for part in (many[..., :3], many[..., 3:]):  # OpenCV takes four channels at once, and rounds by their number
        assert np.abs(part / 257.0 - pixels).max() < 4
        assert np.abs(part / 257.0 - pixels).mean() < 0.5


def test_nothing_is_drawn_where_nothing_is_asked_for():
    assert drawn(0) is None
