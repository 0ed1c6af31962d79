from __future__ import annotations

import io
import json

import cv2
import numpy as np
import pytest
from PIL import Image
from support import miniatures, volumes
from support.commands import call
from support.datasets import records
from support.errors import refused
from support.miniatures import gray, make_image, write

from penstock.datasets import LayoutOptions, inspect, pack
from penstock.images import decode_mask, probe
from penstock.images.upright import read_upright
from penstock.kinds import Labels
from penstock.kinds.fields import decode_detection, decode_segmentation
from penstock.kinds.instances import decode_object

HOW = LayoutOptions(max_side=16)
LARGE = (48, 64)


def smooth(seed, size=LARGE):
    noise = np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8)
    return cv2.GaussianBlur(noise, (0, 0), 6)


def packed(root, tmp_path, how=HOW, labels=None):
    return pack(inspect(root, labels, how=how), tmp_path / "data")


def png(pixels):
    return cv2.imencode(".png", pixels[..., ::-1] if pixels.ndim == 3 else pixels)[1].tobytes()


def test_images_and_masks_become_smaller_together(tmp_path):
    ids = np.zeros(LARGE, np.uint8)
    ids[8:32, 16:40] = 1
    write(tmp_path / "raw/images/0.png", png(smooth(0)))
    write(tmp_path / "raw/masks/0.png", gray(ids))
    (record,) = [decode_segmentation(each) for each in records(packed(tmp_path / "raw", tmp_path), "train")]

    assert np.array_equal(
        read_upright(record.image, "x"), cv2.resize(smooth(0), (16, 12), interpolation=cv2.INTER_AREA)
    )
    assert np.array_equal(decode_mask(record.mask, "m"), ids[2::4, 2::4])


def test_small_images_keep_their_bytes_and_jpeg_stays_jpeg(tmp_path):
    write(tmp_path / "raw/images/0.jpg", make_image((12, 16)))
    write(tmp_path / "raw/images/1.jpg", make_image(LARGE, seed=1))
    for number, size in enumerate(((12, 16), LARGE)):
        write(tmp_path / f"raw/masks/{number}.png", gray(np.eye(*size, dtype=np.uint8)))
    found = {r.name: r for r in map(decode_segmentation, records(packed(tmp_path / "raw", tmp_path), "train"))}

    assert found["0"].image == make_image((12, 16))
    assert (probe(found["1"].image, "x").format, probe(found["1"].image, "x").size) == ("jpeg", (12, 16))


def test_a_turned_photo_is_upright_then(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    done = io.BytesIO()
    Image.fromarray(smooth(2)).save(done, "JPEG", exif=exif, quality=98)
    write(tmp_path / "raw/images/0.jpg", done.getvalue())
    write(tmp_path / "raw/masks/0.png", gray(np.eye(64, 48, dtype=np.uint8)))
    (record,) = map(decode_segmentation, records(packed(tmp_path / "raw", tmp_path), "train"))
    info = probe(record.image, "x")

    assert (info.orientation, info.size) == (1, (16, 12))
    expected = cv2.resize(np.rot90(smooth(2), -1), (12, 16), interpolation=cv2.INTER_AREA)
    assert np.abs(read_upright(record.image, "x").astype(int) - expected).max() < 12


def test_palettes_and_colours_stay_those_of_classes(tmp_path):
    ids = np.zeros(LARGE, np.uint8)
    ids[8:32, 16:40] = 1
    image = Image.fromarray(ids)
    image.putpalette([10, 20, 30, 200, 100, 50])
    done = io.BytesIO()
    image.save(done, "PNG")
    for name, mask in (
        ("palette", done.getvalue()),
        ("colors", png(np.array([[10, 20, 30], [200, 100, 50]], np.uint8)[ids])),
    ):
        write(tmp_path / name / "images/0.png", png(smooth(3)))
        write(tmp_path / name / "masks/0.png", mask)
    colors = Labels(classes=("a", "b"), colors={(10, 20, 30): 0, (200, 100, 50): 1})
    for name, labels in (("palette", Labels(palette=True)), ("colors", colors)):
        dataset = pack(inspect(tmp_path / name, labels, how=HOW), tmp_path / f"{name}-data")
        (record,) = map(decode_segmentation, records(dataset, "train"))
        assert decode_mask(record.mask, "m", palette=True).sum() == 36  # 24 x 24, a quarter along each side


def test_boxes_are_those_of_the_smaller_image(tmp_path):
    write(tmp_path / "raw/0.png", png(smooth(4)))
    write(tmp_path / "raw/boxes.csv", "file,class,xmin,ymin,xmax,ymax\n0.png,a,8,12,40,44\n")
    (record,) = map(decode_detection, records(packed(tmp_path / "raw", tmp_path), "train"))
    (found,) = record.objects

    assert probe(record.image, "x").size == (12, 16)
    assert [round(e, 4) for e in (found.left, found.top, found.right, found.bottom)] == [2, 3, 10, 11]


def test_pixels_of_objects_are_those_of_the_smaller_image(tmp_path):
    write(tmp_path / "raw/train/0.png", png(smooth(5)))
    points = [[8, 12], [40, 12], [40, 44], [8, 44]]
    shapes = [{"label": "a", "points": points, "shape_type": "polygon"}]
    tree = {"version": "5", "shapes": shapes, "imagePath": "0.png", "imageHeight": 48, "imageWidth": 64}
    write(tmp_path / "raw/train/0.json", json.dumps(tree))
    dataset = packed(tmp_path / "raw", tmp_path, LayoutOptions(task="instances", max_side=16))
    (record,) = map(decode_detection, records(dataset, "train"))

    assert decode_object(record.objects[0], (12, 16), "x").sum() == pytest.approx(64, abs=17)
    box = record.objects[0]
    assert [box.left, box.top, box.right, box.bottom] == pytest.approx([2, 3, 10, 11], abs=1)


def test_the_command_takes_it_and_volumes_do_not(tmp_path, capsys):
    miniatures.masks(tmp_path / "raw")
    code, out, _ = call("inspect", tmp_path / "raw", "--max-side", 16, capsys=capsys)
    assert code == 0
    assert "because images are resized to at most 16 pixels a side" in out
    assert "height x width 12 x 16" in out
    assert call("pack", tmp_path / "raw", "-o", tmp_path / "data", "--max-side", 16, capsys=capsys)[0] == 0
    volumes.write_cases(tmp_path / "volumes")
    message = "--max-side is for images, and not for volumes. Remove --max-side."
    refused(inspect, tmp_path / "volumes", how=HOW, message=message)


@pytest.mark.parametrize("form", ["JPEG", "WEBP", "AVIF"])
def test_lossy_masks_stay_lossy(tmp_path, form):
    square = np.zeros(LARGE, np.uint8)
    square[8:40, 12:44] = 255
    done = io.BytesIO()
    Image.fromarray(square).save(done, form, quality=60)
    write(tmp_path / "raw/images/0.png", png(smooth(0)))
    write(tmp_path / f"raw/masks/0.{form.lower()}", done.getvalue())

    (problem,) = inspect(tmp_path / "raw", how=HOW).fatal
    assert "JPEG changes the ids of pixels; save masks as PNG, or give --mask-threshold 128" in problem.message
    (item,) = inspect(tmp_path / "raw", Labels(threshold=128), how=HOW).items
    assert dict(item.pixels) == {0: 12 * 16 - 64, 1: 64}


def test_a_jpeg_stays_one_of_quality_95(tmp_path):
    write(tmp_path / "raw/images/0.jpg", make_image(LARGE))
    write(tmp_path / "raw/masks/0.png", gray(np.eye(*LARGE, dtype=np.uint8)))
    (record,) = [decode_segmentation(each) for each in records(packed(tmp_path / "raw", tmp_path), "train")]
    again = io.BytesIO()
    Image.new("RGB", (8, 8)).save(again, "JPEG", quality=95)

    assert Image.open(io.BytesIO(record.image)).quantization == Image.open(again).quantization
