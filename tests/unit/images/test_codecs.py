from __future__ import annotations

import io
import struct

import cv2
import numpy as np
import pytest
import simplejpeg
from PIL import Image
from support.images import jpeg, make_image, png

from penstock.errors import ImageError
from penstock.images import codecs


class TestDecode:
    def test_jpeg_is_libjpeg_turbos(self):
        data = jpeg(make_image())

        assert np.array_equal(codecs.decode_image(data, "a"), simplejpeg.decode_jpeg(data))

    @pytest.mark.parametrize("mode", ["L", "CMYK", "RGB"])
    def test_gray_and_cmyk_become_rgb(self, mode):
        original = Image.fromarray(make_image())
        buffer = io.BytesIO()
        original.convert(mode).save(buffer, "JPEG", quality=98)
        found = codecs.decode_image(buffer.getvalue(), "a").astype(int)
        expected = np.asarray(Image.open(buffer).convert("RGB")).astype(int)

        assert found.shape == (40, 60, 3)
        assert np.abs(found - expected).max() <= 2

    def test_cmyk_is_told_by_adobes_marker_wherever_it_lies(self):
        buffer = io.BytesIO()
        Image.fromarray(make_image()).convert("CMYK").save(buffer, "JPEG", quality=98)
        data = buffer.getvalue()
        late = data[:2] + b"\xff\xe5" + struct.pack(">H", 6002) + bytes(6000) + data[2:]

        assert np.array_equal(codecs.decode_image(late, "a"), codecs.decode_image(data, "a"))

    @pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "1", "LA"])
    def test_png_kinds_become_rgb(self, mode):
        image = Image.fromarray(make_image()).convert(mode)

        found = codecs.decode_image(png(image), "a")

        assert np.array_equal(found, np.asarray(image.convert("RGBA").convert("RGB")))

    def test_16_bit_png_keeps_its_upper_byte(self):
        values = (np.arange(2400, dtype=np.uint16) * 27).reshape(40, 60)
        data = cv2.imencode(".png", values)[1].tobytes()

        assert np.array_equal(codecs.decode_image(data, "a")[..., 0], values >> 8)

    @pytest.mark.parametrize("reduction", [1, 2, 4, 8])
    def test_jpegs_are_reduced_in_the_dct(self, reduction):
        data = jpeg(make_image(200, 301))

        assert codecs.decode_image(data, "a", reduction=reduction).shape == (
            -(-200 // reduction),
            -(-301 // reduction),
            3,
        )

    def test_truncated_files_are_named(self):
        whole = jpeg(make_image(200, 200))
        with pytest.raises(ImageError) as caught:
            codecs.decode_image(whole[: len(whole) // 2], "cut.jpg")
        assert str(caught.value) == (
            "cut.jpg: expected a complete image, found a damaged JPEG (Premature end of JPEG file). Restore the file from "
            "a copy, or leave it out."
        )
        whole = png(Image.fromarray(make_image()))
        with pytest.raises(ImageError) as caught:
            codecs.decode_image(whole[: len(whole) // 2], "cut.png")
        assert str(caught.value) == (
            f"cut.png: expected a complete image, found a PNG that ends early, after {len(whole) // 2:,} bytes. Restore "
            "the file from a copy, or leave it out."
        )
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 4
        with pytest.raises(
            ImageError, match=r"^flip\.png: expected a complete image, found a damaged PNG chunk at byte "
        ):
            codecs.decode_image(bytes(flipped), "flip.png")
