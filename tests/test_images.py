from __future__ import annotations

import contextlib
import io
import math
import struct
import zlib
from typing import ClassVar

import cv2
import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from strategies import affines, numbers, seeds, sizes

from penstock.errors import ImageError, LabelError
from penstock.images import codecs, drawing, fetch_image, geometry, probe
from penstock.images import header as probing
from penstock.images.color import Jitter, apply
from penstock.images.geometry import Affine
from penstock.images.warp import warp_image, warp_mask
from penstock.kinds import labels
from penstock.records.schema import DetectionRecord, Object
from penstock.seeds import generator
from penstock.tasks import Augment

rng = np.random.default_rng(0)


def picture(height=40, width=60):
    smooth = cv2.resize(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8), (width, height), interpolation=cv2.INTER_CUBIC)
    return np.ascontiguousarray(smooth)


def jpeg(pixels, mode="RGB", **options):
    buffer = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(buffer, "JPEG", quality=95, **options)
    return buffer.getvalue()


def png(image, **options):
    buffer = io.BytesIO()
    image.save(buffer, "PNG", **options)
    return buffer.getvalue()


def exif(orientation):
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags


class TestProbe:
    def test_jpeg(self):
        info = probe(jpeg(picture()), "a.jpg")

        assert (info.format, info.height, info.width, info.channels, info.orientation) == ("jpeg", 40, 60, 3, 1)

    @pytest.mark.parametrize("orientation", range(1, 9))
    @pytest.mark.parametrize("kind", ["JPEG", "PNG"])
    def test_orientation(self, orientation, kind):
        buffer = io.BytesIO()
        Image.fromarray(picture()).save(buffer, kind, exif=exif(orientation))
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
        gray = Image.fromarray(picture()[..., 0])
        assert probe(png(gray), "a").channels == 1
        assert probe(png(gray.convert("P")), "a").palette
        assert probe(png(Image.new("I;16", (3, 2))), "a").bits == 16
        assert probe(png(Image.new("RGBA", (3, 2))), "a").channels == 4

    def test_other_files_are_named(self):
        with pytest.raises(ImageError) as caught:
            probe(b"GIF89a-and-so-on", "x.gif")
        assert str(caught.value) == (
            "x.gif: expected a JPEG or PNG image, found 16 bytes that start with 47 49 46 38 39 61 2d 61. Convert the "
            "file, or leave it out."
        )
        with pytest.raises(ImageError, match=r"found 0 bytes that start with nothing\."):
            probe(b"", "x")

    def test_a_cut_header_is_named(self):
        for data in (jpeg(picture())[:30], png(Image.new("L", (3, 2)))[:20]):
            with pytest.raises(ImageError) as caught:
                probe(data, "x")
            assert str(caught.value) == (
                "x: expected a whole image, found the file ends inside its header. Restore the file from a copy, or "
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

    @given(st.binary(max_size=200))
    def test_any_bytes_give_an_answer_or_an_image_error(self, data):
        for start in (b"", b"\xff\xd8", b"\xff\xd8\xff\xe1\x00\x20Exif\0\0II", probing.PNG_SIGNATURE):
            with contextlib.suppress(ImageError):
                probe(start + data, "x")


class TestDecode:
    def test_jpeg_is_libjpeg_turbos(self):
        data = jpeg(picture())

        assert np.array_equal(codecs.decode_image(data, "a"), simplejpeg.decode_jpeg(data))

    @pytest.mark.parametrize("mode", ["L", "CMYK", "RGB"])
    def test_gray_and_cmyk_become_rgb(self, mode):
        original = Image.fromarray(picture())
        buffer = io.BytesIO()
        original.convert(mode).save(buffer, "JPEG", quality=98)
        found = codecs.decode_image(buffer.getvalue(), "a").astype(int)
        expected = np.asarray(Image.open(buffer).convert("RGB")).astype(int)

        assert found.shape == (40, 60, 3)
        assert np.abs(found - expected).max() <= 2

    def test_cmyk_is_told_by_adobes_marker_wherever_it_lies(self):
        buffer = io.BytesIO()
        Image.fromarray(picture()).convert("CMYK").save(buffer, "JPEG", quality=98)
        data = buffer.getvalue()
        late = data[:2] + b"\xff\xe5" + struct.pack(">H", 6002) + bytes(6000) + data[2:]

        assert np.array_equal(codecs.decode_image(late, "a"), codecs.decode_image(data, "a"))

    @pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "1", "LA"])
    def test_png_kinds_become_rgb(self, mode):
        image = Image.fromarray(picture()).convert(mode)

        found = codecs.decode_image(png(image), "a")

        assert np.array_equal(found, np.asarray(image.convert("RGBA").convert("RGB")))

    def test_16_bit_png_keeps_its_upper_byte(self):
        values = (np.arange(2400, dtype=np.uint16) * 27).reshape(40, 60)
        data = cv2.imencode(".png", values)[1].tobytes()

        assert np.array_equal(codecs.decode_image(data, "a")[..., 0], values >> 8)

    @pytest.mark.parametrize("reduction", [1, 2, 4, 8])
    def test_jpegs_are_reduced_in_the_dct(self, reduction):
        data = jpeg(picture(200, 301))

        assert codecs.decode_image(data, "a", reduction=reduction).shape == (
            -(-200 // reduction),
            -(-301 // reduction),
            3,
        )

    def test_truncated_files_are_named(self):
        whole = jpeg(picture(200, 200))
        with pytest.raises(ImageError) as caught:
            codecs.decode_image(whole[: len(whole) // 2], "cut.jpg")
        assert str(caught.value) == (
            "cut.jpg: expected a whole image, found a damaged JPEG (Premature end of JPEG file). Restore the file from "
            "a copy, or leave it out."
        )
        whole = png(Image.fromarray(picture()))
        with pytest.raises(ImageError) as caught:
            codecs.decode_image(whole[: len(whole) // 2], "cut.png")
        assert str(caught.value) == (
            f"cut.png: expected a whole image, found a PNG that ends early, after {len(whole) // 2:,} bytes. Restore "
            "the file from a copy, or leave it out."
        )
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 4
        with pytest.raises(ImageError, match=r"^flip\.png: expected a whole image, found a damaged PNG chunk at byte "):
            codecs.decode_image(bytes(flipped), "flip.png")


class TestRows:
    """Decoding no further than is looked at must not change what is looked at."""

    KINDS: ClassVar = {
        **{name: {"subsampling": name} for name in ("4:4:4", "4:2:2", "4:2:0")},
        "progressive": {"progressive": True},
        "restarts": {"restart_marker_rows": 1},
        "gray": {"mode": "L"},
        "CMYK": {"mode": "CMYK"},
    }

    @pytest.mark.parametrize("reduction", [1, 2, 4, 8])
    @pytest.mark.parametrize("kind", KINDS)
    def test_every_row_that_is_asked_for_is_the_same(self, kind, reduction):
        data = jpeg(rng.integers(0, 256, (150, 131, 3), dtype=np.uint8), **self.KINDS[kind])
        whole = codecs.decode_image(data, "a", reduction=reduction)
        heights = set()
        for rows in range(1, 160):
            found = codecs.decode_image(data, "a", reduction=reduction, rows=rows)
            wanted = -(-min(rows, 150) // reduction)
            heights.add(len(found))
            assert np.array_equal(found[:wanted], whole[:wanted]), rows
        assert (len(heights) > 1) == (kind != "progressive")

    @pytest.mark.parametrize("sampling", ["440", "411"])
    def test_rare_samplings_too(self, sampling):
        data = simplejpeg.encode_jpeg(picture(150, 131), colorsubsampling=sampling)
        whole = codecs.decode_image(data, "a")
        for rows in range(1, 160):
            found = codecs.decode_image(data, "a", rows=rows)
            assert np.array_equal(found[:rows], whole[: min(rows, len(found))][:rows]), rows

    @given(st.integers(0, 2**32), st.sampled_from(["scale-crop", "resized-crop"]), st.sampled_from([0.0, 30.0]))
    def test_a_view_sees_the_same(self, seed, method, rotate):
        draw = generator(seed, "t", 0)
        data = jpeg(picture(300, 200), subsampling="4:2:0", exif=exif(1 + draw.integer(8)))
        info = probe(data, "a")
        augment = Augment((40 + draw.integer(60), 50), method, (0.05, 3.0), 0, rotate=rotate)
        affine = augment.view(info.size, draw).affine
        found, expected = (np.zeros((*augment.crop, 3), np.uint8) for _ in range(2))
        fetch_image(data, "a", info, affine, (9, 9, 9), found)
        stored = affine.then(geometry.upright_to_stored(info.orientation, (300, 200)))
        step = geometry.reduction(stored.shrink)
        whole = codecs.decode_image(data, "a", reduction=step)
        warp_image(whole, stored.then(Affine(xx=1 / step, yy=1 / step)), (9, 9, 9), expected)

        assert np.array_equal(found, expected)

    def test_a_file_cut_anywhere_is_named_though_few_rows_are_wanted(self):
        data = jpeg(picture(150, 131))
        for end in range(len(data) // 3, len(data) - 2):
            with pytest.raises(ImageError, match=r"a damaged JPEG \(Premature end of JPEG file\)"):
                codecs.decode_image(data[:end], "cut.jpg", rows=10)

    def test_damage_in_the_rows_that_are_wanted_is_named(self):
        data = jpeg(picture(150, 131), restart_marker_rows=1)
        third = [i for i in range(len(data)) if data[i] == 0xFF and 0xD0 <= data[i + 1] <= 0xD7][2]
        damaged = data[: third - 20] + data[third:]
        with pytest.raises(ImageError, match="premature end of data segment"):
            codecs.decode_image(damaged, "cut.jpg", rows=100)
        assert len(codecs.decode_image(damaged, "cut.jpg", rows=10)) == 16


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
            "the masks: 255 ids are all there can be."
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
            "indices are the class ids, as in Pascal VOC, say so with --masks palette."
        )

    @pytest.mark.parametrize(
        ("mode", "name"), [("RGB", "an RGB"), ("RGBA", "an RGBA"), ("LA", "a gray PNG with alpha")]
    )
    def test_colours_are_refused(self, mode, name):
        with pytest.raises(LabelError, match=rf"^m\.png: .*found {name}"):
            codecs.decode_mask(png(Image.new(mode, (4, 4))), "m.png")

    def test_jpeg_masks_are_refused(self):
        with pytest.raises(LabelError) as caught:
            codecs.decode_mask(jpeg(picture()), "m.jpg")
        assert str(caught.value) == (
            "m.jpg: expected a mask with one channel of class ids, as PNG, found a JPEG. JPEG changes the ids of "
            "pixels; save masks as PNG."
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


class TestAffine:
    @given(affines, affines, numbers, numbers)
    def test_then_composes(self, first, second, x, y):
        together = first.then(second).point(x, y)
        apart = second.point(*first.point(x, y))

        assert together == pytest.approx(apart, rel=1e-6, abs=1e-3)

    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_orientation_is_what_pillow_does(self, orientation):
        from PIL import ImageOps

        pixels = picture(13, 29)
        image = Image.fromarray(pixels)
        image.getexif()[0x0112] = orientation
        expected = np.asarray(ImageOps.exif_transpose(image))
        out = np.zeros_like(expected)
        warp_image(pixels, geometry.upright_to_stored(orientation, pixels.shape[:2]), (0, 0, 0), out)

        assert np.array_equal(out, expected)


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


class TestViews:
    @given(sizes, sizes, st.floats(0.2, 3), st.floats(0, 0.999), st.floats(0, 0.999))
    def test_a_scaled_crop_shows_whole_source_pixels_and_no_more(self, source, crop, scale, down, right):
        affine = geometry.scale_and_crop(source, crop, scale, (down, right)).affine
        x, y = affine.point(0, 0)

        assert x == pytest.approx(round(x), abs=1e-9)
        assert y == pytest.approx(round(y), abs=1e-9)
        assert 0 <= x < source[1]
        assert 0 <= y < source[0]

    @given(seeds, sizes, sizes)
    def test_a_resized_crop_lies_within_the_picture(self, seed, source, to):
        view = geometry.resized_crop(source, to, generator(seed, "crop", 0), (0.08, 1), (0.75, 1.33))
        right, bottom = view.affine.point(to[1], to[0])

        assert view.affine.x0 >= 0
        assert view.affine.y0 >= 0
        assert right <= source[1] + 1e-6
        assert bottom <= source[0] + 1e-6

    def test_scales_are_deeplabs_steps(self):
        drawn = {geometry.random_scale(generator(0, "s", i), 0.5, 2.0, 0.25) for i in range(300)}
        uneven = {geometry.random_scale(generator(0, "s", i), 0.9, 1.2, 0.25) for i in range(100)}
        narrow = {geometry.random_scale(generator(0, "s", i), 1.0, 1.1, 0.25) for i in range(100)}

        assert drawn == {0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0}
        assert uneven == {0.9, 1.15, 1.2}
        assert narrow == {1.0, 1.1}

    def test_resize_to_range_is_deeplabs(self):
        assert geometry.fit_range((400, 600), 200, 1000) == (200, 300)
        assert geometry.fit_range((400, 600), 500, 600) == (400, 600)
        assert geometry.fit_range((100, 1000), 500, 600) == (60, 600)

    def test_flip_is_its_own_inverse(self):
        view = geometry.scale_and_crop((30, 40), (20, 20), 1.5, (0.3, 0.7))

        assert geometry.flip(geometry.flip(view)) == view

    def test_reduction_is_the_largest_that_keeps_every_output_pixel(self):
        assert [geometry.reduction(s) for s in (0.5, 1.99, 2, 3.9, 4, 7.9, 8, 50)] == [1, 1, 2, 2, 4, 4, 8, 8]

    def test_a_quarter_turn_is_exact(self):
        pixels = picture(32, 32)
        out = np.zeros_like(pixels)
        warp_image(pixels, geometry.rotate(geometry.whole((32, 32)), 90).affine, (0, 0, 0), out)

        assert np.abs(out.astype(int) - np.rot90(pixels, 1)).max() <= 1


class TestColor:
    def test_nothing_asked_is_nothing_done(self):
        assert Jitter().draw(generator(0, "j", 0)) is None
        pixels = picture()
        assert apply(pixels, None) is pixels

    def test_brightness_scales_and_saturation_greys(self):
        pixels = picture()
        light = Jitter(brightness=0.5).draw(generator(0, "j", 1))
        ratio = apply(pixels, light).astype(float).sum() / pixels.sum()
        assert 0.5 <= ratio <= 1.5
        assert ratio != pytest.approx(1, abs=0.01)
        gray = np.full((4, 4, 3), 90, np.uint8)
        saturated = apply(gray, Jitter(saturation=1, hue=0.5).draw(generator(0, "j", 2)))
        assert np.abs(saturated.astype(int) - 90).max() <= 1

    @given(seeds)
    def test_draws_are_matrices_of_the_seed(self, seed):
        jitter = Jitter(0.4, 0.4, 0.4, 0.1)
        a, b = (jitter.draw(generator(seed, "j", 0)) for _ in range(2))

        assert np.array_equal(a, b)
        assert a.shape == (3, 4)


class TestDrawing:
    def test_palette_tells_classes_apart(self):
        colors = drawing.palette().astype(int)
        near = [np.abs(colors[a] - colors[b]).sum() for a in range(20) for b in range(a)]

        assert min(near) > 50
        assert len({tuple(color) for color in colors.tolist()}) >= 250
        assert colors[255].tolist() == [255, 255, 255]

    def test_sheets_hold_every_tile(self):
        tiles = [np.full((10 + i, 20, 3), i, np.uint8) for i in range(5)]
        sheet = drawing.sheet(tiles, 2)

        assert {i for i in range(5) if (sheet == i).all(axis=2).sum() >= 20 * (10 + i)} == set(range(5))

    def test_captions_and_fits(self):
        image = picture(100, 200)

        assert drawing.caption(image, "x" * 500).shape == (118, 200, 3)
        assert drawing.fit(image, 50).shape == (25, 50, 3)
        assert np.array_equal(drawing.fit(image, 500), image.repeat(2, axis=0).repeat(2, axis=1))
        assert np.array_equal(drawing.fit(image, 399), image)
        assert drawing.legend(["a", "b"], drawing.palette(), 100).shape[1] == 100

    @pytest.mark.parametrize("box", [(10, 40, 60, 80), (10, 0, 60, 80), (150, 40, 199, 80), (-20, -20, 5, 99)])
    def test_words_of_boxes_are_to_be_seen_whole(self, box):
        """In black on the class's colour, which covers as much wherever the box is."""
        blank = np.full((100, 200, 3), 7, np.uint8)
        edges, labels = np.array([box], np.float32), np.array([2])
        plain, named = (drawing.boxes(blank, edges, labels, words) for words in ((), ["a name 33%"]))
        color = drawing.palette(drawing.OBJECTS)[2]
        ink = (named != plain).any(axis=2)
        rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))

        tag = named[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        assert (tag == color).all(axis=2).sum() > 300
        assert (tag.sum(axis=2) < int(color.sum()) - 200).sum() > 50
        assert rows[-1] - rows[0] >= 12
        assert columns[-1] - columns[0] >= 60
        assert np.array_equal(drawing.palette(drawing.OBJECTS)[0], (230, 25, 75))

    def test_overlay_marks_borders(self):
        ids = np.zeros((10, 10), np.uint8)
        ids[5:] = 1
        colors = drawing.palette()
        shown = drawing.overlay(np.full((10, 10, 3), (200, 0, 0), np.uint8), ids, colors)

        assert (shown[5] == 255).all()
        gray = 0.299 * 200
        assert np.abs(shown[9] - (0.6 * colors[1] + 0.4 * gray)).max() <= 1, "the image's own colour is gone"


class TestLabels:
    def test_ids_outside_are_named(self):
        ids = np.array([[0, 1, 2], [255, 9, 77]], np.uint8)
        with pytest.raises(LabelError) as caught:
            labels.LabelSet(3, 255).check(ids, "m#1")
        assert str(caught.value) == (
            "m#1: expected class ids from 0 to 2, or the ignore label 255, found id 9, 77. Check classes and "
            "ignore_label in dataset.json, or pack the data again."
        )
        labels.LabelSet(78, 255).check(ids, "m#1")

    def test_sizes_must_agree(self):
        with pytest.raises(LabelError) as caught:
            labels.decode_ids(codecs.encode_mask(np.zeros((4, 5), np.uint8)), "m#1", (5, 4))
        assert str(caught.value) == (
            "m#1: expected a mask of 5 x 4 (height x width), like its image, found one of 4 x 5. Make both the same "
            "size, then pack again."
        )


class TestObjects:
    def record(self, *boxes):
        objects = tuple(Object(label, *edges) for *edges, label in boxes)
        return DetectionRecord(image=b"", objects=objects, name="n", height=40, width=60, format="jpeg")

    @pytest.mark.parametrize("box", [(0, 0, 60, 40, 0), (-0.0005, -0.0005, 60.0005, 40.0005, 1), (3, 4, 5, 6, 1)])
    def test_those_inside_are_taken(self, box):
        labels.check_objects(self.record(box), 2, (40, 60), "r#1")

    @pytest.mark.parametrize(
        ("box", "said"),
        [
            ((1, 2, 3, 4, 2), "of class 2: 1, 2 to 3, 4"),
            ((1, 2, 3, 4, -1), "of class -1: 1, 2 to 3, 4"),
            ((-1, 2, 3, 4, 0), "of class 0: -1, 2 to 3, 4"),
            ((1, -2, 3, 4, 0), "of class 0: 1, -2 to 3, 4"),
            ((1, 2, 61, 4, 0), "of class 0: 1, 2 to 61, 4"),
            ((1, 2, 3, 41, 0), "of class 0: 1, 2 to 3, 41"),
            ((3, 2, 3, 4, 0), "of class 0: 3, 2 to 3, 4"),
            ((1, 4, 3, 4, 0), "of class 0: 1, 4 to 3, 4"),
        ],
    )
    def test_one_outside_is_named(self, box, said):
        with pytest.raises(LabelError) as caught:
            labels.check_objects(self.record((1, 2, 3, 4, 0), box), 2, (40, 60), "r#1")
        assert str(caught.value) == (
            f"r#1: expected boxes inside 40 x 60 (height x width), of classes from 0 to 1, found box 2 {said}. "
            "Pack the data again."
        )

    @pytest.mark.parametrize("size", [(41, 60), (40, 61)])
    def test_a_picture_of_another_size_is_named(self, size):
        with pytest.raises(LabelError) as caught:
            labels.check_objects(self.record(), 2, size, "r#1")
        assert str(caught.value) == (
            "r#1: expected an image of 40 x 60 (height x width), as the record says, found one of "
            f"{size[0]} x {size[1]}. Pack the data again."
        )


def test_identity_is_a_copy():
    pixels = picture()
    out = np.zeros_like(pixels)
    warp_image(pixels, Affine(), (0, 0, 0), out)

    assert np.array_equal(out, pixels)
    assert math.isclose(Affine().shrink, 1)
