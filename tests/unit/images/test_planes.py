from __future__ import annotations

import io
import struct
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image
from support.errors import refused

from penstock.images import PixelFormat, decode_image, decode_mask, probe
from penstock.images.planes import encode_planes


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 13])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_pixels_come_back(channels, dtype):
    pixels = np.random.default_rng(channels).integers(0, np.iinfo(dtype).max + 1, (20, 31, channels), dtype)
    data = encode_planes(pixels)
    info = probe(data, "x")

    assert (info.size, info.channels, info.bits, info.planes) == ((20, 31), channels, 8 * pixels.itemsize, True)
    assert np.array_equal(decode_image(data, "x", pixels=PixelFormat(channels, 8 * pixels.itemsize)), pixels)


def test_others_see_a_tall_gray_image():
    pixels = np.random.default_rng(0).integers(0, 256, (8, 9, 5), np.uint8)
    data = encode_planes(pixels)
    tall = np.concatenate([pixels[..., channel] for channel in range(5)])

    with Image.open(io.BytesIO(data)) as image:
        assert np.array_equal(np.asarray(image), tall)
    assert np.array_equal(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED), tall)


def test_as_rgb_the_first_three_are_taken_and_one_is_gray():
    pixels = np.random.default_rng(0).integers(0, 256, (8, 9, 5), np.uint8)

    assert np.array_equal(decode_image(encode_planes(pixels), "x"), pixels[..., :3])
    assert np.array_equal(decode_image(encode_planes(pixels[..., :2]), "x"), np.repeat(pixels[..., :1], 3, axis=2))


@pytest.mark.parametrize("planes", [7, 41, 2**32 - 1])
def test_planes_that_do_not_divide_the_rows_are_named(planes):
    """As where another program has cut the image, and kept the chunk."""
    data = bytearray(encode_planes(np.zeros((8, 6, 5), np.uint8)))
    at = data.find(b"plNs")
    data[at + 4 : at + 8] = struct.pack(">I", planes)
    data[at + 8 : at + 12] = struct.pack(">I", zlib.crc32(data[at : at + 8]))
    message = (
        f"x: expected a complete image, found {planes:,} planes below one another in 40 rows, as its chunk plNs says. "
        "Restore the file from a copy, or leave it out."
    )
    refused(probe, bytes(data), "x", message=message)


def test_planes_are_no_mask():
    message = (
        "x: expected a mask with one channel of class ids, as PNG, found a PNG of 5 planes. List the colours of the "
        "classes in class_dict.csv beside images/, or in another file with --colors FILE."
    )
    refused(decode_mask, encode_planes(np.zeros((8, 6, 5), np.uint8)), "x", message=message)
