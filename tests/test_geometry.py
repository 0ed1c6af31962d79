"""Views of an image, against what their definitions say window by window."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from strategies import affines, numbers

from penstock.images import fetch_image, geometry, probe
from penstock.images.codecs import encode_png
from penstock.images.geometry import Affine, View
from penstock.images.warp import warp_image
from penstock.seeds import generator


def window(view):
    """The source rectangle that fills the output: y, x, height, width."""
    (left, top), (right, bottom) = view.affine.point(0, 0), view.affine.point(view.size[1], view.size[0])
    return pytest.approx((top, left, bottom - top, right - left), abs=1e-9)


@given(affines, numbers, numbers)
def test_the_inverse_leads_back(affine, x, y):
    assume(abs(affine.xx * affine.yy - affine.xy * affine.yx) > 0.1)

    assert affine.inverse().point(*affine.point(x, y)) == pytest.approx((x, y), rel=1e-4, abs=1e-2)


@pytest.mark.parametrize(("source", "crop", "margin"), [(5, 4, 2), (4, 4, 2), (9, 4, 0), (3, 7, 2)])
def test_every_place_of_a_crop_in_a_margin_is_as_likely(source, crop, margin):
    room = source + 2 * margin - crop + 1
    shares = [(number + 0.5) / (12 * room) for number in range(12 * room)]
    rows = Counter(geometry.pad_and_crop((source, 50), (crop, 50), margin, (at, 0.0)).affine.y0 for at in shares)
    columns = Counter(geometry.pad_and_crop((50, source), (50, crop), margin, (0.0, at)).affine.x0 for at in shares)

    assert rows == columns == {float(place): 12 for place in range(-margin, source + margin - crop + 1)}


def test_a_crop_that_is_larger_than_all_has_the_picture_in_its_middle():
    view = geometry.pad_and_crop((3, 4), (10, 11), 2, (0.9, 0.1))

    assert view == View((10, 11), Affine(x0=-3.0, y0=-3.0))


@pytest.mark.parametrize(
    ("source", "to", "share", "expected"),
    [
        ((100, 100), (50, 50), 1.0, (0, 0, 100, 100)),
        ((100, 100), (50, 50), 0.875, (6, 6, 88, 88)),
        ((100, 60), (50, 50), 1.0, (20, 0, 60, 60)),
        ((60, 101), (30, 20), 0.5, (15, 40, 30, 20)),
        ((3, 5), (300, 400), 0.01, (1, 2, 1, 1)),
    ],
)
def test_the_middle_has_the_proportions_of_the_output(source, to, share, expected):
    view = geometry.middle(source, to, share)

    assert view.size == to
    assert expected == window(view)


@pytest.mark.parametrize(("shortest", "expected"), [((1, 3000), (1, 100)), ((3000, 1), (100, 1)), ((2, 3), (67, 100))])
def test_no_side_of_a_range_vanishes(shortest, expected):
    assert geometry.fit_range(shortest, 100, 100) == expected


def test_a_rectangle_is_taken_to_a_rectangle():
    affine = Affine.rectangle((2, 3, 4, 5), (10, 20, 8, 15))

    assert (affine.point(2, 3), affine.point(6, 8)) == ((10, 20), (18, 35))


@pytest.mark.parametrize(("scale", "grid"), [(0.9, 1), (0.5, 2), (0.3, 2), (0.25, 4), (0.1, 8)])
def test_scaled_crops_are_of_whole_blocks(scale, grid):
    for number in range(40):
        at = number / 40
        affine = geometry.scale_and_crop((401, 603), (20, 30), scale, (at, 1 - at - 1e-9)).affine
        height, width = affine.yy * 20, affine.xx * 30
        assert [round(each, 6) % grid for each in (affine.x0, affine.y0, width, height)] == [0.0] * 4


def test_boxes_are_cut_at_the_edges_and_dropped_one_by_one():
    view = View((50, 60), Affine())
    boxes = np.array([[0, 0, 9, 8], [-5, -6, 4, 3], [59.5, 1, 70, 9], [1, 49.5, 9, 70], [2, 3, 60, 50]], float)
    moved, stays = geometry.move_boxes(boxes, view, (100, 100), 0.0)

    assert moved.tolist() == [[0, 0, 9, 8], [0, 0, 4, 3], [59.5, 1, 60, 9], [1, 49.5, 9, 50], [2, 3, 60, 50]]
    assert stays.tolist() == [True, True, False, False, True]


def test_resizing_fetches_the_whole_picture():
    assert geometry.resize((40, 60), (20, 20)) == View((20, 20), Affine(xx=3.0, yy=2.0))
    assert geometry.resize((40, 60), (20, 20), (30, 50)) == View((30, 50), Affine(xx=3.0, yy=2.0))


@pytest.mark.parametrize("seed", range(20))
def test_a_random_window_has_its_area_and_its_aspect(seed):
    draws = generator(seed, "crop", 0)
    view = geometry.resized_crop((400, 600), (400, 400), draws, (0.25, 0.25), (1.5, 1.5))
    height, width = view.affine.yy * 400, view.affine.xx * 400

    assert (height, width) == (round(math.sqrt(60_000 / 1.5)), round(math.sqrt(60_000 * 1.5)))


def test_a_random_window_lies_anywhere():
    views = [
        geometry.resized_crop((40, 60), (40, 40), generator(seed, "crop", 0), (0.25, 0.25), (1.0, 1.0))
        for seed in range(400)
    ]
    side = round(math.sqrt(600))

    assert {view.affine.y0 for view in views} == set(range(40 - side + 1))
    assert {view.affine.x0 for view in views} == set(range(60 - side + 1))


@pytest.mark.parametrize(
    ("to", "grid"), [((10, 10), 8), ((100, 10), 2), ((10, 100), 2), ((200, 20), 1), ((20, 200), 1)]
)
def test_windows_are_of_whole_blocks_where_both_sides_shrink(to, grid):
    """A square of about 245 pixels, whose sides shrink to those of the output."""
    sides = set()
    for seed in range(30):
        view = geometry.resized_crop((401, 603), to, generator(seed, "crop", 0), (0.25, 0.25), (1.0, 1.0))
        x, y, width, height = view.affine.x0, view.affine.y0, view.affine.xx * to[1], view.affine.yy * to[0]
        sides |= {round(width), round(height)}
        assert all(round(each) % grid == 0 for each in (x, y, width, height))
        assert x + width <= 603 - 603 % grid
        assert y + height <= 401 - 401 % grid
    assert sides == {round(math.sqrt(0.25 * 401 * 603) / grid) * grid}


def test_what_is_smaller_than_a_block_is_taken_pixel_by_pixel():
    view = geometry.resized_crop((3, 400), (1, 1), generator(1, "crop", 0), (1.0, 1.0), (0.1, 0.1))  # by blocks of 8

    assert (view.affine.y0, view.affine.yy) == (0, 3)
    assert (view.affine.x0 % 8, view.affine.xx) == (0, 8)


class TestShrinking:
    noise = np.random.default_rng(1).integers(0, 256, (48, 72, 3), np.uint8)

    def test_both_sides_average_blocks(self):
        out = np.empty((12, 18, 3), np.uint8)
        warp_image(self.noise, geometry.resize((48, 72), (12, 18)).affine, (0, 0, 0), out)

        assert np.abs(out - self.noise.reshape(12, 4, 18, 4, 3).mean(axis=(1, 3))).max() <= 1

    @pytest.mark.parametrize("size", [(12, 72), (48, 18)])
    def test_one_side_alone_is_bilinear(self, size):
        out = np.empty((*size, 3), np.uint8)
        warp_image(self.noise, geometry.resize((48, 72), size).affine, (0, 0, 0), out)
        middle = self.noise.astype(float)  # of each four the two in the middle
        expected = middle.reshape(12, 4, 72, 3)[:, 1:3].mean(axis=1) if size[0] == 12 else (
            middle.reshape(48, 18, 4, 3)[:, :, 1:3].mean(axis=2)
        )  # fmt: skip

        assert np.abs(out - expected).max() <= 1

    @pytest.mark.parametrize("size", [(131, 70), (70, 131), (129, 127)])
    def test_a_slope_stays_one_when_it_is_turned(self, size):
        """Neither a number of rows nor of columns that is no multiple of the factor moves anything."""
        rows, columns = np.indices(size)
        slope = np.stack([rows, columns, (rows + columns) / 2], axis=2).astype(np.uint8)
        out = np.zeros((16, 16, 3), np.uint8)
        view = geometry.rotate(View((16, 16), Affine(xx=4.0, yy=4.0, x0=2.0, y0=3.0)), 9)
        warp_image(slope, view.affine, (200, 200, 200), out)
        y, x = np.indices((16, 16)) + 0.5
        x, y = view.affine.point(x, y)
        inside = (x > 4) & (y > 4) & (x < size[1] - 4) & (y < size[0] - 4)
        expected = np.stack([y - 0.5, x - 0.5, (x + y) / 2 - 0.5], axis=2)

        assert inside.sum() > 100
        assert np.abs(out - expected)[inside].max() <= 1.6

    def test_a_png_is_averaged_too_though_it_is_not_decoded_at_a_smaller_size(self):
        data, out = encode_png(self.noise), np.empty((12, 18, 3), np.uint8)
        view = geometry.resize((48, 72), (12, 18))
        fetch_image(data, "a.png", probe(data, "a.png"), view.affine, (0, 0, 0), out)

        assert np.abs(out - self.noise.reshape(12, 4, 18, 4, 3).mean(axis=(1, 3))).max() <= 1


class TestMirrored:
    """What lies outside, where nothing is to fill it."""

    noise = np.random.default_rng(2).integers(0, 256, (12, 16, 3), np.uint8)

    @pytest.mark.parametrize(
        ("down", "right"), [(0, 0), (5, 0), (-5, 0), (0, 7), (0, -7), (3, -4), (-3, 4), (11, 0), (0, 15), (-9, 13)]
    )
    def test_it_is_the_mirror_of_the_picture(self, down, right):
        """Up to the image's whole size away, by pixels counted from its edges."""
        out = np.full((12, 16, 3), 77, np.uint8)
        warp_image(self.noise, Affine(x0=-right, y0=-down), None, out)
        rows, columns = (self.reflected(np.arange(n) - by, n) for n, by in ((12, down), (16, right)))

        np.testing.assert_array_equal(out, self.noise[rows][:, columns])

    @staticmethod
    def reflected(places, length):
        folded = np.abs(places) % (2 * length - 2)
        return np.minimum(folded, 2 * length - 2 - folded)


@pytest.mark.parametrize(("x", "y"), [(40.0, 0.0), (-40.0, 0.0), (0.0, 40.0), (0.0, -40.0), (16.0, 0.0)])
def test_a_view_beside_the_picture_is_filled(x, y):
    out = np.full((12, 16, 3), 77, np.uint8)
    warp_image(TestMirrored.noise, Affine(x0=x, y0=y), (1, 2, 3), out)

    assert (out == (1, 2, 3)).all()
