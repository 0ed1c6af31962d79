from __future__ import annotations

import dataclasses

import cv2
import numpy as np
import pytest
from support import miniatures
from support.recorded import recorded
from support.samples import PNG, filled
from support.training import recipe

from penstock.datasets import inspect, pack
from penstock.errors import LabelError
from penstock.images import fetch_image, geometry, probe
from penstock.images.color import Jitter
from penstock.kinds.fields import DetectionRecord, encode_detection
from penstock.seeds import generator
from penstock.settings import Augment
from penstock.settings.views import ScaleCrop
from penstock.tasks import Detection
from penstock.tasks.detection import PrepareDetection
from penstock.values import Object, Record


class TestBoxes:
    objects = (
        Object(1, 2, 3, 20, 23),
        Object(0, 30, 5, 40, 15, crowd=True),
        Object(1, 5.5, 1, 6, 29, difficult=True),
    )
    record = recorded(DetectionRecord(PNG, objects, "x", "png", 30, 40), "s#4")
    jitter = Jitter(0.3, 0.3, 0.3, 0.1)

    def test_of_training_move_with_the_image(self):
        """Its view and colours are drawn in that order; around it there is the fill."""
        augment = Augment((48, 48), ScaleCrop(scale=(0.5, 1.5)), jitter=self.jitter, min_visibility=0.3)
        prepare = PrepareDetection(2, 4, (10, 20, 30), augment)
        there = crowded = 0
        for position in range(12):
            out = filled(prepare, self.record, generator(1, "augment", position))
            drawn = generator(1, "augment", position)
            view = augment.draw((30, 40), drawn)
            expected = np.empty((48, 48, 3), np.uint8)
            colors = self.jitter.draw(drawn)
            fetch_image(PNG, "", probe(PNG, ""), view.affine, (10, 20, 30), expected, colors)

            np.testing.assert_array_equal(out["image"], expected)
            assert out["scale"] == pytest.approx(1 / min(abs(view.affine.xx), view.affine.yy))
            assert out["size"].tolist() == [48, 48]
            boxes, labels, crowds = self.moved(view, 0.3)
            count = len(labels)
            np.testing.assert_allclose(out["boxes"][:count], np.array(boxes).reshape(-1, 4), atol=1e-4)
            assert not out["boxes"][count:].any()
            assert out["label"].tolist() == labels + [-1] * (4 - count)
            assert out["crowd"].tolist() == crowds + [0] * (4 - count)
            there, crowded = there + count, crowded + sum(crowds)
        assert 12 <= there < 36
        assert crowded

    def moved(self, view, kept):
        """Boxes, labels and crowds of those of which enough is inside, box by box."""
        found = []
        for each in self.objects:
            (left, top), (right, bottom) = (
                view.affine.inverse().point(x, y) for x, y in ((each.left, each.top), (each.right, each.bottom))
            )
            left, right = sorted((left, right))
            inside = max(0, left), max(0, top), min(48, right), min(48, bottom)
            sides = inside[2] - inside[0], inside[3] - inside[1]
            if min(sides) >= 1 and sides[0] * sides[1] >= kept * (right - left) * (bottom - top):
                found.append((inside, each.label, int(each.crowd or each.difficult)))
        return [each[0] for each in found], [each[1] for each in found], [each[2] for each in found]

    def test_of_an_evaluation_are_all_there(self):
        """Those that are smaller than a pixel too; colours stay as they are."""
        augment = Augment((48, 48), resize_range=(60, 90), jitter=self.jitter)
        prepare = PrepareDetection(2, 4, (10, 20, 30), augment, (64, 96))
        out = filled(prepare, self.record, generator(1, "augment", 0))
        image = np.full((64, 96, 3), (10, 20, 30), np.uint8)
        fetch_image(PNG, "", probe(PNG, ""), geometry.Affine(xx=0.5, yy=0.5), (0, 0, 0), image[:60, :80])

        assert np.abs(out["image"].astype(int) - image).max() <= 1
        assert out["boxes"].tolist() == [[4, 6, 40, 46], [60, 10, 80, 30], [11, 2, 12, 58], [0, 0, 0, 0]]
        assert out["label"].tolist() == [1, 0, 1, -1]
        assert out["crowd"].tolist() == [0, 1, 1, 0]
        assert out["size"].tolist() == [60, 80]
        assert out["scale"] == 2.0
        small = PrepareDetection(2, 4, (0, 0, 0), Augment((48, 48), resize_range=(6, 8)), (6, 8))
        assert filled(small, self.record)["label"].tolist() == [1, 0, 1, -1]

    def test_of_a_replay_without_draws_fill_the_crop(self):
        out = filled(PrepareDetection(2, 4, (0, 0, 0), Augment((60, 80))), self.record)
        assert out["boxes"][0].tolist() == [4, 6, 40, 46]
        assert out["size"].tolist() == [60, 80]

    def test_more_than_the_dataset_says(self):
        with pytest.raises(LabelError) as caught:
            filled(PrepareDetection(2, 2, (0, 0, 0), Augment((8, 8))), self.record)
        assert str(caught.value) == (
            "s#4: expected at most 2 boxes, as the dataset's description says, found 3. Pack or publish the data again; "
            "who sends records says how many with About(objects=...)."
        )

    def test_a_image_that_is_larger_than_the_canvas(self):
        with pytest.raises(LabelError) as caught:
            filled(PrepareDetection(2, 4, (0, 0, 0), Augment((8, 8)), (30, 39)), self.record)
        assert str(caught.value) == (
            "s#4: expected an image of at most 30 x 39 (height x width), found one of 30 x 40. Pack the dataset again: "
            "its dataset.json states a smaller largest size."
        )


def test_detectors_see_images_of_any_size_in_a_canvas_that_fits_them():
    task = Detection("ssd:test_resnet", ("a",), 3, Augment((64, 64)))
    assert task.for_images(100, 200).canvas == (128, 224)
    fitted = dataclasses.replace(task, augment=Augment((64, 64), resize_range=(100, 150)))
    assert fitted.for_images(1000, 2000).canvas == (160, 160)


@pytest.mark.parametrize(("kept", "side", "count"), [(None, 19, 1), (None, 21, 0), (0.2, 21, 1), (0.3, 19, 0)])
def test_a_quarter_of_a_box_must_be_left_unless_said_otherwise(tmp_path, kept, side, count):
    """The stated rule: of a box of 19 pixels 28 % are in the crop, of one of 21 pixels 23 %."""
    miniatures.write(tmp_path / "raw/a.png", cv2.imencode(".png", np.zeros((100, 100, 3), np.uint8))[1].tobytes())
    miniatures.write(tmp_path / "raw/boxes.csv", f"file,class,x1,y1,x2,y2\na.png,cat,40,40,{40 + side},{40 + side}\n")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    augment = dataclasses.replace(
        recipe("x").augment, crop=(50, 50), **({} if kept is None else {"min_visibility": kept})
    )
    prepare = Detection("ssd:test_resnet", ("cat",), 4, augment).prepare(train=True)
    view = geometry.whole((100, 100), (50, 50))
    (record,) = dataset.source("train").read("train-00000-of-00001.tfrecord", 0, 1)
    out = {name: np.zeros(field.shape, field.dtype) for name, field in prepare.fields.items()}
    object.__setattr__(prepare, "_view", lambda *_: view)
    prepare(record, None, out)

    assert int((out["label"] >= 0).sum()) == count


def test_boxes_that_a_distortion_makes_smaller_than_a_pixel_are_left_out(monkeypatch):
    class Shrinks:
        def image(self, pixels, fill):
            pass

        def boxes(self, edges):
            middles = (edges[:, :2] + edges[:, 2:]) / 2
            half = np.where(edges[:, :1] < 20, 0.2, 4.0)
            return np.concatenate([middles - half, middles + half], axis=1)

    monkeypatch.setattr(Augment, "distortion", lambda *_: Shrinks())
    objects = tuple(Object(0, left, 8, left + 8, 16) for left in (4, 24))
    made = DetectionRecord(miniatures.make_image((32, 40)), objects, "x.jpg", "jpeg", 32, 40)
    record = Record("x#0", encode_detection(made))
    prepare = PrepareDetection(1, 4, (0, 0, 0), Augment((32, 40), ScaleCrop(scale=(1.0, 1.0)), flip=0.0))
    out = {name: np.zeros(field.shape, field.dtype) for name, field in prepare.fields.items()}
    prepare(record, generator(1, "augment", 0), out)

    assert (out["boxes"][:, 2] > out["boxes"][:, 0]).sum() == 1


def test_a_quarter_of_a_mosaic_holds_a_quarter_of_the_boxes():
    """A record with more than these is named, as it would be alone."""
    record = recorded(DetectionRecord(PNG, (Object(1, 2, 3, 20, 23),) * 3, "x", "png", 30, 40), "s#4")
    prepare = PrepareDetection(2, 8, (0, 0, 0), Augment((64, 64), ScaleCrop(), mosaic=1.0))
    out = {name: np.empty(each.shape, each.dtype) for name, each in prepare.fields.items()}
    with pytest.raises(LabelError, match=r"s#4: .* 2 boxes"):
        prepare.compose([record] * 4, generator(1, "augment", 0), out)
