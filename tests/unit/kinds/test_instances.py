"""Objects with their pixels: what is checked, packed, verified and drawn."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter

import numpy as np
import pytest
from support import annotations as tools
from support.datasets import records
from support.miniatures import make_image, write
from support.recorded import recorded

from penstock.datasets import FolderDataset, LayoutOptions, inspect, pack
from penstock.errors import LabelError
from penstock.images import codecs, drawing
from penstock.kinds import InstancesKind
from penstock.kinds.fields import DetectionRecord, decode_detection
from penstock.kinds.instances import decode_object
from penstock.values import Object

PIXELS = np.zeros((24, 32), np.uint8)
PIXELS[4:9, 6:20] = 1
MASK = codecs.encode_mask(PIXELS)


def made(tmp_path, *outlines, size=(24, 32)):
    """A folder of one image with polygons of the class cat, as LabelMe writes it."""
    write(tmp_path / "raw/a.jpg", make_image((24, 32)))
    shapes = [{"label": "cat", "points": points, "shape_type": "polygon"} for points in outlines]
    tree = {"version": "5", "shapes": shapes, "imagePath": "a.jpg", "imageHeight": size[0], "imageWidth": size[1]}
    write(tmp_path / "raw/a.json", json.dumps(tree))
    return inspect(tmp_path / "raw", how=LayoutOptions(task="instances"))


class TestRecords:
    def test_objects_may_overlap_and_boxes_are_around_their_pixels(self, tmp_path):
        whole, part = [(2, 2), (30, 2), (30, 20), (2, 20)], [(4, 4), (12, 4), (12, 14), (4, 14)]
        found = made(tmp_path, whole, part)
        data = pack(found, tmp_path / "data")
        (record,) = records(data, "train")
        first, second = decode_detection(record).objects

        assert found.problems == ()
        assert (first.left, first.top, first.right, first.bottom) == pytest.approx((2, 2, 30, 20), abs=1e-4)
        assert np.array_equal(codecs.decode_mask(first.mask, ""), tools.bits_of(whole))
        assert np.array_equal(codecs.decode_mask(second.mask, ""), tools.bits_of(part))
        split = FolderDataset.open(tmp_path / "data").description.splits["train"]
        assert (split.objects, split.per_class) == (2, (2,))
        assert [each.label for each in (first, second)] == [0, 0]

    def test_an_outline_outside_the_image_is_a_problem(self, tmp_path):
        found = made(tmp_path, [(40, 2), (50, 2), (50, 20)], [(4, 4), (12, 4), (12, 14), (4, 14)])
        assert [problem.message for problem in found.problems if problem.fatal] == [
            "a.jpg: expected outline 1 inside the image of 24 x 32 (height x width), found 40, 2 to 50, 20 (x, y). Fix it, or "
            "leave the image out with --skip-bad."
        ]

    def test_an_object_without_a_pixel_is_left_out(self, tmp_path):
        found = made(tmp_path, [(4, 2.6), (9, 2.6), (9, 2.9)], [(4, 4), (12, 4), (12, 14), (4, 14)])
        data = pack(found, tmp_path / "data")

        assert [problem.message for problem in found.problems] == [
            "a.jpg: object 1 has no pixel inside the image. It is left out."
        ]
        assert len(decode_detection(records(data, "train")[0]).objects) == 1

    def test_an_image_of_another_size_than_was_annotated_is_named(self, tmp_path):
        found = made(tmp_path, [(4, 4), (12, 4), (12, 14), (4, 14)], size=(30, 32))
        assert [problem.message for problem in found.problems] == [
            "a.jpg: expected an image of 30 x 32 (height x width), which its annotations were made for, found 24 x 32, as "
            "viewers show it (EXIF orientation counts). Use the image that was annotated."
        ]

    def test_other_pixels_of_the_same_objects_are_another_record(self, tmp_path):
        one = made(tmp_path / "one", [(4, 4), (12, 4), (12, 14), (4, 14)])
        other = made(tmp_path / "other", [(4, 4), (12, 4), (12, 14)])
        again = made(tmp_path / "again", [(4, 4), (12, 4), (12, 14), (4, 14)])
        keys = [found.items[0].key for found in (one, other, again)]
        assert keys[0] == keys[2] != keys[1]

    def test_a_damaged_outline_is_a_problem(self, tmp_path):
        write(tmp_path / "train/a.jpg", make_image((24, 32)))
        runs = {"size": [24, 32], "counts": [5, 6]}
        tree = {
            "images": [{"id": 1, "file_name": "a.jpg", "height": 24, "width": 32}],
            "annotations": [{"id": 4, "image_id": 1, "category_id": 1, "segmentation": runs}],
            "categories": [{"id": 1, "name": "cat"}],
        }
        write(tmp_path / "train/_annotations.coco.json", json.dumps(tree))
        (problem,) = inspect(tmp_path, how=LayoutOptions(task="instances")).problems

        assert problem.fatal
        assert problem.message == (
            f"{tmp_path}/train/_annotations.coco.json, image 1 (annotation 4): expected outlines of at least three points, or "
            "run lengths of an image of 24 x 32, found run lengths of 24 x 32 that sum to 11, the smallest 5. Fix the file."
        )


class TestVerification:
    kind = InstancesKind()

    def record(self, mask):
        image = codecs.encode_png(np.zeros((24, 32, 3), np.uint8))
        return recorded(DetectionRecord(image, (Object(0, 6, 4, 20, 9, mask=mask),), "x", "png", 24, 32), "s#1")

    def test_a_sound_record_passes(self, described):
        self.kind.check(self.record(MASK), described)

    @pytest.mark.parametrize(
        ("mask", "found"),
        [
            (b"", "no mask"),
            (codecs.encode_mask(np.zeros((24, 32), np.uint8)), "a mask without any"),
            (codecs.encode_mask(np.ones((32, 24), np.uint8)), "one of 32 x 24"),
        ],
    )
    def test_a_wrong_mask_is_named(self, described, mask, found):
        with pytest.raises(LabelError) as caught:
            self.kind.check(self.record(mask), described)
        assert str(caught.value) == (
            "s#1 (object 1): expected a mask of 24 x 32 (height x width) with the pixels of the object, found "
            f"{found}. Pack the data again."
        )

    @pytest.fixture
    def described(self, tmp_path):
        return pack(made(tmp_path, [(4, 4), (12, 4), (12, 14), (4, 14)]), tmp_path / "data").description

    def test_what_a_record_adds_to_the_description(self, described):
        counts = self.kind.measure(self.record(MASK), described)
        assert (counts.height, counts.width, counts.objects, counts.per_class) == (24, 32, 1, Counter({0: 1}))

    def test_objects_are_drawn_in_the_colour_of_their_class(self, described):
        drawn = self.kind.draw(self.record(MASK), described)
        red = drawing.palette(drawing.OBJECTS)[0]
        scale = 320 // 32
        assert np.array_equal(drawn[6 * scale, 10 * scale], red // 2)
        assert np.array_equal(drawn[6 * scale, 6 * scale], (255, 255, 255))  # its outline
        assert not drawn[2 * scale, 10 * scale].any()


@pytest.mark.parametrize(("names", "hue"), [(("cell",), 1), (("cell", "dog"), 0)])
def test_objects_of_a_single_class_have_a_colour_each_and_no_legend(tmp_path, names, hue):
    data = pack(made(tmp_path, [(4, 4), (12, 4), (12, 14), (4, 14)]), tmp_path / "data")
    described = dataclasses.replace(data.description, classes=names)
    image = codecs.encode_png(np.zeros((24, 32, 3), np.uint8))
    objects = Object(0, 6, 4, 20, 9, mask=MASK), Object(0, 4, 6, 9, 20, mask=codecs.encode_mask(PIXELS[::-1].copy()))
    kind, record = InstancesKind(), recorded(DetectionRecord(image, objects, "x", "png", 24, 32), "s#1")
    drawn, colors = kind.draw(record, described), drawing.palette(drawing.OBJECTS)

    assert np.array_equal(drawn[60, 100], colors[0] // 2)
    assert np.array_equal(drawn[170, 100], colors[hue] // 2)
    assert kind.legend_of(described) == (() if hue else names)


def test_pixels_above_zero_are_the_objects():
    """TensorFlow's writers of the Object Detection API use 1, others 255."""
    for value in (1, 255):
        pixels = decode_object(Object(0, 6, 4, 20, 9, mask=codecs.encode_mask(PIXELS * value)), (24, 32), "")
        assert np.array_equal(pixels, PIXELS > 0)
