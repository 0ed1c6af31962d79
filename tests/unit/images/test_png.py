"""PNGs with animations, palettes and missing rows; masks that are read without libpng."""

from __future__ import annotations

import io
import struct
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image
from support.errors import refused

from penstock.errors import ImageError, PenstockError
from penstock.images import PixelFormat, codecs, decode_image, decode_mask
from penstock.images.png import decode_flat, encode_flat

HEIGHT, WIDTH = 20, 24


def chunk(name, content=b""):
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def lines(pixels):
    return zlib.compress(b"".join(b"\0" + row.tobytes() for row in pixels))


def png(*chunks, kind=2, bits=8, size=(HEIGHT, WIDTH)):
    header = struct.pack(">IIBBBBB", size[1], size[0], bits, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join((chunk(b"IHDR", header), *chunks, chunk(b"IEND")))


def frame(number, size=(HEIGHT, WIDTH), at=(0, 0), blend=0):
    return chunk(b"fcTL", struct.pack(">IIIIIHHBB", number, size[1], size[0], at[1], at[0], 1, 10, 0, blend))


def noise(seed, size=(HEIGHT, WIDTH)):
    return np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8)


STILL, OTHER = noise(0), noise(1)


DEEP = np.stack([STILL, OTHER], axis=3)  # 16 bits, of which the upper byte is kept


ANIMATED = {
    "the first frame is the still image": png(
        chunk(b"acTL", struct.pack(">II", 2, 0)),
        frame(0),
        chunk(b"IDAT", lines(STILL)),
        frame(1),
        chunk(b"fdAT", struct.pack(">I", 2) + lines(OTHER)),
    ),
    "the still image is no frame": png(
        chunk(b"acTL", struct.pack(">II", 1, 0)),
        chunk(b"IDAT", lines(STILL)),
        frame(0),
        chunk(b"fdAT", struct.pack(">I", 1) + lines(OTHER)),
    ),
    "frames that are smaller and lie elsewhere": png(
        chunk(b"acTL", struct.pack(">II", 1, 0)),
        chunk(b"IDAT", lines(STILL)),
        frame(0, (4, 5), (3, 2), 1),
        chunk(b"fdAT", struct.pack(">I", 1) + lines(OTHER[:4, :5])),
    ),
    "16 bits": png(
        chunk(b"acTL", struct.pack(">II", 2, 0)),
        frame(0),
        chunk(b"IDAT", lines(DEEP)),
        frame(1),
        chunk(b"fdAT", struct.pack(">I", 2) + lines(DEEP[::-1])),
        bits=16,
    ),
    "an animation that is not what it says": png(
        chunk(b"acTL", struct.pack(">II", 7, 0)), chunk(b"IDAT", lines(STILL)), frame(0), frame(5)
    ),
}


@pytest.mark.parametrize("name", ANIMATED)
def test_the_still_image_of_an_animation_is_decoded(name):
    np.testing.assert_array_equal(decode_image(ANIMATED[name], "a.png"), STILL)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_palette_masks_give_their_indices(bits):
    ids = np.random.default_rng(bits).integers(0, min(1 << bits, 20), (HEIGHT, WIDTH), np.uint8)
    packed = ids if bits == 8 else packed_bits(ids, bits)
    palette = chunk(b"PLTE", bytes(range(3 * (min(1 << bits, 20)))))
    data = png(palette, chunk(b"tRNS", b"\0\7"), chunk(b"IDAT", lines(packed)), kind=3, bits=bits)

    np.testing.assert_array_equal(decode_mask(data, "m.png", palette=True), ids)


def packed_bits(ids, bits):
    rows = np.zeros((len(ids), -(-ids.shape[1] * bits // 8)), np.uint8)
    for column in range(ids.shape[1]):
        shift = 8 - bits - column * bits % 8
        rows[:, column * bits // 8] |= ids[:, column] << shift
    return rows


FOUR = np.concatenate([STILL, STILL[..., :1]], axis=2)


HALVES = {  # of kinds of pixels: the upper half of them, and how they are decoded
    0: (STILL[..., 0] % 4, lambda data: decode_mask(data, "a.png", palette=True)),
    2: (STILL, lambda data: decode_image(data, "a.png")),
    3: (STILL[..., 0] % 4, lambda data: decode_mask(data, "a.png", palette=True)),
    6: (FOUR, lambda data: decode_image(data, "a.png", pixels=PixelFormat(4))),
}


@pytest.mark.parametrize("kind", HALVES)
def test_missing_rows_are_named(kind, capfd):
    """A stream that ends early but is whole by itself, with every checksum right."""
    pixels, decode = HALVES[kind]
    palette = (chunk(b"PLTE", bytes(range(12))),) if kind == 3 else ()
    data = png(*palette, chunk(b"IDAT", lines(pixels[: HEIGHT // 2])), kind=kind)
    with pytest.raises(ImageError) as caught:
        decode(data)

    assert str(caught.value) == (
        "a.png: expected a complete image, found a PNG that libpng cannot decode. Restore the file from a copy, or leave "
        "it out."
    )


def test_an_animated_mask_gives_its_still_ids():
    ids = STILL[..., 0] % 4
    parts = (chunk(b"acTL", struct.pack(">II", 1, 0)), chunk(b"IDAT", lines(ids)), frame(0))
    data = png(*parts, chunk(b"fdAT", struct.pack(">I", 1) + lines(3 - ids)), kind=0)

    np.testing.assert_array_equal(decode_mask(data, "m.png"), ids)


IDS = np.random.default_rng(3).integers(0, 256, (9, 14), np.uint8)


def by_libpng(data):
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)


class TestFlat:
    @pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1), (9, 14), (70, 33)])
    @pytest.mark.parametrize("ids", [1, 21, 256])
    @pytest.mark.parametrize("filled", [(0.0, 1.0), (0.1, 0.3), (0.9, 1.0), (0.0, 0.4)])
    def test_every_reader_finds_the_same(self, size, ids, filled):
        mask = np.random.default_rng(ids).integers(0, ids, size, np.uint8)
        first, last = (int(part * size[0]) for part in filled)
        mask[:first], mask[last:] = 0, 0
        data = encode_flat(mask)

        assert np.array_equal(decode_flat(data), mask)
        assert np.array_equal(by_libpng(data), mask)
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(data))), mask)

    def test_libpng_is_not_asked(self, monkeypatch):
        monkeypatch.setattr(codecs, "_mask_pixels", None)

        assert np.array_equal(decode_mask(codecs.encode_mask(IDS), "m"), IDS)

    @pytest.mark.parametrize(
        "data",
        [
            png(chunk(b"IDAT", zlib.compress(b"".join(b"\1" + row.tobytes() for row in IDS))), kind=0, size=IDS.shape),
            png(chunk(b"tEXt", b"a\0b"), chunk(b"IDAT", lines(IDS)), kind=0, size=IDS.shape),
            png(chunk(b"IDAT", lines(IDS)[:20]), chunk(b"IDAT", lines(IDS)[20:]), kind=0, size=IDS.shape),
            png(chunk(b"IDAT", lines(IDS // 16 * 16 + IDS // 16)), kind=0, bits=4, size=(9, 28)),
            encode_flat(IDS) + b"behind",
        ],
        ids=["filters", "a text", "two pieces", "four bits", "bytes behind"],
    )
    def test_others_are_left_to_libpng(self, data):
        assert decode_flat(data) is None
        assert decode_mask(data, "m").shape == by_libpng(data).shape
        if by_libpng(data).shape == (9, 14):
            assert np.array_equal(decode_mask(data, "m"), by_libpng(data))

    def test_every_wrong_bit_is_named(self):
        data = encode_flat(IDS // 64)
        for bit in range(8 * len(data)):
            wrong = bytearray(data)
            wrong[bit // 8] ^= 1 << bit % 8
            with pytest.raises(PenstockError):
                decode_mask(bytes(wrong), "m")

    @pytest.mark.parametrize("rows", [IDS[:-1], np.vstack([IDS, IDS[:1]])])
    def test_rows_are_as_many_as_the_header_says(self, rows):
        """As `test_missing_rows_are_named` shows of libpng, which ignores what is too much."""
        data = png(chunk(b"IDAT", lines(rows)), kind=0, size=IDS.shape)

        assert decode_flat(data) is None

    def test_sides_that_libpng_does_not_write_are_refused(self):
        message = (
            "a mask: expected an image of at most 1,000,000 rows and columns, as PNG holds, found 1 x 1,000,001. Cut it into "
            "tiles."
        )
        refused(encode_flat, np.zeros((1, 1_000_001), np.uint8), message=message)
