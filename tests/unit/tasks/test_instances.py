"""Samples of objects with their pixels, their metric and what is drawn of them."""

from __future__ import annotations

import dataclasses

import cv2
import numpy as np
import torch
from support.recorded import recorded
from support.samples import filled

from penstock.images import codecs, drawing
from penstock.kinds.fields import DetectionRecord
from penstock.seeds import generator
from penstock.settings import Augment
from penstock.settings.views import ScaleCrop
from penstock.tasks import Instances, ReadyModel
from penstock.tasks.instances import PrepareInstances
from penstock.tasks.predictions import InstancePrediction, Style
from penstock.values import Object

TASK = Instances("maskrcnn:test_resnet", ("cat", "dog"), 3)
SIZE = (30, 40)


def disk(y, x, radius):
    rows, columns = np.mgrid[: SIZE[0], : SIZE[1]]
    return (np.hypot(rows - y, columns - x) < radius).astype(np.uint8)


def around(pixels):
    y, x = np.nonzero(pixels)
    return x.min(), y.min(), x.max() + 1, y.max() + 1


DISKS = (disk(12, 12, 8), disk(16, 26, 6), disk(14, 14, 4))
LABELS = (1, 0, 1)


def disks(image=None):
    """A record of three disks; two overlap, and the last is a crowd."""
    if image is None:
        image = np.stack([100 * DISKS[0], 80 * DISKS[1], 60 * DISKS[2]], axis=2)
    objects = tuple(
        Object(label, *map(float, around(pixels)), crowd=number == 2, mask=codecs.encode_mask(pixels))
        for number, (label, pixels) in enumerate(zip(LABELS, DISKS, strict=True))
    )
    return recorded(DetectionRecord(codecs.encode_png(image), objects, "x", "png", *SIZE), "s#4")


def masks_of(out, width):
    return np.unpackbits(out["masks"], axis=2)[:, :, :width]


class TestSamples:
    def test_of_training_show_the_pixels_where_the_image_has_them(self):
        """Each disk has a channel of the image to itself, so the image tells where its pixels are."""
        augment = Augment((32, 44), ScaleCrop(scale=(0.7, 1.6), scale_step=0.0))
        prepare = PrepareInstances(2, 3, (0, 0, 0), augment)
        seen = 0
        for position in range(20):
            out = filled(prepare, disks(), generator(1, "augment", position))
            masks, number = masks_of(out, 44), int((out["label"] >= 0).sum())
            for mask, box in zip(masks[:number], out["boxes"][:number], strict=True):
                # An edge of the image is a mix of two pixels, of which the mask has the nearer one.
                core = cv2.erode(mask, np.ones((3, 3), np.uint8), borderValue=1)
                wide = cv2.dilate(mask, np.ones((3, 3), np.uint8))
                channel = next(c for c in (2, 1, 0) if out["image"][..., c][core > 0].min(initial=255) >= 40)
                assert not out["image"][..., channel][wide == 0].any()
                assert box.tolist() == list(around(mask))
                seen += 1
            assert not masks[number:].any()
            assert not out["boxes"][number:].any()
            assert out["label"][number:].tolist() == [-1] * (3 - number)
        assert 40 <= seen <= 60

    def test_an_object_without_a_pixel_in_the_crop_is_left_out(self):
        record = disks()
        prepare = PrepareInstances(2, 3, (0, 0, 0), Augment((8, 8), ScaleCrop(scale=(1.0, 1.0)), flip=False))
        counts = set()
        for position in range(30):
            out = filled(prepare, record, generator(2, "augment", position))
            there = out["label"] >= 0
            assert (masks_of(out, 8)[there].sum(axis=(1, 2)) > 0).all()
            counts.add(int(there.sum()))
        assert len(counts) > 1

    def test_of_an_evaluation_are_whole(self):
        prepare = PrepareInstances(2, 3, (7, 7, 7), Augment((8, 8)), (32, 48))
        out = filled(prepare, disks())
        masks = masks_of(out, 48)

        assert out["label"].tolist() == list(LABELS)
        assert out["crowd"].tolist() == [0, 0, 1]
        for mask, pixels, box in zip(masks, DISKS, out["boxes"], strict=True):
            assert np.array_equal(mask[:30, :40], pixels)
            assert not mask[30:].any()
            assert not mask[:, 40:].any()
            assert box.tolist() == list(around(pixels))

    def test_an_object_too_small_for_a_pixel_is_still_scored(self):
        point = np.zeros(SIZE, np.uint8)
        point[11, 21] = 1
        objects = (Object(1, 21, 11, 22, 12, mask=codecs.encode_mask(point)),)
        image = codecs.encode_png(np.zeros((*SIZE, 3), np.uint8))
        record = recorded(DetectionRecord(image, objects, "x", "png", *SIZE), "s#4")
        prepare = PrepareInstances(2, 3, (0, 0, 0), Augment((8, 8), resize_range=(3, 4)), (3, 4))
        out = filled(prepare, record)

        assert out["label"].tolist() == [1, -1, -1]
        assert out["boxes"][0].tolist() == [np.float32(2.1), np.float32(1.1), np.float32(2.2), np.float32(1.2)]
        assert not out["masks"].any()


def batch():
    prepare = PrepareInstances(2, 3, (0, 0, 0), Augment((8, 8)), (32, 48))
    sample = filled(prepare, disks())
    return {name: torch.from_numpy(array).unsqueeze(0) for name, array in sample.items()}


def outputs(*masks, labels=LABELS[:2], scores=(0.9, 0.8)):
    boxes = torch.tensor(np.array([around(mask) for mask in masks], np.float32))
    pixels = torch.from_numpy(np.stack(masks) > 0)
    return [{"boxes": boxes, "labels": torch.tensor(labels), "scores": torch.tensor(scores), "masks": pixels}]


class TestMetric:
    def scores(self, found):
        metric = TASK.metric()
        metric.update(found, batch(), ["s#4"])
        metric.update(found, batch(), [""])  # padding
        return metric.scores()

    def test_the_same_pixels_are_a_hit(self):
        scores = self.scores(outputs(*DISKS[:2]))
        assert scores.summary() == {"map": 1.0, "map50": 1.0, "box_map": 1.0}
        assert scores.masks.true == (1, 1)  # the crowd does not count
        assert scores.as_json()["boxes"]["map"] == 1.0

    def test_other_pixels_in_the_same_box_are_a_hit_of_the_box_alone(self):
        rings = [pixels.copy() for pixels in DISKS[:2]]
        for ring, (y, x, radius) in zip(rings, ((12, 12, 6), (16, 26, 5)), strict=True):
            ring[disk(y, x, radius) > 0] = 0
        scores = self.scores(outputs(*rings))
        assert scores.summary() == {"map": 0.0, "map50": 0.0, "box_map": 1.0}

    def test_an_overlap_counts_up_to_its_intersection_over_union(self):
        """Of the thresholds 0.50, 0.55, ... 0.95, those that the intersection over union reaches."""
        smaller = disk(12, 12, 6.9)
        iou = smaller.sum() / DISKS[0].sum()
        reached = sum(iou >= threshold for threshold in np.arange(0.5, 0.96, 0.05).round(2))
        scores = self.scores(outputs(smaller, DISKS[1]))
        assert 0 < reached < 10
        assert scores.masks.every[1] == reached / 10
        assert scores.masks.every[0] == 1.0

    def test_ranks_are_put_together(self):
        class Two:
            def __init__(self, other):
                self.other = other

            def gather(self, texts):
                return [*texts, *self.other]

        texts = []
        first, second = TASK.metric(), TASK.metric()
        first.update(outputs(*DISKS[:2]), batch(), ["s#4"])
        second.update(outputs(DISKS[1], DISKS[0]), batch(), ["s#5"])  # classes exchanged
        second.boxes.gather(lambda own: texts.extend(own) or own)
        first.gather(Two(texts))
        assert first.scores().masks.true == (2, 2)
        assert 0 < first.scores().summary()["map"] < 1


class TestLearning:
    def test_training_learns_no_crowd_and_gives_five_losses(self):
        torch.manual_seed(0)
        model = TASK.model().train()
        inputs = TASK.inputs(batch())
        losses = model(inputs)

        assert inputs["label"].tolist() == [[1, 0, -1]]
        assert losses.shape == (5,)
        assert torch.isfinite(losses).all()

    def test_masks_of_predictions_are_as_large_as_the_image(self):
        torch.manual_seed(0)
        model = TASK.model().eval()
        pixels = np.random.default_rng(0).integers(0, 255, (50, 70, 3), np.uint8)
        for augment in (Augment((32, 32)), Augment((32, 32), resize_range=(25, 35))):
            task = Instances(TASK.name, TASK.classes, 3, augment)
            found = task.predictor.predict(ReadyModel(model), pixels)
            assert found.masks.shape == (len(found.boxes), 50, 70)
            assert found.masks.dtype == bool
            assert len(found.boxes) > 0
            assert found.boxes[:, 2].max() > 35


class TestPredictions:
    image = np.full((*SIZE, 3), 200, np.uint8)
    masks = np.stack([DISKS[0], DISKS[2], DISKS[1]]) > 0
    boxes = np.array([around(mask) for mask in masks], np.float32)
    found = InstancePrediction(
        image, boxes, np.array([0.9, 0.8, 0.2], np.float32), np.array([1, 0, 0]), TASK.classes, masks
    )

    def test_numbers_are_those_of_the_table_and_better_ones_lie_on_top(self):
        numbers = codecs.decode_mask(self.found.files()[""], "")
        expected = np.zeros(SIZE, np.uint8)
        expected[DISKS[2] > 0] = 2
        expected[DISKS[0] > 0] = 1
        assert np.array_equal(numbers, expected)
        assert [row[:2] + row[-1:] for row in self.found.rows()] == [
            ["dog", "0.900000", "1"], ["cat", "0.800000", "2"], ["cat", "0.200000", "3"],
        ]  # fmt: skip
        assert 3 in codecs.decode_mask(self.found.files(Style(score=0.1))[""], "")
        assert (self.found.drawn(), self.found.drawn(Style(score=0.1))) == (2, 3)

    def test_drawn_in_the_colours_of_their_classes(self):
        drawn, colors = self.found.draw(), drawing.palette(drawing.OBJECTS)
        scale = drawn.shape[0] // SIZE[0]
        assert np.array_equal(drawn[17 * scale, 8 * scale], (200 + colors[1].astype(int)) // 2)
        assert np.array_equal(drawn[16 * scale, 26 * scale], [200] * 3)  # its score is too low
        assert list(self.found.files()) == ["", "-instances"]

    def test_objects_of_a_single_class_are_drawn_apart_without_a_legend(self):
        alone, several = (dataclasses.replace(self.found, classes=names) for names in (("cell",), ("cell", "b", "c")))
        one = dataclasses.replace(alone, labels=np.zeros_like(self.found.labels))
        place = 17 * (one.draw().shape[0] // SIZE[0]), 8 * (one.draw().shape[0] // SIZE[0])
        colors = drawing.palette(drawing.OBJECTS).astype(int)
        assert np.array_equal(one.draw()[place], (200 + colors[1]) // 2)  # drawn second, as the better one
        same = dataclasses.replace(several, labels=one.labels)
        assert np.array_equal(same.draw()[place], (200 + colors[0]) // 2)
        cells = Instances(TASK.name, ("cell",), 3)
        assert (cells.drawing.legend, TASK.drawing.legend) == ((), TASK.classes)
        arrays = {name: tensor[0].numpy() for name, tensor in batch().items()}
        arrays["label"] = np.where(arrays["label"] > 0, 0, arrays["label"])
        image = np.ascontiguousarray(arrays["image"][:30, :40])
        true = drawing.instances(image, [pixels > 0 for pixels in DISKS], [0] * len(DISKS), classes=1)
        assert np.array_equal(cells.drawing.draw(arrays), true)

    def test_the_drawing_of_a_sample_shows_truth_and_prediction(self):
        arrays = {name: tensor[0].numpy() for name, tensor in batch().items()}
        image = np.ascontiguousarray(arrays["image"][:30, :40])
        true = drawing.instances(image, [pixels > 0 for pixels in DISKS], LABELS, classes=2)
        assert np.array_equal(TASK.drawing.draw(arrays), true)
        both = TASK.drawing.draw(arrays, outputs(*DISKS[:2])[0])
        words = ["cat 80%", "dog 90%"]
        predicted = drawing.instances(image, [DISKS[1] > 0, DISKS[0] > 0], [0, 1], words, classes=2)
        assert np.array_equal(both, np.hstack([true, predicted]))
