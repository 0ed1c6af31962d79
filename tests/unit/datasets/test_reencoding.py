from __future__ import annotations

import io

import cv2
import numpy as np
import pytest
from PIL import Image
from support.datasets import records
from support.errors import refused
from support.images import exif, jpeg, make_image
from support.miniatures import gray, write

from penstock.datasets import LayoutOptions, inspect, pack
from penstock.images import decode_image, intervals, probe
from penstock.images.geometry import Region
from penstock.images.upright import read_upright
from penstock.kinds.fields import decode_segmentation

SIZE = 96, 128
CORNER = Region(0, 0, 16, 16)


def encoded(pixels, form, mode="RGB", **options):
    made = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(made, form, **options)
    return made.getvalue()


def packed(tmp_path, image, suffix, how):
    size = probe(image, "x").size
    write(tmp_path / f"raw/images/0{suffix}", image)
    write(tmp_path / "raw/masks/0.png", gray(np.eye(*size, dtype=np.uint8)))
    dataset = pack(inspect(tmp_path / "raw", how=how), tmp_path / "data")
    (record,) = [decode_segmentation(each) for each in records(dataset, "train")]
    return record.image


def differs(one, other):
    return np.abs(one.astype(int) - other).mean()


@pytest.mark.parametrize(
    ("options", "interval"),
    [
        ({"subsampling": "4:2:0"}, 4),
        ({"subsampling": "4:2:2"}, 4),
        ({"subsampling": "4:4:4"}, 8),
        ({"mode": "L"}, 8),
        ({"progressive": True}, 4),
        ({"subsampling": "4:2:0", "exif": exif(6)}, 4),
    ],
)
def test_crops_of_seekable_files_are_cut_out_and_pixels_stay_nearly_the_same(tmp_path, options, interval):
    before = jpeg(make_image(*SIZE), **options)
    after = packed(tmp_path, before, ".jpg", LayoutOptions(seekable=True))
    info = probe(after, "x")

    assert (info.restarts, info.orientation) == (interval, probe(before, "x").orientation)
    assert intervals.cut(after, info, CORNER) is not None
    assert differs(read_upright(after, "x"), read_upright(before, "x")) < 1
    with Image.open(io.BytesIO(before)) as one, Image.open(io.BytesIO(after)) as other:
        assert one.quantization == other.quantization
        assert (one.mode, one.layer) == (other.mode, other.layer)


@pytest.mark.parametrize(("width", "interval"), [(16 * 7, 1), (16 * 10, 5), (16 * 12, 6), (16 * 9 - 3, 3)])
def test_intervals_divide_a_row_of_blocks(tmp_path, width, interval):
    after = packed(tmp_path, jpeg(make_image(48, width), subsampling="4:2:0"), ".jpg", LayoutOptions(seekable=True))

    assert probe(after, "x").restarts == interval


def test_images_of_all_formats_become_jpeg_of_a_quality(tmp_path):
    pixels = make_image(*SIZE)
    made = [
        packed(tmp_path / f"{number}", image, suffix, LayoutOptions(quality=70, seekable=seekable))
        for number, (image, suffix, seekable) in enumerate(
            (
                (encoded(pixels, "PNG"), ".png", False),
                (encoded(pixels, "PNG", "RGBA"), ".png", True),
                (jpeg(pixels), ".jpg", False),
            )
        )
    ]
    expected = cv2.imdecode(np.frombuffer(encoded(pixels, "JPEG", quality=70), np.uint8), cv2.IMREAD_COLOR_RGB)

    assert [probe(each, "x").restarts for each in made] == [0, 4, 0]
    for each in made:
        assert probe(each, "x").format == "jpeg"
        assert differs(decode_image(each, "x"), expected) < 2
    assert len(made[2]) < 0.6 * len(jpeg(pixels))
    assert np.array_equal(decode_image(made[0], "x"), decode_image(made[1], "x"))


@pytest.mark.parametrize("mode", ["P", "L", "LA", "1"])
def test_colours_of_palettes_and_grays_stay_what_they_are(tmp_path, mode):
    before = encoded(make_image(*SIZE), "PNG", mode)
    after = packed(tmp_path, before, ".png", LayoutOptions(quality=95, seekable=True))

    assert probe(after, "x").channels == (3 if mode == "P" else 1)
    assert differs(decode_image(after, "x"), decode_image(before, "x")) < 25


def test_what_jpeg_cannot_hold_stays_as_it_is(tmp_path):
    deep = cv2.imencode(".png", np.random.default_rng(0).integers(0, 65536, (*SIZE, 3)).astype(np.uint16))[1].tobytes()
    inks = jpeg(make_image(*SIZE), mode="CMYK")
    plain = encoded(make_image(*SIZE), "PNG")

    assert packed(tmp_path / "0", deep, ".png", LayoutOptions(quality=90)) == deep
    assert packed(tmp_path / "1", inks, ".jpg", LayoutOptions(quality=90, seekable=True)) == inks
    wide = encoded(np.zeros((2, 65501, 3), np.uint8), "PNG")

    assert packed(tmp_path / "3", wide, ".png", LayoutOptions(quality=90)) == wide
    assert packed(tmp_path / "2", plain, ".png", LayoutOptions(seekable=True)) == plain


def test_what_is_seekable_already_loses_nothing(tmp_path):
    once = packed(tmp_path / "0", jpeg(make_image(*SIZE)), ".jpg", LayoutOptions(seekable=True))

    assert packed(tmp_path / "1", once, ".jpg", LayoutOptions(seekable=True)) == once


def test_a_damaged_image_is_a_problem_of_its_own(tmp_path):
    sound = jpeg(make_image(*SIZE))
    for name, image in (("good", sound), ("bad", sound[: len(sound) // 2])):
        write(tmp_path / f"images/{name}.jpg", image)
        write(tmp_path / f"masks/{name}.png", gray(np.eye(*SIZE, dtype=np.uint8)))
    (problem,) = inspect(tmp_path, how=LayoutOptions(seekable=True)).fatal

    assert str(problem.file).startswith("images/bad.jpg")


def test_what_pillow_cannot_read_costs_itself_alone(tmp_path):
    sound = jpeg(make_image(*SIZE))
    for name, image in (("good", sound), ("bad", sound[:2] + b"\xff\xee\x00\x08Adobe\x00" + sound[2:])):
        write(tmp_path / f"images/{name}.jpg", image)
        write(tmp_path / f"masks/{name}.png", gray(np.eye(*SIZE, dtype=np.uint8)))
    found = inspect(tmp_path, how=LayoutOptions(quality=90, seekable=True))
    (problem,) = found.fatal

    assert "expected an image that can be written as JPEG, found " in problem.message
    assert problem.message.endswith("Convert the file, or pack without --seekable and --quality.")
    assert [each.item.name for each in found.sound().items] == ["good"]


def test_a_quality_that_is_none_is_refused(tmp_path):
    write(tmp_path / "images/0.jpg", jpeg(make_image(*SIZE)))
    write(tmp_path / "masks/0.png", gray(np.eye(*SIZE, dtype=np.uint8)))
    refused(
        lambda: inspect(tmp_path, how=LayoutOptions(quality=101)),
        message="--quality: expected a number from 1 to 100, found 101. Give for example --quality 90.",
    )
