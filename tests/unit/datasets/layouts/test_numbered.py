"""Masks that number the objects of an image, told from masks of classes by what they hold."""

from __future__ import annotations

import io

import cv2
import numpy as np
import pytest
from PIL import Image
from support import raw_folders
from support.commands import call
from support.datasets import records
from support.layouts import boxes, notes, words
from support.miniatures import gray, make_image, write

from penstock.datasets import LayoutOptions, inspect, pack
from penstock.datasets.layouts import numbered
from penstock.errors import DatasetError
from penstock.images import codecs
from penstock.kinds import Labels
from penstock.kinds.fields import decode_detection, decode_segmentation

COUNTS = (7, 10, 14)


def tiff(values):
    done = io.BytesIO()
    Image.fromarray(values).save(done, "TIFF")
    return done.getvalue()


def around(numbers):
    """The box around every number, by a library of its own: OpenCV's bounding rectangles."""
    found = []
    for number in range(1, numbers.max() + 1):
        x, y, width, height = cv2.boundingRect((numbers == number).astype(np.uint8))
        found.append((0, x, y, x + width, y + height))
    return found


@pytest.fixture
def raw(tmp_path):
    raw_folders.numbered(counts=COUNTS)(tmp_path / "raw")
    return tmp_path / "raw"


def test_every_number_is_an_object(raw, tmp_path):
    found = inspect(raw)
    assert (found.layout.kind.name, found.labels.classes) == ("instances", ("object",))
    assert found.layout.reasons[-1] == (
        "every number above 0 in a mask is one object; --classes NAME gives the class another name"
    )
    data = pack(found, tmp_path / "data")
    decoded = {each.name: each.objects for each in map(decode_detection, records(data, "train"))}
    for number, count in enumerate(COUNTS):
        numbers = raw_folders.cells(count)
        masks = [codecs.decode_mask(each.mask, "mask") for each in decoded[str(number)]]
        assert [each.tolist() for each in masks] == [(numbers == n).tolist() for n in range(1, count + 1)]


def test_boxes_are_those_around_the_objects(raw, tmp_path):
    pack(inspect(raw, how=LayoutOptions(task="detection")), tmp_path / "data")
    found = boxes(tmp_path)
    assert {name: found[name] for name in "012"} == {
        str(number): around(raw_folders.cells(count)) for number, count in enumerate(COUNTS)
    }


def test_segmentation_divides_objects_from_background(raw, tmp_path):
    found = inspect(raw, how=LayoutOptions(task="segmentation"))
    assert found.labels.classes == ("background", "object")
    decoded = map(decode_segmentation, records(pack(found, tmp_path / "data"), "train"))
    masks = {each.name: codecs.decode_mask(each.mask, "mask") for each in decoded}
    for number, count in enumerate(COUNTS):
        assert np.array_equal(masks[str(number)], raw_folders.cells(count) > 0)


def test_the_way_back_is_named(raw, capsys):
    out = call("inspect", raw, capsys=capsys)[1]
    assert "note: --layout masks takes it for segmentation: image and mask folders, 3 images with labels\n" in out
    assert inspect(raw, how=LayoutOptions("masks")).labels.classes[-1] == "class14"


def test_numbers_beyond_a_byte_and_gaps_and_images_without_objects(tmp_path):
    numbers = np.zeros((40, 200), np.int32)
    for number in range(9):
        numbers[2:6, 3 * number : 3 * number + 2] = 70_000 + number
    for number, count in enumerate(COUNTS):
        write(tmp_path / f"raw/images/{number}.jpg", make_image(seed=number))
        write(tmp_path / f"raw/masks/{number}.png", gray(raw_folders.cells(count).astype(np.uint8)))
    for name, values in (("large", numbers), ("none", np.zeros((40, 200), np.uint8))):
        write(tmp_path / f"raw/images/{name}.png", gray(np.full((40, 200), len(name), np.uint8)))
        done = io.BytesIO()
        np.save(done, values)
        write(tmp_path / f"raw/masks/{name}.npy", done.getvalue())
    pack(inspect(tmp_path / "raw", how=LayoutOptions("numbered-masks", task="detection")), tmp_path / "data")

    found = boxes(tmp_path)
    assert found["large"] == [(0, 3 * n, 2, 3 * n + 2, 6) for n in range(9)]
    assert found["none"] == []


class TestEvidence:
    def test_numbers_of_objects_are_evident(self, raw):
        assert numbered.is_evident(raw)

    @pytest.mark.parametrize("change", ["few", "same", "sparse", "scattered", "named", "legend", "lossy"])
    def test_masks_of_classes_are_not(self, tmp_path, change):
        """Each change takes away one sign that the numbers are objects."""
        for number, count in enumerate(COUNTS):
            numbers = raw_folders.cells({"few": 2 + number, "same": 10}.get(change, count)).astype(np.uint8)
            if change == "sparse":
                numbers *= 3
            if change == "scattered":
                numbers = np.where(np.arange(32) % 2 == 0, numbers, 0).astype(np.uint8)
            mask = cv2.imencode(".jpg", numbers)[1].tobytes() if change == "lossy" else gray(numbers)
            end = "jpg" if change == "lossy" else "png"
            write(tmp_path / f"images/{number}.jpg", make_image(seed=number))
            write(tmp_path / f"masks/{number}.{end}", mask)
        if change == "named":
            write(tmp_path / "classes.txt", "\n".join(f"c{n}" for n in range(20)))
        if change == "legend":
            write(tmp_path / "class_dict.csv", "name,r,g,b\n" + "".join(f"c{n},{n},0,0\n" for n in range(20)))
        assert not numbered.is_evident(tmp_path)
        note = (
            f"{tmp_path}: in each mask the ids count from 1, and each is one region. They are read as classes. If they are "
            "numbers of objects, use --layout numbered-masks."
        )
        assert (note in [problem.message for problem in inspect(tmp_path).problems]) == (change == "few")
        assert note not in [problem.message for problem in inspect(tmp_path, how=LayoutOptions("masks")).problems]

    def test_a_named_task_needs_none(self, tmp_path):
        """Two objects in every image could be classes, but not for instance segmentation."""
        for number in range(2):
            write(tmp_path / f"images/{number}.jpg", make_image(seed=number))
            write(tmp_path / f"masks/{number}.png", gray(raw_folders.cells(2).astype(np.uint8)))
        assert inspect(tmp_path).layout.kind.name == "segmentation"
        found = inspect(tmp_path, how=LayoutOptions(task="instances"))
        assert [len(each.item.label) for each in found.items] == [2, 2]


class TestNames:
    def test_the_class_may_be_named(self, raw):
        assert inspect(raw, Labels(("cell",))).labels.classes == ("cell",)

    def test_one_class_that_is_named_beside_the_data_is_theirs(self, raw):
        write(raw / "classes.txt", "background\nnucleus\n")
        assert inspect(raw).labels.classes == ("nucleus",)

    def test_there_is_one_class_alone(self, raw):
        with pytest.raises(DatasetError) as caught:
            inspect(raw, Labels(("background", "cell")))
        assert str(caught.value) == (
            "--classes: expected 1 name: the data has 1 class (object), found background, cell. Name each of them once."
        )

    def test_of_masks_of_one_class_the_background_is_to_be_named_too(self, raw):
        with pytest.raises(DatasetError) as caught:
            inspect(raw, Labels(("cell",)), how=LayoutOptions(task="segmentation"))
        assert str(caught.value) == (
            "--classes: expected 2 names: the data has 2 classes (background, object), found cell. Use --classes "
            "background,cell."
        )


class TestMistakes:
    def test_a_damaged_mask_is_named(self, raw):
        whole = (raw / "masks/1.tif").read_bytes()
        write(raw / "masks/1.tif", whole[: len(whole) // 2])
        (said,) = words(raw, LayoutOptions("numbered-masks"))
        assert said.startswith("images/1.tif: masks/1.tif: expected ")

    def test_a_mask_in_colour_is_none(self, raw):
        write(raw / "masks/1.tif", tiff(np.tile(np.array([0, 0, 9], np.uint8), (24, 32, 1))))
        assert words(raw, LayoutOptions("numbered-masks")) == [
            "images/1.tif: masks/1.tif: expected a mask of one channel that holds numbers, found an image in the mode RGB. "
            "Save the numbers of the objects in one channel."
        ]

    @pytest.mark.parametrize("value", [-3.0, 2.5])
    def test_numbers_are_whole(self, raw, value):
        write(raw / "masks/1.tif", tiff(np.full((24, 32), value, np.float32)))
        assert words(raw, LayoutOptions("numbered-masks")) == [
            f"images/1.tif: masks/1.tif: expected whole numbers from 0 on, found values from {value:g} to {value:g}. Save 0 "
            "for the background and a number for each object."
        ]

    def test_a_mask_of_another_size_is_named(self, raw):
        write(raw / "masks/1.tif", tiff(raw_folders.cells(10, (30, 40))))
        assert words(raw) == [
            f"{raw}/masks/1.tif: expected a mask of 24 x 32 (height x width), like its image, found one of 30 x 40. Make both "
            "the same size."
        ]
        assert words(raw, LayoutOptions(task="detection")) == [
            "images/1.tif: expected an image of 30 x 40 (height x width), which its annotations were made for, found 24 x 32, "
            "as viewers show it (EXIF orientation counts). The annotations are of an image 1.25 times as large. Use that image."
        ]

    @pytest.mark.parametrize("option", ["--map 3=1", "--mask-threshold 128", "--palette"])
    def test_options_of_masks_have_no_meaning(self, raw, option, capsys):
        code, _, err = call("inspect", raw, *option.split(), capsys=capsys)
        name = option.split()[0]
        assert (code, err.splitlines()[-1]) == (
            2,
            f"error: {name}: expected masks in files of their own, each with the ids, gray values or colours of classes, found "
            f"data for instances (image and mask folders with numbered objects). Remove {name}, or choose the layout with "
            "--layout.",
        )

    def test_nor_of_masks_that_are_drawn(self, raw, capsys):
        err = call("inspect", raw, "--task", "segmentation", "--mask-threshold", 128, capsys=capsys)[2]
        assert err.splitlines()[-1].startswith("error: --mask-threshold: expected masks in files of their own")

    def test_a_missing_mask_is_named_as_the_others_are(self, tmp_path):
        raw_folders.numbered("images/{}.tif", "masks/{}_cp_masks.tif")(tmp_path)
        (tmp_path / "masks/1_cp_masks.tif").unlink()
        assert words(tmp_path) == [
            "images/1.tif: expected a mask masks/1_cp_masks.tif, found none. Add the mask, or leave the image out with "
            "--skip-bad."
        ]


def test_cellposes_own_file_is_not_taken_for_a_second_mask(tmp_path):
    raw_folders.numbered("{}.tif", "{}_cp_masks.tif")(tmp_path)
    write(tmp_path / "0_seg.npy", b"\x93NUMPY\x01\x00a pickled dictionary")
    assert notes(tmp_path) == []


def test_a_map_of_depth_numbers_no_objects(tmp_path):
    """A value of its own for each pixel, without gaps."""
    for number in range(4):
        write(tmp_path / f"rgb/{number}.png", make_image(seed=number))
        depth = (np.arange(24 * 32).reshape(24, 32) + number).astype(np.uint16)
        write(tmp_path / f"depth/{number}.png", cv2.imencode(".png", depth)[1].tobytes())
    assert inspect(tmp_path).layout.task == "segmentation"
