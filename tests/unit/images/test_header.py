from __future__ import annotations

import contextlib
import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from support.errors import refused
from support.images import exif, jpeg, make_image, png

from penstock.errors import ImageError
from penstock.images import header as probing
from penstock.images import probe


class TestProbe:
    def test_jpeg(self):
        info = probe(jpeg(make_image()), "a.jpg")

        assert (info.format, info.height, info.width, info.channels, info.orientation) == ("jpeg", 40, 60, 3, 1)

    @pytest.mark.parametrize("orientation", range(1, 9))
    @pytest.mark.parametrize("kind", ["JPEG", "PNG"])
    def test_orientation(self, orientation, kind):
        buffer = io.BytesIO()
        Image.fromarray(make_image()).save(buffer, kind, exif=exif(orientation))
        info = probe(buffer.getvalue(), "a")

        assert info.orientation == orientation
        assert info.size == ((60, 40) if orientation > 4 else (40, 60))

    @pytest.mark.parametrize("order", ["<", ">"])
    def test_the_orientation_is_found_among_other_tags_in_either_byte_order(self, order):
        """TIFF 6.0: a header, and a directory of tag, type, count and value; the tag is a SHORT from 1 to 8."""

        def block(*entries):
            head = (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HI", 42, 8)
            body = b"".join(struct.pack(f"{order}HHIHH", tag, kind, 1, value, 0) for tag, kind, value in entries)
            return head + struct.pack(f"{order}H", len(entries)) + body

        other, long = (0x0100, 3, 5), (0x0112, 4, 6)
        assert [probing.exif_orientation(block((0x0112, 3, value))) for value in range(11)] == [
            1,
            1,
            *range(2, 9),
            1,
            1,
        ]
        assert probing.exif_orientation(block(other, other, (0x0112, 3, 6))) == 6
        assert probing.exif_orientation(block(long, (0x0112, 3, 3))) == 3
        assert probing.exif_orientation(block(other)) == 1
        assert probing.exif_orientation(block(other, (0x0112, 3, 6))[:-4]) == 1
        assert probing.exif_orientation(b"XX" + block((0x0112, 3, 6))[2:]) == 1

    def test_png_kinds(self):
        gray = Image.fromarray(make_image()[..., 0])
        assert probe(png(gray), "a").channels == 1
        assert probe(png(gray.convert("P")), "a").palette
        assert probe(png(Image.new("I;16", (3, 2))), "a").bits == 16
        assert probe(png(Image.new("RGBA", (3, 2))), "a").channels == 4

    def test_other_files_are_named(self):
        with pytest.raises(ImageError) as caught:
            probe(b"GIF89a-and-so-on", "x.gif")
        assert str(caught.value) == (
            "x.gif: expected an image, found 16 bytes that start with 47 49 46 38 39 61 2d 61. Convert the "
            "file, or leave it out."
        )
        with pytest.raises(ImageError, match=r"found 0 bytes that start with nothing\."):
            probe(b"", "x")

    def test_a_cut_header_is_named(self):
        for data in (jpeg(make_image())[:30], png(Image.new("L", (3, 2)))[:20]):
            with pytest.raises(ImageError) as caught:
                probe(data, "x")
            assert str(caught.value) == (
                "x: expected a complete image, found a file that ends inside its header. Restore the file from a copy, or "
                "leave it out."
            )

    def test_bombs_are_refused_before_they_are_decoded(self):
        data = bytearray(png(Image.new("L", (3, 2))))
        data[16:24] = struct.pack(">II", 1 << 14, 1 << 14)
        assert probe(bytes(data), "as large as may be").size == (1 << 14, 1 << 14)
        data[16:24] = struct.pack(">II", 100_000, 50_000)
        with pytest.raises(ImageError) as caught:
            probe(bytes(data), "bomb.png")
        assert str(caught.value) == (
            "bomb.png: expected an image of at most 268,435,456 pixels, found a header that announces 50,000 x "
            "100,000. Make the image smaller, or cut it into tiles."
        )

    def test_a_progressive_jpeg_of_hundreds_of_scans_is_refused(self):
        """A scan of a few bytes takes as long as the image is large."""
        data = jpeg(make_image(40, 50), progressive=True)
        last = data.rindex(b"\xff\xda")
        assert probe(data, "x").size == (40, 50)
        refused(
            probe, data[:-2] + data[last:-2] * 100 + data[-2:], "x.jpg",
            message="x.jpg: expected a JPEG of at most 100 scans, as each of them goes over the whole image, found 110. Save it again.",
        )  # fmt: skip

    @given(st.binary(max_size=200))
    def test_any_bytes_give_an_prediction_or_an_image_error(self, data):
        for start in (b"", b"\xff\xd8", b"\xff\xd8\xff\xe1\x00\x20Exif\0\0II", probing.PNG_SIGNATURE):
            with contextlib.suppress(ImageError):
                probe(start + data, "x")


def test_a_jpeg_of_channels_that_nobody_knows_is_refused_before_there_is_room_for_them():
    data = bytearray(jpeg(make_image(16, 16)))
    frame = probe(bytes(data), "a").frame
    data[frame : frame + 4] = (16384).to_bytes(2, "big") * 2
    data[frame + 4] = 255
    with pytest.raises(ImageError) as caught:
        probe(bytes(data), "a")

    assert str(caught.value) == (
        "a: expected a complete image, found a JPEG of 255 channels. Restore the file from a copy, or leave it out."
    )
