from __future__ import annotations

import io
import os
import struct
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image
from support import miniatures
from support.commands import call
from support.errors import refused
from support.images import HEIC
from support.training import recipe

from penstock.errors import DatasetError
from penstock.images import RGB, PixelFormat
from penstock.inference.inputs import _frames, find, other_depth, parsed
from penstock.training import train


def film(path, frames=4):
    """A video of plain frames that grow lighter, without loss."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"FFV1"), 10, (64, 48))
    for number in range(frames):
        writer.write(np.full((48, 64, 3), 40 * number, np.uint8))
    writer.release()


def test_images_of_one_name_have_predictions_of_their_own(tmp_path):
    for name in ("a.jpg", "a.png", "b.jpg"):
        miniatures.write(tmp_path / name, miniatures.make_image())

    assert [each.name for each in find([tmp_path])] == ["a", "a.png", "b"]


@pytest.mark.parametrize(("bits", "wanted"), [(8, 16), (16, 8)])
def test_images_of_another_depth_are_named(tmp_path, bits, wanted):
    Image.fromarray(np.full((8, 8), 7, np.uint8 if bits == 8 else np.uint16)).save(tmp_path / "a.png")
    said = other_depth(find([tmp_path / "a.png"]), PixelFormat(1, wanted))
    assert said == (
        f"note: {tmp_path}/a.png has {bits} bits per channel, but the model was trained on images of {wanted}: values are "
        "scaled, and predictions may be wrong"
    )
    assert other_depth(find([tmp_path / "a.png"]), PixelFormat(1, bits)) == ""


def test_images_of_other_channels_are_named(tmp_path):
    bands = np.random.default_rng(5).integers(0, 256, (20, 30, 5), dtype=np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", bands, photometric="minisblack", planarconfig="contig")
    (image,) = find([tmp_path])

    message = "{}: expected {}, found 5 channels. Use images with the channels of the training images."
    refused(image.read, RGB, message=message.format(tmp_path / "a.tif", "a gray or RGB image"))
    refused(image.read, PixelFormat(7), message=message.format(tmp_path / "a.tif", "7 channels"))
    assert np.array_equal(image.read(PixelFormat(5)), bands)


def test_images_of_other_formats_are_read(tmp_path):
    pixels = np.random.default_rng(5).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    for name in ("a.tif", "b.webp", "c.bmp"):
        Image.fromarray(pixels).save(tmp_path / name, lossless=True)
    (tmp_path / "d.heic").write_bytes(HEIC)
    found = {each.name: each.read(RGB) for each in find([tmp_path])}

    assert found.keys() == {"a", "b", "c", "d"}
    assert all(np.array_equal(found[name], pixels) for name in "abc")
    assert found["d"].shape == (16, 24, 3)


def test_lists_videos_and_standard_input_are_predicted(packed, raw, tmp_path, capsys, monkeypatch):
    folder, _ = train(recipe(packed.folder, wide=True, steps=1, evaluate_every=1), tmp_path / "runs")
    images = sorted((raw / "images" / "val").iterdir())[:2]
    (tmp_path / "list.txt").write_text(f"{images[0]}\n\n{os.path.relpath(images[1], tmp_path)}\n")
    film(tmp_path / "video.avi")
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(images[0].read_bytes())))
    code, out, _ = call(
        "predict",
        folder.path,
        tmp_path / "list.txt",
        tmp_path / "video.avi",
        "-",
        "-o",
        tmp_path / "out",
        capsys=capsys,
    )
    written = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.png")}

    assert (code, out.splitlines()[0]) == (0, f"predicted 7 of 7 images into {tmp_path / 'out'}")
    names = [*(image.stem for image in images), *(f"video/{n:06d}" for n in range(4)), "stdin"]
    assert written == {f"{name}{end}.png" for name in names for end in ("", "-overlay")} | {"legend.png"}
    overlays = [cv2.imread(str(tmp_path / "out" / f"video/{n:06d}-overlay.png")).mean() for n in range(4)]
    assert overlays == sorted(overlays)
    first = (tmp_path / "out" / f"{images[0].stem}.png").read_bytes()
    assert (tmp_path / "out" / "stdin.png").read_bytes() == first


def test_a_video_that_cannot_be_read_is_named(packed, tmp_path, capsys):
    folder, _ = train(recipe(packed.folder, steps=1, evaluate_every=1), tmp_path / "runs")
    (tmp_path / "video.mp4").write_bytes(b"no video")
    capsys.readouterr()

    assert call("predict", folder.path, tmp_path / "video.mp4", "-o", tmp_path / "out", capsys=capsys) == (
        2,
        "",
        f"error: {tmp_path}/video.mp4: expected a video that OpenCV can read, found no frames. Convert it, for example with "
        "ffmpeg to H.264 in .mp4.\n",
    )


@pytest.mark.parametrize(
    ("masks", "images"),
    [("alphas", "images"), ("gtFine", "leftImg8bit"), ("valannot", "val"), ("SegmentationObject", "JPEGImages")],
)
def test_masks_of_every_layout_are_no_images(tmp_path, masks, images):
    for folder in (masks, images):
        miniatures.write(tmp_path / folder / "a.png", cv2.imencode(".png", np.zeros((8, 8, 3), np.uint8))[1].tobytes())

    assert [each.place.parent.name for each in find([tmp_path])] == [images]


def test_a_packed_dataset_is_no_folder_of_images(packed):
    with pytest.raises(DatasetError) as caught:
        find([packed.folder])
    assert str(caught.value) == (
        f"{packed.folder}: expected images, found a packed dataset. Name the folder of the raw images, or "
        "score the dataset with penstock evaluate RUN --split NAME."
    )


def test_a_folder_without_images_is_refused(tmp_path):
    with pytest.raises(DatasetError) as caught:
        find([tmp_path])
    assert str(caught.value) == f"{tmp_path}: expected images, found none. Check the path."


class Camera:
    """As much of OpenCV's capture as a camera needs: number 0 is there, and gives frames that grow lighter."""

    opened = 0

    def __init__(self, number):
        self.number, self.frame = number, 0

    def isOpened(self):  # noqa: N802 - OpenCV's
        return self.number == 0

    def read(self):
        self.frame += 1
        return True, np.full((48, 64, 3), (20 * self.frame, 0, 0), np.uint8)


def test_frames_of_a_camera_are_taken_when_they_are_read(monkeypatch):
    monkeypatch.setattr(cv2, "VideoCapture", Camera)
    (one,) = find(parsed(["camera:0"]))
    three = find(parsed(["camera:0/3"]))

    assert one.read(RGB)[0, 0].tolist() == [0, 0, 20]
    assert [(each.name, each.read(RGB)[0, 0].tolist()) for each in three] == [
        ("camera0/000000", [0, 0, 20]),
        ("camera0/000001", [0, 0, 40]),
        ("camera0/000002", [0, 0, 60]),
    ]
    refused(
        find, parsed(["camera:1"]),
        message="camera:1: expected a camera that OpenCV can open, found none of number 1. Connect it, or try another number.",
    )  # fmt: skip


class TestDepth:
    def image(self, path, dtype):
        path.parent.mkdir(exist_ok=True)
        miniatures.write(path, cv2.imencode(".png", np.full((24, 32, 3), 9, dtype))[1].tobytes())
        return path

    def test_images_of_another_depth_are_noted(self, tmp_path):
        bad = tmp_path / "in/0.png"
        deep = self.image(tmp_path / "in/1.png", np.uint16)
        miniatures.write(bad, b"no image")
        images = find([tmp_path / "in"])
        assert other_depth(images, RGB) == (
            f"note: {deep} has 16 bits per channel, but the model was trained on images of 8: values are scaled, and "
            "predictions may be wrong"
        )
        assert other_depth(images, PixelFormat(3, 16)) == ""
        assert other_depth(find([bad]), RGB) == ""

    def test_predicting_says_so(self, packed, tmp_path, capsys):
        folder, _ = train(recipe(packed.folder, steps=1), tmp_path / "runs")
        for name, dtype in (("deep", np.uint16), ("plain", np.uint8)):
            image = self.image(tmp_path / name / "a.png", dtype)
            code, out, _ = call("predict", folder.path, image, "-o", tmp_path / "out", capsys=capsys)
            assert (code, f"note: {image} has 16 bits per channel" in out) == (0, name == "deep")


@pytest.mark.parametrize("frames", [1_000_000, 50_000_000])
def test_a_video_whose_header_announces_frames_that_it_cannot_hold_is_named(tmp_path, frames):
    path = tmp_path / "video.avi"
    film(path)
    data = bytearray(path.read_bytes())
    at = data.index(b"strh")
    for place in (data.index(b"avih") + 8 + 16, at + 8 + 32):
        data[place : place + 4] = struct.pack("<I", frames)
    path.write_bytes(data)
    refused(
        lambda: list(_frames("video", path)),
        message=f"{path}: expected a video whose frames are in the file, found a header that announces {frames:,} frames, "
        f"in {len(data):,} bytes. Copy it again, or repair its header, for example with ffmpeg -c copy.",
    )


def test_a_list_in_a_list_is_passed_over(tmp_path):
    cv2.imwrite(str(tmp_path / "a.png"), np.zeros((4, 4, 3), np.uint8))
    (tmp_path / "more.txt").write_text("a.png\n")
    (tmp_path / "list.txt").write_text("more.txt\na.png\n")
    assert [image.name for image in find([tmp_path / "list.txt"])] == ["a"]


def test_lines_of_a_list_are_counted_from_its_folder_first(tmp_path, monkeypatch):
    for place, value in (("lists", 0), ("here", 255)):
        (tmp_path / place).mkdir()
        cv2.imwrite(str(tmp_path / place / "a.png"), np.full((4, 4, 3), value, np.uint8))
    (tmp_path / "lists/list.txt").write_text("a.png\n")
    monkeypatch.chdir(tmp_path / "here")
    (image,) = find([tmp_path / "lists/list.txt"])
    assert image.read(RGB).max() == 0


def test_a_line_of_a_list_that_gives_no_image_is_one_that_cannot_be_read(tmp_path):
    for name in ("a.jpg", "b.jpg"):
        miniatures.write(tmp_path / name, miniatures.make_image())
    (tmp_path / "bad.mp4").write_text("garbage")
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "empty").mkdir()
    (tmp_path / "list.txt").write_text("a.jpg\nbad.mp4\npipe.png\nempty\nb.jpg\n")

    found = find([tmp_path / "list.txt"])
    assert [image.name for image in found] == ["a", "list-2", "list-3", "list-4", "b"]
    expected = [
        f"{tmp_path}/bad.mp4: expected a video that OpenCV can read, found no frames. Convert it, for example with ffmpeg to "
        "H.264 in .mp4.",
        f"{tmp_path}/pipe.png: expected an image or a folder, found a pipe or a device. Check the path.",
        f"{tmp_path}/empty: expected images, found none. Check the path.",
    ]
    for image, message in zip(found[1:4], expected, strict=True):
        refused(image.read, RGB, message=message)


def test_standard_input_without_end_is_refused(monkeypatch):
    monkeypatch.setattr("penstock.inference.inputs.MAX_BYTES", 1 << 10)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(open("/dev/zero", "rb")))  # noqa: SIM115, PTH123 - closed with it
    (image,) = find([Path("/dev/stdin")])

    refused(
        image.read, RGB,
        message="standard input: expected an image of at most 1,024 bytes, found more. Pipe one image into it.",
    )  # fmt: skip
    sys.stdin.close()
