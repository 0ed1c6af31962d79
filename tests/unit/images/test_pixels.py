from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from support.errors import refused

from penstock.images.pixels import RGB, PixelFormat, check_format, color_codes, moments, shown, with_bits

DEEP = PixelFormat(3, 16)


def test_bits_are_changed_without_moving_black_and_white():
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16, 1)
    deep = with_bits(ramp, 16)

    assert deep.dtype == np.uint16
    assert (deep.min(), deep.max()) == (0, 65535)
    assert np.array_equal(with_bits(deep, 8), ramp)
    assert with_bits(ramp, 8) is ramp


@pytest.mark.parametrize("channels", [1, 3, 4, 13])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_moments_are_those_of_numpy(channels, dtype):
    pixels = np.random.default_rng(channels).integers(0, np.iinfo(dtype).max + 1, (20, 30, channels), dtype)
    values = pixels / np.iinfo(dtype).max

    assert np.allclose(moments(pixels), np.stack([values.mean((0, 1)), (values**2).mean((0, 1))], axis=1))


def test_colours_are_numbers_and_take_four_bytes_a_pixel():
    pixels = np.random.default_rng(1).integers(0, 256, (300, 400, 3), np.uint8)
    tracemalloc.start()
    codes = color_codes(pixels)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert [f"{code:06x}" for code in codes[7, :3]] == [bytes(pixel).hex() for pixel in pixels[7, :3]]
    assert peak < 5 * codes.size


def test_twelve_bits_in_sixteen_are_shown_bright():
    pixels = np.random.default_rng(0).integers(0, 4096, (50, 60, 3), np.uint16)

    assert shown(pixels).dtype == np.uint8
    assert shown(pixels).min() == 0
    assert shown(pixels).max() == 255
    assert 120 < shown(pixels).mean() < 136


def test_of_many_channels_three_are_shown_each_with_its_own_range():
    pixels = np.random.default_rng(0).integers(0, 100, (50, 60, 5), np.uint16) + 1000 * np.arange(5, dtype=np.uint16)

    assert shown(pixels).shape == (50, 60, 3)
    assert all(abs(shown(pixels)[..., channel].mean() - 127) < 10 for channel in range(3))
    assert np.array_equal(shown(pixels[..., :1])[..., 2], shown(pixels[..., :1])[..., 0])
    plain = np.random.default_rng(0).integers(0, 256, (5, 6, 4), np.uint8)
    assert np.array_equal(shown(plain), plain[..., :3])


def test_an_image_of_the_other_depth_is_brought_to_that_of_the_model():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 6, 3), np.uint8)

    assert np.array_equal(check_format(pixels, DEEP, "x"), pixels.astype(np.uint16) * 257)
    assert np.array_equal(check_format(pixels.astype(np.uint16) * 257, RGB, "x"), pixels)


def test_an_image_without_channels_is_gray():
    pixels = np.random.default_rng(0).integers(0, 65536, (5, 6), np.uint16)

    assert np.array_equal(check_format(pixels, DEEP, "x"), np.stack([pixels] * 3, axis=2))
    assert np.array_equal(check_format(pixels, PixelFormat(1, 16), "x"), pixels[..., None])


@pytest.mark.parametrize(
    ("array", "wanted", "message"),
    [
        (
            np.zeros((4, 5), np.uint8),
            PixelFormat(13, 16),
            "the image: expected a uint16 array of shape (height, width, 13), found uint8 of shape (4, 5). Convert it "
            "to uint16, with values from 0 to 65535 and the channels last.",
        ),
        (
            np.zeros((4, 5, 3), np.uint8),
            PixelFormat(13, 16),
            "the image: expected a uint16 array of shape (height, width, 13), found uint8 of shape (4, 5, 3). Convert it "
            "to uint16, with values from 0 to 65535 and the channels last.",
        ),
        (
            np.zeros((4, 5, 3)),
            RGB,
            "the image: expected a uint8 RGB array of shape (height, width, 3), found float64 of shape (4, 5, 3). If its "
            "values are from 0 to 1, give (255 * image).astype('uint8').",
        ),
    ],
)
def test_an_array_of_another_sort_is_refused(array, wanted, message):
    refused(check_format, array, wanted, "the image", message=message)
