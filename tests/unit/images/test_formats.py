"""Other formats than JPEG and PNG, against Pillow's own decoding and the pixels that were written."""

from __future__ import annotations

import io
import sys
import tracemalloc

import cv2
import numpy as np
import pytest
from PIL import Image
from support.errors import refused
from support.images import HEIC

from penstock.errors import ImageError, LabelError, RecipeError
from penstock.images import decode_image, decode_mask, probe
from penstock.images.formats import mask_numbers, stored, stored_mask
from penstock.images.header import PNG_SIGNATURE


def pixels(channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (20, 30, channels), dtype=np.uint8)


def encoded(array, form, **options):
    done = io.BytesIO()
    Image.fromarray(array).save(done, form, **options)
    return done.getvalue()


LOSSLESS = [
    ("TIFF", {}), ("TIFF", {"compression": "tiff_lzw"}), ("TIFF", {"compression": "tiff_adobe_deflate"}), ("BMP", {}),
    ("PPM", {}), ("WEBP", {"lossless": True}), ("JPEG2000", {}),
]  # fmt: skip


class TestImages:
    @pytest.mark.parametrize(("form", "options"), LOSSLESS)
    def test_lossless_formats_keep_every_pixel(self, form, options):
        array = pixels()
        data = stored(encoded(array, form, **options), "a")

        assert data.startswith(PNG_SIGNATURE)
        assert np.array_equal(decode_image(data, "a"), array)

    @pytest.mark.parametrize("form", ["AVIF", "WEBP"])
    def test_lossy_formats_have_the_pixels_of_their_decoder(self, form):
        data = encoded(cv2.GaussianBlur(pixels(), (0, 0), 3), form)

        assert np.array_equal(decode_image(stored(data, "a"), "a"), np.asarray(Image.open(io.BytesIO(data))))

    def test_heic(self):
        found = decode_image(stored(HEIC, "a.heic"), "a.heic").astype(int)

        assert found.shape == (16, 24, 3)
        assert np.abs(found[:, 2:10] - (200, 30, 30)).max() < 24
        assert np.abs(found[:, 14:22] - (20, 60, 200)).max() < 24

    def test_heic_without_its_reader_names_the_extra(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "pi_heif", None)
        with pytest.raises(RecipeError) as caught:
            stored(HEIC, "a.heic")

        assert str(caught.value) == "a.heic: a HEIC image needs pi-heif. Install penstock[heif]."

    @pytest.mark.parametrize("data", [encoded(pixels(), "JPEG"), encoded(pixels(), "PNG"), b"no image at all", b""])
    def test_what_is_a_jpeg_a_png_or_nothing_stays(self, data):
        assert stored(data, "a") is data
        assert stored_mask(data, "a") is data

    def test_gray_of_16_bits_keeps_them(self):
        array = np.random.default_rng(1).integers(0, 1 << 16, (20, 30), dtype=np.uint16)
        data = stored(encoded(array, "TIFF"), "a")

        assert probe(data, "a").bits == 16
        assert np.array_equal(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED), array)

    def test_colours_of_16_bits_keep_them(self):
        array = np.random.default_rng(1).integers(0, 1 << 16, (20, 30, 3), dtype=np.uint16)
        data = stored(bytes(cv2.imencode(".tiff", array)[1]), "a")

        assert probe(data, "a").bits == 16
        assert np.array_equal(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED), array)

    def test_transparency_is_dropped_as_it_is_of_a_png(self):
        array = pixels(4)

        for form, options in (("TIFF", {}), ("WEBP", {"lossless": True, "exact": True})):
            found = decode_image(stored(encoded(array, form, **options), "a"), "a")
            assert np.array_equal(found, array[..., :3])

    def test_cmyk_is_what_pillow_makes_of_it(self):
        cmyk = Image.fromarray(pixels()).convert("CMYK")
        done = io.BytesIO()
        cmyk.save(done, "TIFF")

        assert np.array_equal(decode_image(stored(done.getvalue(), "a"), "a"), np.asarray(cmyk.convert("RGB")))

    def test_an_exif_orientation_is_applied(self):
        array = pixels()
        exif = Image.Exif()
        exif[0x0112] = 6  # to be turned clockwise
        data = stored(encoded(array, "WEBP", lossless=True, exif=exif.tobytes()), "a")

        assert probe(data, "a").size == (30, 20)
        assert np.array_equal(decode_image(data, "a"), np.rot90(array, -1))

    def test_smaller_versions_behind_the_image_are_passed_over(self):
        array = pixels()
        done = io.BytesIO()
        small = Image.fromarray(array[::2, ::2])
        Image.fromarray(array).save(done, "TIFF", save_all=True, append_images=[small])

        assert np.array_equal(decode_image(stored(done.getvalue(), "a"), "a"), array)

    @pytest.mark.parametrize("form", ["TIFF", "GIF"])
    def test_several_pages_are_refused(self, form):
        done = io.BytesIO()
        first, second = (Image.fromarray(pixels(seed=seed)) for seed in range(2))
        first.save(done, form, save_all=True, append_images=[second])
        with pytest.raises(ImageError) as caught:
            stored(done.getvalue(), "a.tif")

        assert str(caught.value) == (
            "a.tif: expected an image of one page, found 2 pages or frames. Save each page as a file of its own."
        )

    @pytest.mark.parametrize(
        ("form", "name"),
        [("TIFF", "TIFF"), ("WEBP", "WebP"), ("BMP", "BMP"), ("AVIF", "AVIF"), ("JPEG2000", "JPEG 2000")],
    )
    def test_damaged_ones_are_named(self, form, name):
        data = encoded(pixels(), form)
        with pytest.raises(ImageError, match=rf"^a: expected an image that can be decoded, found a .*{name} image"):
            stored(data[: len(data) // 2], "a")


def test_an_avif_whose_primary_item_is_missing_is_named():
    """Pillow raises a RuntimeError for it, where other damage is an OSError."""
    data = bytearray(encoded(pixels(), "AVIF"))
    data[data.index(b"pitm") + 9] ^= 2
    with pytest.raises(ImageError, match=r"^a: expected an image that can be decoded, found a damaged AVIF image \("):
        stored(bytes(data), "a")


def test_an_image_of_more_rows_than_a_png_holds_is_named():
    tall = encoded(np.zeros((1_000_001, 1), np.uint8), "TIFF")
    refused(
        stored, tall, "a.tif",
        message="a.tif: expected an image of at most 1,000,000 rows and columns, as PNG holds, found 1,000,001 x 1. Cut "
        "it into tiles.",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (np.array([["a", "b"]]), "an array of <U1 of shape (1, 2)"),
        (np.array([["2026-01-01"]], "M8[D]"), "an array of datetime64[D] of shape (1, 1)"),
        (np.zeros((2, 2), [("a", "u1")]), "an array of [('a', 'u1')] of shape (2, 2)"),
        (np.zeros((2, 2), "V1"), "an array of |V1 of shape (2, 2)"),
        (np.zeros((2, 2), complex), "an array of complex128 of shape (2, 2)"),
        (np.zeros((0, 0)), "an array of float64 of shape (0, 0)"),
    ],
)
@pytest.mark.parametrize("read", [stored_mask, mask_numbers])
def test_an_array_that_is_no_mask_is_named(array, found, read):
    done = io.BytesIO()
    np.save(done, array)
    refused(
        read, done.getvalue(), "m.npy",
        message=f"m.npy: expected an array of numbers, one for each pixel, found {found}. Save one class id for each pixel.",
    )  # fmt: skip


def test_images_that_pillow_finds_too_large_are_not_called_damaged(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 250)  # half of which is only a warning, twice of which an error
    data = encoded(pixels(), "BMP")
    with pytest.raises(ImageError) as caught:
        stored(data, "a.bmp")

    assert str(caught.value) == (
        "a.bmp: expected an image of at most 500 pixels in this format, found a larger one. Make the image smaller, cut it "
        "into tiles, or save it as PNG or JPEG."
    )


IDS = np.random.default_rng(2).integers(0, 5, (20, 30), dtype=np.uint8)


class TestMasks:
    @pytest.mark.parametrize(("form", "options"), [("TIFF", {}), ("BMP", {}), ("GIF", {})])
    def test_gray_values_are_the_ids(self, form, options):
        assert np.array_equal(decode_mask(stored_mask(encoded(IDS * 50, form, **options), "m"), "m"), IDS * 50)

    def test_black_and_white_is_0_and_1(self):
        for form in ("TIFF", "BMP"):
            assert np.array_equal(decode_mask(stored_mask(encoded(IDS > 2, form), "m"), "m"), IDS > 2)

    @pytest.mark.parametrize("kind", [np.uint8, np.int64, np.float32, np.bool_])
    def test_arrays_of_numpy(self, kind):
        done = io.BytesIO()
        np.save(done, (IDS % 2 if kind is np.bool_ else IDS).astype(kind))

        assert np.array_equal(decode_mask(stored_mask(done.getvalue(), "m"), "m"), IDS % 2 if kind is np.bool_ else IDS)

    def test_of_a_palette_of_grays_the_grays_are_the_ids(self):
        image = Image.new("P", (30, 20))
        image.putdata((IDS % 3).ravel().tolist())
        image.putpalette([0, 0, 0, 255, 255, 255, 7, 7, 7])
        done = io.BytesIO()
        image.save(done, "GIF", optimize=False)

        ids = np.array([0, 255, 7], np.uint8)[IDS % 3]
        assert np.array_equal(decode_mask(stored_mask(done.getvalue(), "m"), "m"), ids)
        indices = decode_mask(stored_mask(done.getvalue(), "m", palette=True), "m", palette=True)
        assert np.array_equal(indices, IDS % 3)

    def test_of_a_colourful_palette_the_indices_are_the_ids_if_asked_for(self):
        image = Image.new("P", (30, 20))
        image.putdata(IDS.ravel().tolist())
        image.putpalette([0, 0, 0, 200, 0, 0, 0, 200, 0, 0, 0, 200, 90, 90, 0])
        done = io.BytesIO()
        image.save(done, "GIF", optimize=False)
        with pytest.raises(LabelError, match="found a palette PNG"):
            decode_mask(stored_mask(done.getvalue(), "m"), "m")

        assert np.array_equal(decode_mask(stored_mask(done.getvalue(), "m", palette=True), "m", palette=True), IDS)

    @pytest.mark.parametrize(
        ("values", "found"),
        [
            (np.full((4, 5), 256), "values from 256 to 256"),
            (np.full((4, 5), -1), "values from -1 to -1"),
            (np.full((4, 5), 0.5), "values from 0.5 to 0.5"),
            (np.full((4, 5), np.nan), "values from nan to nan"),
            (np.full((4, 5), np.inf), "values from inf to inf"),
        ],
    )
    def test_other_values_are_refused(self, values, found):
        done = io.BytesIO()
        np.save(done, values)
        with pytest.raises(LabelError) as caught:
            stored_mask(done.getvalue(), "m.npy")

        assert str(caught.value) == (
            f"m.npy: expected class ids from 0 to 255, whole numbers, found {found}. Renumber the classes in the masks to "
            "ids from 0 to 255."
        )

    def test_other_shapes_are_refused(self):
        done = io.BytesIO()
        np.save(done, np.zeros((4, 5, 3)))
        with pytest.raises(LabelError) as caught:
            stored_mask(done.getvalue(), "m.npy")

        assert str(caught.value) == (
            "m.npy: expected a mask of shape (height, width), found an array of shape (4, 5, 3). Save one class id for each "
            "pixel."
        )

    def test_objects_are_never_unpickled(self):
        done = io.BytesIO()
        np.save(done, np.array([{"a": 1}], object))
        with pytest.raises(ImageError, match="found a damaged array of NumPy"):
            stored_mask(done.getvalue(), "m.npy")

    def test_a_damaged_header_is_named(self):
        header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (4, 5), "  # and no closing bracket
        data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(20)
        with pytest.raises(ImageError, match=r"^m\.npy: .* found a damaged array of NumPy \(TokenError: "):
            stored_mask(data, "m.npy")

    def test_an_absurd_size_is_named(self):
        done = io.BytesIO()
        np.save(done, IDS)
        data = done.getvalue().replace(b"(20, 30)", b"(99999999999, 30)")
        with pytest.raises(ImageError, match=r"^m\.npy: .* found a damaged array of NumPy \("):
            stored_mask(data, "m.npy")

    def test_colours_are_refused_as_those_of_a_png_are(self):
        with pytest.raises(LabelError, match="found an RGB PNG"):
            decode_mask(stored_mask(encoded(pixels(), "BMP"), "m"), "m")


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_an_array_of_bytes_takes_a_few_times_its_own_memory(suffix):
    done = io.BytesIO()
    save = {"npy": np.save, "npz": np.savez_compressed}[suffix]
    save(done, np.zeros((1000, 1000), np.uint8))
    data = done.getvalue()

    tracemalloc.start()
    stored_mask(data, "a")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 4 << 20  # as int64 it took 18


def test_colours_of_a_palette_that_no_pixel_has_count_for_nothing():
    ids = np.arange(600, dtype=np.uint8).reshape(20, 30) % 2
    image = Image.new("P", (30, 20))
    image.putdata(ids.ravel().tolist())
    image.putpalette([0, 0, 0, 7, 7, 7, 200, 0, 0])
    done = io.BytesIO()
    image.save(done, "GIF", optimize=False)
    assert np.array_equal(decode_mask(stored_mask(done.getvalue(), "m"), "m"), 7 * ids)
