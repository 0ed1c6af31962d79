from __future__ import annotations

import io
import json

import cv2
import numpy as np
import pytest
import tifffile
from support.miniatures import gray, make_image, write

import penstock as ps
from penstock.datasets import inspect, pack
from penstock.images import PixelFormat


def png(pixels):
    return cv2.imencode(".png", pixels)[1].tobytes()


def tiff(pixels):
    done = io.BytesIO()
    tifffile.imwrite(done, pixels, photometric="minisblack", planarconfig="contig")
    return done.getvalue()


def masks(root, images, end):
    for number, image in enumerate(images):
        write(root / f"images/{number}{end}", image)
        write(root / f"masks/{number}.png", gray(np.eye(24, 32, dtype=np.uint8)))
    return root


def deep(seed, high=4096, size=(24, 32)):
    return np.random.default_rng(seed).integers(0, high, size, np.uint16)


def bands(seed, count=6):
    return np.random.default_rng(seed).integers(0, 9000, (24, 32, count), np.uint16)


def packed(folder, tmp_path):
    return pack(inspect(folder), tmp_path / "data")


def test_images_of_sixteen_bits_keep_them(tmp_path):
    images = [deep(number) for number in range(4)]
    dataset = packed(masks(tmp_path / "raw", map(png, images), ".png"), tmp_path)
    found = dataset.description
    values = np.stack(images) / 65535

    assert found.pixel_format == PixelFormat(3, 16)
    assert np.allclose(found.mean, values.mean())
    assert np.allclose(found.std, values.std())
    fed = [
        ps.open(dataset.folder)["train"].feed(
            batch=1, crop=(24, 32), settings={"augment.view.scale": (1, 1), "augment.flip": 0}
        )[k]
        for k in range(4)
    ]
    assert {sample.arrays["image"].dtype for sample in fed} == {np.dtype(np.uint16)}
    assert {sample.arrays["image"][..., 1].tobytes() for sample in fed} == {image.tobytes() for image in images}


def test_bands_are_channels(tmp_path):
    images = [bands(number) for number in range(3)]
    dataset = packed(masks(tmp_path / "raw", map(tiff, images), ".tif"), tmp_path)

    assert dataset.description.pixel_format == PixelFormat(6, 16)
    assert np.allclose(dataset.description.mean, np.stack(images).mean((0, 1, 2)) / 65535)
    feed = ps.open(dataset.folder)["train"].feed(
        batch=1, crop=(24, 32), settings={"augment.view.scale": (1, 1), "augment.flip": 0}
    )
    assert {feed[k].arrays["image"].tobytes() for k in range(3)} == {image.tobytes() for image in images}


def test_statistics_are_of_the_training_split(tmp_path):
    for split, value in (("train", 1000), ("val", 3000)):
        masks(tmp_path / "raw" / split, [png(np.full((24, 32), value, np.uint16))] * 2, ".png")
    found = packed(tmp_path / "raw", tmp_path).description

    assert np.allclose(found.mean, 1000 / 65535)
    assert np.allclose(found.std, 1 / 65535)  # never 0, as images are divided by it


def test_one_image_of_sixteen_bits_among_others_is_a_note(tmp_path):
    images = [make_image(seed=number) for number in range(4)]
    found = inspect(masks(tmp_path / "raw", [*images, png(deep(0))], ".png"))

    assert found.pixel_format == PixelFormat(3, 8)
    assert [p.message for p in found.problems if p.kind == "16 bits among 8"] == [
        "images/4.png: 16 bits per channel in 1 image of 5, 8 in the others: only the upper 8 bits are used."
    ]


def test_an_image_of_other_channels_is_a_problem(tmp_path):
    found = inspect(masks(tmp_path / "raw", map(tiff, [bands(0), bands(1), bands(2, 5)]), ".tif"))

    assert [problem.message for problem in found.fatal] == [
        "images/2.tif: expected 6 channels, as most images have, found 5 channels. Save it with the same channels, or "
        "leave it out."
    ]


def test_detectors_do_not_learn_bands(tmp_path):
    for number in range(2):
        write(tmp_path / f"raw/{number}.tif", tiff(bands(number)))
    write(tmp_path / "raw/boxes.csv", "file,class,xmin,ymin,xmax,ymax\n0.tif,a,1,2,10,12\n1.tif,b,1,2,10,12\n")

    assert [problem.message for problem in inspect(tmp_path / "raw").fatal] == [
        "0.tif: expected gray or RGB images for detection, found 6 channels. Save three of them as RGB."
    ]


@pytest.mark.parametrize(("image", "end"), [(png(deep(0)), ".png"), (tiff(bands(0)), ".tif")])
def test_findings_keep_the_format(tmp_path, monkeypatch, image, end):
    import os
    import time

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = masks(tmp_path / "raw", [image] * 2, end)
    for path in folder.rglob("*"):
        os.utime(path, (time.time() - 60, time.time() - 60))
    first, second = inspect(folder), inspect(folder)

    assert [each.moments for each in first.items] == [each.moments for each in second.items] != [(), ()]
    assert [each.pixel_format for each in first.items] == [each.pixel_format for each in second.items]


def test_the_description_states_them(tmp_path):
    dataset = packed(masks(tmp_path / "raw", map(png, [deep(0), deep(1)]), ".png"), tmp_path)
    written = json.loads((dataset.folder / "dataset.json").read_text())

    assert (written["channels"], written["bits"]) == (3, 16)
    assert written["mean"] == list(dataset.description.mean)
