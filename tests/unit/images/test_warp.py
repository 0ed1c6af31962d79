from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.images import make_image, rng
from support.strategies import seeds, sizes

from penstock.images import fetch_image, geometry, probe
from penstock.images.codecs import encode_png
from penstock.images.geometry import Affine, View
from penstock.images.warp import warp_image, warp_mask
from penstock.seeds import generator


def reference_mask(ids, affine, fill, size):
    """Nearest by the definition: the source pixel that a target pixel's centre falls into; also, where it is a tie."""
    out, tie = np.full(size, fill, np.uint8), np.zeros(size, bool)
    for row in range(size[0]):
        for column in range(size[1]):
            x, y = affine.point(column + 0.5, row + 0.5)
            tie[row, column] = min(abs(x - round(x)), abs(y - round(y))) < 0.02
            if 0 <= x < ids.shape[1] and 0 <= y < ids.shape[0]:
                out[row, column] = ids[int(y), int(x)]
    return out, tie


class TestWarp:
    @given(seeds, sizes, st.sampled_from(["scale", "window"]), st.booleans(), st.booleans())
    def test_masks_are_nearest_by_definition(self, seed, size, method, flipped, turned):
        draw = generator(seed, "warp", 0)
        ids = rng.integers(0, 200, size, dtype=np.uint8)
        if method == "scale":
            scale = geometry.random_scale(draw, 0.5, 2.0, 0.0)
            view = geometry.scale_and_crop(size, (24, 17), scale, (draw.uniform(), draw.uniform()))
        else:
            view = geometry.resized_crop(size, (24, 17), draw, (0.08, 1.0), (0.75, 1.33))
        view = geometry.flip(view) if flipped else view
        view = geometry.rotate(view, draw.uniform(-40, 40)) if turned else view
        out = np.zeros((24, 17), np.uint8)
        warp_mask(ids, view.affine, 255, out)
        expected, tie = reference_mask(ids, view.affine, 255, (24, 17))

        assert np.array_equal(out[~tie], expected[~tie])

    @given(seeds, st.floats(-180, 180))
    def test_masks_never_hold_an_id_that_was_not_there(self, seed, angle):
        """What bilinear or antialiased masks do: invent classes between two others."""
        ids = rng.choice(np.array([0, 7, 200], np.uint8), (31, 45))
        view = geometry.rotate(geometry.scale_and_crop((31, 45), (40, 40), 0.7, (0.2, 0.9)), angle)
        out = np.zeros((40, 40), np.uint8)
        warp_mask(ids, view.affine, 255, out)

        assert set(np.unique(out)) <= {0, 7, 200, 255}

    @given(seeds, st.booleans(), st.booleans(), st.sampled_from(range(1, 9)))
    def test_image_and_mask_stay_aligned(self, seed, mirrored, turned, orientation):
        """An image whose colour is its mask: after any view of any orientation both still agree, away from edges."""
        draw = generator(seed, "align", 0)
        ids = np.zeros((90, 120), np.uint8)
        ids[20:70, 30:80] = 200
        pixels = np.repeat(ids[..., None], 3, axis=2)
        upright = (120, 90) if orientation > 4 else (90, 120)
        view = geometry.scale_and_crop(upright, (64, 64), draw.uniform(0.5, 2), (draw.uniform(), draw.uniform()))
        view = geometry.flip(view) if mirrored else view
        view = geometry.rotate(view, draw.uniform(-30, 30)) if turned else view
        affine = view.affine.then(geometry.upright_to_stored(orientation, (90, 120)))
        image, mask = np.zeros((64, 64, 3), np.uint8), np.zeros((64, 64), np.uint8)
        warp_image(pixels, affine, (0, 0, 0), image)
        warp_mask(ids, affine, 0, mask)
        near = np.ones((7, 7), np.uint8)
        edges = cv2.dilate(mask, near) != cv2.erode(mask, near)
        edges[[0, 1, 2, -3, -2, -1]] = edges[:, [0, 1, 2, -3, -2, -1]] = True  # an edge may lie just outside

        assert np.abs(image[..., 0].astype(int) - mask)[~edges].max(initial=0) <= 2

    def test_outside_is_filled(self):
        image, mask = np.zeros((50, 50, 3), np.uint8), np.zeros((50, 50), np.uint8)
        for angle in (0, 10):
            view = geometry.rotate(geometry.scale_and_crop((20, 20), (50, 50), 1.0, (0, 0)), angle)
            warp_image(np.full((20, 20, 3), 9, np.uint8), view.affine, (1, 2, 3), image)
            warp_mask(np.full((20, 20), 4, np.uint8), view.affine, 255, mask)
            assert image[49, 49].tolist() == [1, 2, 3]
            assert mask[49, 49] == 255

    def test_shrinking_averages(self):
        """A fine checkerboard shrunk by 4 is gray, straight or turned: no aliasing."""
        board = np.indices((128, 128)).sum(axis=0) % 2 * 255
        pixels = np.repeat(board[..., None], 3, axis=2).astype(np.uint8)
        for angle in (0, 17):
            view = geometry.rotate(geometry.resize((128, 128), (32, 32)), angle)
            out = np.zeros((32, 32, 3), np.uint8)
            warp_image(pixels, view.affine, (127, 127, 127), out)
            assert np.abs(out.astype(int) - 127).max() <= 6


def test_identity_is_a_copy():
    pixels = make_image()
    out = np.zeros_like(pixels)
    warp_image(pixels, Affine(), (0, 0, 0), out)

    assert np.array_equal(out, pixels)
    assert math.isclose(Affine().shrink, 1)


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
