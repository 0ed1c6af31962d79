from __future__ import annotations

import contextlib
import io
import re
import struct

import numpy as np
import pytest
import tifffile
from support.errors import refused

from penstock.errors import ImageError
from penstock.images import PixelFormat, decode_image, decode_mask, probe, tiff
from penstock.images.formats import stored, stored_mask

BANDS = np.random.default_rng(0).integers(0, 65536, (12, 17, 13), np.uint16)


def written(array, **options):
    done = io.BytesIO()
    tifffile.imwrite(done, array, **options)
    return done.getvalue()


@pytest.mark.parametrize("compression", [None, "lzw", "deflate"])
@pytest.mark.parametrize("planar", ["contig", "separate"])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("big", [False, True])
def test_bands_are_the_channels_of_an_image(compression, planar, order, big):
    array = BANDS if planar == "contig" else np.moveaxis(BANDS, 2, 0)
    data = stored(
        written(
            array, photometric="minisblack", planarconfig=planar, compression=compression, byteorder=order, bigtiff=big
        ),
        "x",
    )

    assert np.array_equal(decode_image(data, "x", pixels=PixelFormat(13, 16)), BANDS)


def test_pages_are_the_channels_of_an_image():
    pages = np.moveaxis(BANDS[..., :5], 2, 0)
    data = stored(written(pages, photometric="minisblack"), "x")

    assert (probe(data, "x").size, probe(data, "x").channels) == ((12, 17), 5)
    assert np.array_equal(decode_image(data, "x", pixels=PixelFormat(5, 16)), BANDS[..., :5])


def test_four_bands_are_no_opacity_unless_the_file_says_so():
    four = (BANDS[..., :4] // 256).astype(np.uint8)
    bands = stored(written(four, photometric="rgb", extrasamples=["unspecified"]), "x")
    opaque = stored(written(four, photometric="rgb", extrasamples=["unassalpha"]), "x")

    assert probe(bands, "x").planes
    assert np.array_equal(decode_image(bands, "x", pixels=PixelFormat(4, 8)), four)
    assert not probe(opaque, "x").planes
    assert np.array_equal(decode_image(opaque, "x"), four[..., :3])


def test_smaller_versions_of_a_tiled_image_are_no_channels():
    done = io.BytesIO()
    with tifffile.TiffWriter(done) as file:
        file.write(BANDS[..., 0], photometric="minisblack", subifds=0)
        file.write(BANDS[::4, ::4, 0], photometric="minisblack", subfiletype=1)
    data = stored(done.getvalue(), "x")

    assert not probe(data, "x").planes
    assert np.array_equal(decode_image(data, "x", pixels=PixelFormat(3, 16))[..., 0], BANDS[..., 0])


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("photometric", ["minisblack", "miniswhite"])
def test_masks_have_the_numbers_that_the_file_holds(bits, photometric):
    ids = np.random.default_rng(0).integers(0, min(1 << bits, 9), (9, 16), np.uint8)
    data = written(
        ids.astype(bool) if bits == 1 else ids,
        photometric=photometric,
        **({"bitspersample": bits} if 1 < bits < 8 else {}),
    )

    assert np.array_equal(decode_mask(stored_mask(data, "m"), "m"), ids)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_images_whose_white_is_zero_are_turned_round(dtype):
    grays = np.random.default_rng(0).integers(0, np.iinfo(dtype).max, (9, 16)).astype(dtype)
    depth = PixelFormat(3, 8 * np.dtype(dtype).itemsize)
    found = decode_image(stored(written(grays, photometric="miniswhite"), "x"), "x", pixels=depth)

    assert np.array_equal(found[..., 0], np.iinfo(dtype).max - grays)


def test_complex_numbers_and_nothing_but_nan_are_named():
    message = (
        "x: expected real numbers, found complex64 values. Save the magnitude, or the real and the imaginary part as two "
        "channels."
    )
    for value_range in (None, (0.0, 1.0)):
        refused(stored, written(np.ones((4, 5), np.complex64)), "x", value_range, message=message)
    message = "x: expected an image with values, found float32 NaN alone. Leave the file out."
    refused(stored, written(np.full((4, 5), np.nan, np.float32)), "x", message=message)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int16, np.uint32])
def test_whole_numbers_of_other_types_are_kept(dtype):
    array = np.random.default_rng(0).integers(0, 30000, (9, 11)).astype(dtype)
    data = stored(written(array), "x")

    assert probe(data, "x").bits == 16
    assert np.array_equal(decode_image(data, "x", pixels=PixelFormat(3, 16))[..., 0], array)


@pytest.mark.parametrize(("value", "said"), [(-1.0, "-1 to -1"), (0.5, "0.5 to 0.5"), (70000.0, "70000 to 70000")])
def test_what_sixteen_bits_cannot_hold_is_refused(value, said):
    message = (
        f"x: expected whole numbers from 0 to 65535, found float32 values from {said}. Pack with --value-range LOW HIGH, "
        "the values that become 0 and 65535."
    )
    refused(stored, written(np.full((4, 5), value, np.float32)), "x", message=message)


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.uint16, np.uint32]
)
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_a_range_of_values_is_spread_over_sixteen_bits(dtype, channels):
    array = np.random.default_rng(0).integers(-100, 100, (9, 11, channels)).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        array[0, 0], array[0, 1] = np.nan, np.inf
    photometric = "rgb" if channels == 3 else "minisblack"
    data = stored(
        written(
            array if channels > 1 else array[..., 0],
            photometric=photometric,
            planarconfig="contig" if channels > 1 else None,
        ),
        "x",
        (-50, 80),
    )
    wanted = np.zeros(array.shape, np.uint16)
    for place in np.ndindex(array.shape):
        value = min(max(float(array[place]), -50.0), 80.0)
        wanted[place] = 0 if np.isnan(array[place]) else round((value + 50) / 130 * 65535)

    found = decode_image(data, "x", pixels=PixelFormat(3 if channels == 1 else channels, 16))
    assert np.array_equal(found, wanted.repeat(3, axis=2) if channels == 1 else wanted)


def test_bytes_have_no_range():
    array = np.random.default_rng(0).integers(0, 256, (9, 11), np.uint8)

    assert np.array_equal(decode_image(stored(written(array), "x", (0, 10)), "x")[..., 0], array)


def test_numbers_that_pillow_misreads_are_read_right():
    """Pillow gives the bytes of int8, and negative numbers for large ones of uint32."""
    small = np.array([[-3, 5]], np.int8)
    large = np.array([[4_000_000_000, 7]], np.uint32)
    for array, low, high in ((small, -3, 5), (large, 7, 4e9)):
        with pytest.raises(ImageError, match=re.escape(f"found {array.dtype} values from {low} to {high:g}")):
            stored(written(array), "x")


def test_colours_of_sixteen_bits_may_be_stored_one_after_the_other():
    data = written(np.moveaxis(BANDS[..., :3], 2, 0), photometric="rgb", planarconfig="separate")

    assert np.array_equal(decode_image(stored(data, "x"), "x", pixels=PixelFormat(3, 16)), BANDS[..., :3])


def test_an_image_without_pixels_is_named():
    data = bytearray(written(np.moveaxis(BANDS[..., :5], 2, 0), photometric="minisblack", metadata=None))
    for _ in range(5):  # the width of every page
        at = data.index(np.array([256, 4], "<u2").tobytes() + np.array([1, 17], "<u4").tobytes())
        data[at + 8 : at + 12] = bytes(4)
    message = "x: expected an image with pixels, found one of 12 x 0. Leave the file out."
    refused(stored, bytes(data), "x", message=message)


def test_long_stacks_are_refused():
    message = (
        "x: expected at most 64 channels and 268,435,456 values, found 65 of 4 x 5. Save the pages as images of their "
        "own, or the stack as NIfTI."
    )
    refused(stored, written(np.zeros((65, 4, 5), np.uint8), photometric="minisblack"), "x", message=message)


def test_a_damaged_stack_is_named():
    data = written(np.moveaxis(BANDS, 2, 0), photometric="minisblack", compression="deflate")
    broken = data[:300] + bytes(200) + data[500:]
    with pytest.raises(ImageError, match=r"^x: expected an image that can be decoded, found a TIFF that tifffile"):
        stored(broken, "x")


def test_tags_of_a_short_file_are_none():
    assert tiff.tags(b"II*\0") == {}
    assert not tiff.has_planes(b"MM\0*\0\0\0\x08\0")


@pytest.mark.parametrize(
    "data",
    [
        b"II+\0" + struct.pack("<HHQ", 8, 0, 2**63 + 5),
        b"II+\0" + struct.pack("<HHQQ", 8, 0, 16, 2**63 + 5) + bytes(40),
        b"II*\0" + struct.pack("<IH", 8, 65535) + bytes(40),
    ],
)
@pytest.mark.filterwarnings("ignore")  # of Pillow, about the tags
def test_places_beyond_the_file_are_no_tags(data):
    assert set(tiff.tags(data).values()) <= {0}
    with pytest.raises(ImageError, match=r"^x: expected an image that can be decoded, found a (damaged )?TIFF image"):
        stored(data, "x")


def test_directories_that_lie_over_one_another_are_not_read_for_long():
    """A thousand directories of 60,000 entries each, in 128 KiB."""
    data = bytearray(b"II*\0" + struct.pack("<I", 8) + bytes(1 << 17))
    for at in range(8, 8 + 4 * 1000, 4):
        struct.pack_into("<H", data, at, 5000)
        struct.pack_into("<I", data, at + 2 + 5000 * 12, at + 4)
    assert sum(1 for _ in tiff._pages(bytes(data))) < 5


@pytest.mark.parametrize("compression", [None, "lzw", "deflate", "packbits"])
@pytest.mark.parametrize("photometric", ["rgb", "minisblack"])
def test_a_file_too_short_for_its_pixels_is_refused_before_room_is_made_for_them(compression, photometric):
    """With colours Pillow reads it, with bands tifffile."""
    shape = (30, 20, 3) if photometric == "rgb" else (5, 30, 20)
    planar = "contig" if photometric == "rgb" else "separate"
    data = written(np.zeros(shape, np.uint8), photometric=photometric, planarconfig=planar, compression=compression)
    assert probe(stored(data, "x"), "x").size == (30, 20)
    large = bytearray(data)
    for entry in range(10, 10 + 12 * data[8], 12):
        (tag,) = struct.unpack_from("<H", data, entry)
        if tag in {256, 257}:
            struct.pack_into("<HHII", large, entry, tag, 4, 1, {256: 8000, 257: 9000}[tag])
    refused(
        stored, bytes(large), "x",
        message=f"x: expected an image that can be decoded, found a TIFF image whose 9,000 x 8,000 pixels {len(data):,} "
        "bytes cannot hold. Restore the file from a copy, or leave it out.",
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # of Pillow, about what is cut off
def test_a_file_that_ends_before_its_pixels_is_named():
    """Wherever it is cut, it is an image or an error with a name."""
    data = written(np.moveaxis(BANDS[..., :5], 2, 0), photometric="minisblack")
    for end in [*range(8, 400, 3), *range(400, len(data), 211)]:
        with contextlib.suppress(ImageError):
            probe(stored(data[:end], "x"), "x")


VIEWED = {  # an array as viewers show it, by its orientation; TIFF 6.0, page 36
    1: lambda a: a, 2: np.fliplr, 3: lambda a: np.rot90(a, 2), 4: np.flipud,
    5: lambda a: np.rot90(np.fliplr(a)), 6: lambda a: np.rot90(a, -1), 7: lambda a: np.rot90(np.fliplr(a), -1),
    8: np.rot90,
}  # fmt: skip


@pytest.mark.parametrize("orientation", VIEWED)
@pytest.mark.parametrize("kind", ["bands", "planes", "pages"])
def test_channels_are_turned_as_viewers_turn_them(orientation, kind):
    tag = [(274, "H", 1, orientation, True)]
    channels = {"bands": 5, "planes": 3, "pages": 4}[kind]
    array = BANDS[..., :channels]
    if kind == "bands":
        data = written(array, photometric="minisblack", planarconfig="contig", extratags=tag)
    else:
        photometric = "rgb" if kind == "planes" else "minisblack"
        planar = {"planarconfig": "separate"} if kind == "planes" else {}
        data = written(np.moveaxis(array, 2, 0), photometric=photometric, extratags=tag, **planar)
    found = decode_image(stored(data, "x"), "x", pixels=PixelFormat(channels, 16))
    assert np.array_equal(found, VIEWED[orientation](array))


@pytest.mark.parametrize(
    ("pages", "found"),
    [
        ([BANDS[..., 0], BANDS[..., :3]], "2 pages of 1 x 16 bits, 3 x 16 bits"),
        ([BANDS[..., 0], (BANDS[..., 0] >> 8).astype(np.uint8)], "2 pages of 1 x 16 bits, 1 x 8 bits"),
        ([BANDS[..., :5], BANDS[..., 0]], "2 pages of 5 x 16 bits, 1 x 16 bits"),
    ],
)
def test_pages_of_different_kinds_are_refused(pages, found):
    done = io.BytesIO()
    with tifffile.TiffWriter(done) as writer:
        for page in pages:
            colors = "rgb" if page.ndim == 3 and page.shape[2] == 3 else "minisblack"
            writer.write(page, photometric=colors, planarconfig="contig" if page.ndim == 3 else None, metadata=None)
    refused(
        stored, done.getvalue(), "x",
        message=f"x: expected pages of one kind, which are the channels of one image, found {found}. Save each page as a "
        "file of its own.",
    )  # fmt: skip


def test_pages_with_palettes_are_refused():
    indices = (BANDS[..., 0] >> 8).astype(np.uint8)
    colors = np.random.default_rng(1).integers(0, 65536, (3, 256), np.uint16)
    done = io.BytesIO()
    with tifffile.TiffWriter(done) as writer:
        for _ in range(2):
            writer.write(indices, photometric="palette", colormap=colors, metadata=None)
    refused(
        stored, done.getvalue(), "x",
        message="x: expected pages of one kind, which are the channels of one image, found 2 pages of 1 x 8 bits, with "
        "palettes. Save each page as a file of its own.",
    )  # fmt: skip


class TestPagesThatWereWrittenOneByOne:
    """tifffile makes a series of its own of each, of which the first alone is no whole image."""

    @staticmethod
    def written(*pages, **more):
        buffer = io.BytesIO()
        with tifffile.TiffWriter(buffer, **more) as file:
            for page, options in pages:
                file.write(page, photometric="minisblack", **options)
        return buffer.getvalue()

    @pytest.mark.parametrize("channels", [2, 3, 5])
    def test_they_are_channels(self, channels):
        pages = [BANDS[..., number] for number in range(channels)]
        data = stored(self.written(*((page, {}) for page in pages)), "x")
        pixels = decode_image(data, "x", pixels=PixelFormat(channels, 16))

        assert np.array_equal(pixels, np.stack(pages, axis=2))

    def test_smaller_copies_are_left_out(self):
        page, other = BANDS[..., 0], BANDS[..., 1]
        data = self.written((page, {}), (other, {}), (page[::2, ::2], {"subfiletype": 1}))

        assert probe(stored(data, "x"), "x").channels == 2

    @pytest.mark.parametrize("ome", [False, True])
    def test_other_images_are_refused(self, ome):
        page = BANDS[..., 0]
        third = page if ome else page[:2]
        data = self.written((page, {}), (page, {}), (third, {}), ome=ome)
        refused(
            stored, data, "x",
            message=f"x: expected the channels of one image, found {3 if ome else 2} images. Save each image as a file of "
            "its own.",
        )  # fmt: skip


def test_pages_without_end_are_refused_before_they_are_counted():
    """Pillow compares each with all before it."""
    pages, place = [], 8
    for number in range(3000):
        tags = (
            (256, 400 if not number else 1),
            (257, 400 if not number else 1),
            (258, 8),
            (259, 1),
            (262, 1),
            (273, 8),
            (277, 1),
            (278, 1),
            (279, 1),
        )
        following = place + 2 + 12 * len(tags) + 4
        body = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
        pages.append(struct.pack("<H", len(tags)) + body + struct.pack("<I", following if number < 2999 else 0))
        place = following
    data = b"II*\0" + struct.pack("<I", 8) + b"".join(pages)

    refused(
        stored, data, "a.tif",
        message="a.tif: expected an image of one page, found more than 500 pages. Save each page as a file of its own.",
    )  # fmt: skip
