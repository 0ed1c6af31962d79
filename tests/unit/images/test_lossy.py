from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from support.errors import refused

from penstock.images import decode_mask
from penstock.images.formats import stored_mask
from penstock.images.lossy import lossy_name

IDS = np.random.default_rng(0).integers(0, 5, (24, 32), np.uint8)
LOSSY = [
    ("WEBP", {"quality": 80}, "a lossy WebP image"),
    ("WEBP", {"quality": 80, "exif": b"Exif\0\0"}, "a lossy WebP image"),
    ("JPEG2000", {"irreversible": True}, "a lossy JPEG 2000 image"),
    ("JPEG2000", {"irreversible": True, "no_jp2": True}, "a lossy JPEG 2000 image"),
    ("TIFF", {"compression": "jpeg"}, "a TIFF image compressed with JPEG"),
    ("AVIF", {}, "an AVIF or HEIC image"),
]
LOSSLESS = [
    ("WEBP", {"lossless": True}), ("WEBP", {"lossless": True, "exif": b"Exif\0\0"}), ("JPEG2000", {}),
    ("JPEG2000", {"no_jp2": True}), ("TIFF", {"compression": "tiff_lzw"}), ("TIFF", {}), ("BMP", {}), ("GIF", {}),
]  # fmt: skip


def encoded(form, options):
    done = io.BytesIO()
    Image.fromarray(IDS).save(done, form, **options)
    return done.getvalue()


@pytest.mark.parametrize(("form", "options", "name"), LOSSY)
def test_formats_that_change_ids_are_refused_as_masks(form, options, name):
    message = (
        f"m: expected a mask in a format that keeps class ids, found {name}. Save masks as PNG, or give "
        "--mask-threshold 128 for black and white masks."
    )
    refused(stored_mask, encoded(form, options), "m", message=message)


@pytest.mark.parametrize(("form", "options", "name"), LOSSY)
def test_they_are_taken_where_a_threshold_follows(form, options, name):
    assert stored_mask(encoded(form, options), name, soft=True)


@pytest.mark.parametrize(("form", "options"), LOSSLESS)
def test_formats_that_keep_them_are_taken(form, options):
    data = encoded(form, options)

    assert lossy_name(data) == ""
    if form not in {"WEBP", "JPEG2000"}:  # WebP has three channels, of which somebody may say which is meant
        assert np.array_equal(decode_mask(stored_mask(data, "m"), "m"), IDS)


@pytest.mark.parametrize("length", range(0, 60, 3))
@pytest.mark.parametrize(("form", "options", "name"), LOSSY)
def test_cut_files_are_no_crash(form, options, name, length):
    assert lossy_name(encoded(form, options)[:length]) in {"", name}
