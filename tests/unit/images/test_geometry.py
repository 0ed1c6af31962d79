from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image
from support.datasets import learn_colors
from support.images import make_image
from support.strategies import affines, numbers, seeds, sizes

from penstock.assembly import open_experiment
from penstock.config import apply
from penstock.feed import Feed
from penstock.images import geometry
from penstock.images.geometry import Affine, View
from penstock.images.warp import warp_image
from penstock.order import Plan
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


def test_a_crop_that_is_larger_than_all_has_the_image_in_its_middle():
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


def test_resizing_fetches_the_whole_image():
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


class TestViews:
    def test_a_margin_moves_whole_pixels(self, colors):
        parts = open_experiment(
            apply(
                learn_colors(colors),
                ["augment.view=pad-crop", "augment.view.margin=3", "augment.crop=[40, 36]", "augment.flip=0"],
            )
        )
        plain = Feed(
            Plan(parts.plan.snapshot), colors.source("train"), parts.task.prepare(train=False), batch=1, augment=False
        )
        places = set()
        for position in range(24):
            moved = parts.training_feed()[position].arrays["image"].astype(int)
            own = next(
                plain[i].arrays["image"] for i in range(24) if plain[i].origin == parts.training_feed()[position].origin
            ).astype(int)
            fits = [
                (y, x)
                for y, x in itertools.product(range(-3, 4), repeat=2)
                if (moved[max(0, -y) : 40 - max(0, y), max(0, -x) : 36 - max(0, x)]
                    == own[max(0, y) : 40 + min(0, y), max(0, x) : 36 + min(0, x)]).all()
            ]  # fmt: skip
            assert len(fits) == 1
            places |= set(fits)
        assert len(places) > 12

    def test_the_middle_is_the_middle(self):
        view = geometry.middle((100, 200), (50, 50), 0.8)
        assert view.affine.point(0, 0) == (60, 10)
        assert view.affine.point(50, 50) == (140, 90)

    def test_a_crop_larger_than_all_is_centred(self):
        assert geometry.pad_and_crop((20, 20), (32, 32), 2, (0.3, 0.9)).affine.point(6, 6) == (0, 0)

    @given(sizes, sizes, st.floats(0.2, 3), st.floats(0, 0.999), st.floats(0, 0.999))
    def test_a_scaled_crop_shows_whole_source_pixels_and_no_more(self, source, crop, scale, down, right):
        affine = geometry.scale_and_crop(source, crop, scale, (down, right)).affine
        x, y = affine.point(0, 0)

        assert x == pytest.approx(round(x), abs=1e-9)
        assert y == pytest.approx(round(y), abs=1e-9)
        assert 0 <= x < source[1]
        assert 0 <= y < source[0]

    @given(seeds, sizes, sizes)
    def test_a_resized_crop_lies_within_the_image(self, seed, source, to):
        view = geometry.resized_crop(source, to, generator(seed, "crop", 0), (0.08, 1), (0.75, 1.33))
        right, bottom = view.affine.point(to[1], to[0])

        assert view.affine.x0 >= 0
        assert view.affine.y0 >= 0
        assert right <= source[1] + 1e-6
        assert bottom <= source[0] + 1e-6

    def test_scales_are_deeplabs_steps(self):
        drawn = {geometry.random_scale(generator(0, "s", i), 0.5, 2.0, 0.25) for i in range(300)}
        uneven = {geometry.random_scale(generator(0, "s", i), 0.9, 1.2, 0.25) for i in range(100)}
        narrow = {geometry.random_scale(generator(0, "s", i), 1.0, 1.1, 0.25) for i in range(100)}

        assert drawn == {0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0}
        assert uneven == {0.9, 1.15, 1.2}
        assert narrow == {1.0, 1.1}

    def test_resize_to_range_is_deeplabs(self):
        assert geometry.fit_range((400, 600), 200, 1000) == (200, 300)
        assert geometry.fit_range((400, 600), 500, 600) == (400, 600)
        assert geometry.fit_range((100, 1000), 500, 600) == (60, 600)

    def test_flip_is_its_own_inverse(self):
        view = geometry.scale_and_crop((30, 40), (20, 20), 1.5, (0.3, 0.7))

        assert geometry.flip(geometry.flip(view)) == view

    def test_reduction_is_the_largest_that_keeps_every_output_pixel(self):
        assert [geometry.reduction(s) for s in (0.5, 1.99, 2, 3.9, 4, 7.9, 8, 50)] == [1, 1, 2, 2, 4, 4, 8, 8]

    def test_a_quarter_turn_is_exact(self):
        pixels = make_image(32, 32)
        out = np.zeros_like(pixels)
        warp_image(pixels, geometry.rotate(geometry.whole((32, 32)), 90).affine, (0, 0, 0), out)

        assert np.abs(out.astype(int) - np.rot90(pixels, 1)).max() <= 1


class TestAffine:
    @given(affines, affines, numbers, numbers)
    def test_then_composes(self, first, second, x, y):
        together = first.then(second).point(x, y)
        apart = second.point(*first.point(x, y))

        assert together == pytest.approx(apart, rel=1e-6, abs=1e-3)

    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_orientation_is_what_pillow_does(self, orientation):
        from PIL import ImageOps

        pixels = make_image(13, 29)
        image = Image.fromarray(pixels)
        image.getexif()[0x0112] = orientation
        expected = np.asarray(ImageOps.exif_transpose(image))
        out = np.zeros_like(expected)
        warp_image(pixels, geometry.upright_to_stored(orientation, pixels.shape[:2]), (0, 0, 0), out)

        assert np.array_equal(out, expected)
