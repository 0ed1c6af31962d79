from __future__ import annotations

import struct
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image
from support.images import jpeg, make_image, png, rng

from penstock.errors import LabelError
from penstock.images import codecs, drawing
from penstock.images import header as probing


class TestDecodeMask:
    @pytest.mark.parametrize("bits", [1, 2, 4, 8])
    def test_ids_are_raw_at_any_depth(self, bits):
        """Libraries spread shallow grays over 0..255: ids must not be."""
        ids = rng.integers(0, 1 << bits, (5, 16), dtype=np.uint8)
        found = codecs.decode_mask(shallow_png(ids, bits), "m.png")

        assert np.array_equal(found, ids)

    def test_16_bits_are_read_and_large_ids_refused(self):
        ids = rng.integers(0, 200, (5, 7)).astype(np.uint16)
        assert np.array_equal(codecs.decode_mask(cv2.imencode(".png", ids)[1].tobytes(), "m"), ids)
        ids[2, 2] = 1000
        with pytest.raises(LabelError) as caught:
            codecs.decode_mask(cv2.imencode(".png", ids)[1].tobytes(), "m.png")
        assert str(caught.value) == (
            "m.png: expected class ids of at most 255, found a 16-bit mask with id 1000. Renumber the classes in "
            "the masks to ids from 0 to 255."
        )

    def test_palettes_give_indices_when_asked(self):
        ids = rng.integers(0, 5, (8, 9), dtype=np.uint8)
        image = Image.fromarray(ids, "L").convert("P")
        image.putdata(ids.ravel().tolist())
        image.putpalette(drawing.palette().ravel().tolist())

        assert np.array_equal(codecs.decode_mask(png(image), "m", palette=True), ids)
        with pytest.raises(LabelError) as caught:
            codecs.decode_mask(png(image), "m.png")
        assert str(caught.value) == (
            "m.png: expected a mask with one channel of class ids, as PNG, found a palette PNG. If the palette's "
            "indices are the class ids, as in Pascal VOC, say so with --palette."
        )

    @pytest.mark.parametrize(
        ("mode", "name"), [("RGB", "an RGB"), ("RGBA", "an RGBA"), ("LA", "a gray PNG with alpha")]
    )
    def test_colours_are_refused(self, mode, name):
        with pytest.raises(LabelError, match=rf"^m\.png: .*found {name}"):
            codecs.decode_mask(png(Image.new(mode, (4, 4))), "m.png")

    def test_jpeg_masks_are_refused(self):
        with pytest.raises(LabelError) as caught:
            codecs.decode_mask(jpeg(make_image()), "m.jpg")
        assert str(caught.value) == (
            "m.jpg: expected a mask with one channel of class ids, as PNG, found a JPEG. JPEG changes the ids of "
            "pixels; save masks as PNG, or give --mask-threshold 128 for black and white masks."
        )

    def test_what_is_encoded_is_decoded(self):
        ids = rng.integers(0, 256, (33, 17), dtype=np.uint8)

        assert np.array_equal(codecs.decode_mask(codecs.encode_mask(ids), "m"), ids)


def shallow_png(ids, bits):
    """A gray PNG of 1, 2, 4 or 8 bits, by hand: the specification, not a library, is the reference."""
    rows = b""
    for row in ids:
        number = 0
        for value in row:
            number = number << bits | int(value)
        rows += b"\0" + number.to_bytes(len(row) * bits // 8, "big")

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", ids.shape[1], ids.shape[0], bits, 0, 0, 0, 0)
    return probing.PNG_SIGNATURE + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
