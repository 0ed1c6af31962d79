"""What tasks prepare, weigh and score, against the same worked out by hand."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from recorded import recorded

from penstock.errors import ImageError, LabelError, RecipeError
from penstock.feed import Feed
from penstock.images import drawing, fetch_image, geometry, probe
from penstock.images.codecs import encode_mask, encode_png
from penstock.images.color import Jitter
from penstock.losses import CrossEntropy, Focal, Lovasz, Tversky
from penstock.order import Plan
from penstock.records import SegmentationRecord
from penstock.records.schema import ClassificationRecord, DetectionRecord, Object, encode_classification
from penstock.report import page, samples_sheet
from penstock.seeds import generator
from penstock.sources.kafka import FakeLog, KafkaSource
from penstock.tasks import Augment, Classification, Detection, Matting, Objective, Regularize, Segmentation, Volumes
from penstock.tasks.classification import NOTHING
from penstock.tasks.detection import PrepareDetection
from penstock.tasks.masks import PrepareSegmentation
from penstock.tasks.objective import weights_of

NOISE = np.random.default_rng(2)
IMAGE = NOISE.integers(0, 256, (30, 40, 3), np.uint8)
PNG = encode_png(IMAGE)


def filled(prepare, record, drawn=None, before=77):
    """A sample, whose memory held something else before."""
    out = {name: np.full(field.shape, before, field.dtype) for name, field in prepare.fields.items()}
    prepare(record, drawn, out)
    return out


class TestBoxes:
    objects = (
        Object(1, 2, 3, 20, 23),
        Object(0, 30, 5, 40, 15, crowd=True),
        Object(1, 5.5, 1, 6, 29, difficult=True),
    )
    record = recorded(DetectionRecord(PNG, objects, "x", "png", 30, 40), "s#4")
    jitter = Jitter(0.3, 0.3, 0.3, 0.1)

    def test_of_training_move_with_the_picture(self):
        """Its view and colours are drawn in that order; around it there is the fill."""
        augment = Augment((48, 48), scale=(0.5, 1.5), jitter=self.jitter, min_visibility=0.3)
        prepare = PrepareDetection(2, 4, (10, 20, 30), augment)
        there = crowded = 0
        for position in range(12):
            out = filled(prepare, self.record, generator(1, "augment", position))
            drawn = generator(1, "augment", position)
            view = augment.view((30, 40), drawn)
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

    def test_a_picture_that_is_larger_than_the_canvas(self):
        with pytest.raises(LabelError) as caught:
            filled(PrepareDetection(2, 4, (0, 0, 0), Augment((8, 8)), (30, 39)), self.record)
        assert str(caught.value) == (
            "s#4: expected an image of at most 30 x 39 (height x width), found one of 30 x 40. Pack the dataset again: "
            "its dataset.json states a smaller largest size."
        )


class TestMasks:
    def test_a_picture_that_is_larger_than_the_canvas(self):
        record = recorded(SegmentationRecord(PNG, encode_mask(IMAGE[..., 0]), "x", "png", 30, 40), "s#4")
        with pytest.raises(LabelError) as caught:
            filled(PrepareSegmentation(256, 255, (0, 0, 0), canvas=(29, 40)), record)
        assert str(caught.value) == (
            "s#4: expected an image of at most 29 x 40 (height x width), found one of 30 x 40. Pack the dataset again: "
            "its dataset.json states a smaller largest size."
        )


class TestClasses:
    def test_a_damaged_picture_is_named(self):
        record = recorded(ClassificationRecord(PNG[:-30], 0, "x", "png", 30, 40), "s#4")
        task = Classification("test_resnet", ("a", "b"), Augment((8, 8)))
        with pytest.raises(ImageError, match=r"^s#4: "):
            filled(task.prepare(train=False), record)

    @pytest.mark.parametrize("regularized", [Regularize(mixup=0.5), Regularize(random_erasing=0.5), Regularize()])
    def test_what_a_loss_is_divided_by(self, regularized):
        """Images by the weights of their classes; of mixed ones, of the classes that are mixed in them."""
        task = Classification("test_resnet", ("a", "b"), Augment((8, 8)), regularized, class_weights=(1.0, 10.0))
        tensors = {"label": torch.tensor([0, 1, 1, -1]), "image": torch.zeros(4, 8, 8, 3)}
        draws = torch.tensor(np.stack([NOTHING] * 4))
        draws[0, 0] = 0.25  # a quarter of the first, the rest of the second

        assert task.count(tensors).tolist() == [1 + 10 + 10]
        mixed = 0.25 * 1 + 0.75 * 10 + 10 + 10
        expected = mixed if regularized.mixes else 21
        assert task.count(tensors | {"draws": draws}).tolist() == [pytest.approx(expected)]


class TestObjective:
    def test_its_losses(self):
        one = Objective(
            1.0, 2.0, 3.0, 4.0, 5.0, 6.0, focal_gamma=1.5, tversky_alpha=0.2, tversky_beta=0.9, label_smoothing=0.1
        )
        assert one.mixture((1.0, 3.0)).terms == [
            (1.0, CrossEntropy((1.0, 3.0), 0.1)),
            (2.0, Focal(1.5)),
            (3.0, Tversky(0.5, 0.5)),  # Dice
            (4.0, Tversky(1.0, 1.0)),  # Jaccard
            (5.0, Tversky(0.2, 0.9)),
            (6.0, Lovasz()),
        ]
        assert Objective(0.0, dice=1.0).mixture().terms == [(1.0, Tversky())]

    @pytest.mark.parametrize(("step", "hardest"), [(0, 1.0), (5, 0.6), (10, 0.2), (15, 0.2), (None, 0.2)])
    def test_mining_begins_slowly(self, step, hardest):
        slow = Objective(ohem_ratio=0.2, ohem_warmup_steps=10, ohem_threshold=0.3)
        ((_, term),) = slow.mixture((), step).terms
        assert (term.ohem_ratio, term.ohem_threshold) == (pytest.approx(hardest), 0.3)

    @pytest.mark.parametrize(
        ("chosen", "pixels", "message"),
        [
            (
                (1.0,), (3, 4),
                "expected 2 numbers, one for each of a, b, found 1. Write as many, in the order of the ids.",
            ),
            (
                (1.0, -1.0), (3, 4),
                "expected numbers from 0 on, at least one of them above it, found 1, -1. Write other weights.",
            ),
            (
                (0.0, 0.0), (3, 4),
                "expected numbers from 0 on, at least one of them above it, found 0, 0. Write other weights.",
            ),
            (
                "inverse", (0, 0),
                "expected a dataset whose description counts the pixels of every class, found one that does not: a "
                "topic, or classes that never occur. Pull the topic to shards with penstock pull, or write the numbers: "
                "loss.class_weights=[1.0, 2.5].",
            ),
            (
                "median", (3, 4),
                "expected a dataset whose description counts the pixels of the images that each class occurs in, found "
                "one that does not: classes of whole images, or packed by an earlier version. Take "
                "loss.class_weights=inverse, or pack masks again.",
            ),
        ],
    )  # fmt: skip
    def test_class_weights_that_cannot_be(self, chosen, pixels, message):
        with pytest.raises(RecipeError) as caught:
            weights_of(Objective(class_weights=chosen), ("a", "b"), pixels)
        assert str(caught.value) == f"loss.class_weights: {message}"

    def test_class_weights_that_are_written_are_taken(self):
        assert weights_of(Objective(class_weights=(0.0, 3.0)), ("a", "b"), ()) == (0.0, 3.0)
        assert weights_of(Objective(), ("a", "b"), (0, 0)) == ()


class Others:
    """Ranks of which the others have counted what was counted before."""

    def __init__(self, sums, texts):
        self.sums, self.texts = list(sums), texts

    def sum(self, tensor):
        return tensor.add_(self.sums.pop(0))

    def gather(self, texts):
        return [*self.texts, *texts]


class Noted:
    """What a scorer gives to other ranks."""

    def __init__(self):
        self.sums, self.texts = [], []

    def sum(self, tensor):
        self.sums.append(tensor.clone())
        return tensor

    def gather(self, texts):
        self.texts = list(texts)
        return self.texts


def dense(*size):
    """Logits and labels of masks, in halves."""
    mask = torch.from_numpy(NOISE.integers(0, 3, (4, *size), np.uint8))
    return torch.from_numpy(NOISE.random((4, 3, *size), np.float32)), mask


def found(number):
    """Boxes that are found, in a sample that is enlarged by 2."""
    edges = torch.tensor([(4.0, 6.0, 40.0, 46.0), (60.0, 10.0, 80.0, 30.0)])
    shift = torch.tensor([number, 0.0, number, 0.0])
    return {"boxes": edges + shift, "labels": torch.tensor([1, 0]), "scores": torch.tensor([0.9, 0.5])}


def cases():
    """Of every kind of task: it, what a network gives, and the labels."""
    classes = ("a", "b", "c")
    logits, mask = dense(16, 16)
    size = torch.full((4, 2), 16)
    yield Segmentation("unet:test_resnet", classes), logits, {"mask": mask}
    yield Segmentation("unet:test_resnet", classes, segments=True), logits, {"mask": mask, "size": size}
    shares = torch.from_numpy(NOISE.integers(-1, 256, (4, 8, 8))).short()
    yield Matting("unet:test_resnet", classes[:2]), dense(8, 8)[0][:, :2], {"mask": shares}
    deep, voxels = dense(2, 8, 8)
    yield Volumes("unet3d", classes), deep, {"mask": voxels}
    answers = torch.from_numpy(NOISE.random((4, 3), np.float32))
    yield Classification("test_resnet", classes, Augment((8, 8))), answers, {"label": torch.tensor([0, 1, 2, 1])}
    true = torch.tensor([[(4.0, 6.0, 40.0, 46.0), (60.0, 10.0, 80.0, 30.0), (0, 0, 0, 0)]]).expand(4, -1, -1)
    label, crowd = torch.tensor([[1, 0, -1]] * 4), torch.zeros(4, 3, dtype=torch.uint8)
    boxes = {"boxes": true, "label": label, "crowd": crowd, "scale": torch.full((4,), 2.0)}
    yield Detection("ssd:test_resnet", classes[:2], 3), [found(n) for n in range(4)], boxes


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: f"{type(case[0]).__name__}-{len(case[2])}")
def test_ranks_score_together_what_one_scores_alone(case):
    task, outputs, tensors = case
    origins = [f"s#{number}" for number in range(4)]

    def counted(start, stop, scorer):
        part = {name: tensor[start:stop] for name, tensor in tensors.items()}
        scorer.update(outputs[start:stop], part, origins[start:stop])
        return scorer

    alone, noted = counted(0, 4, task.scorer()), Noted()
    alone.gather(Noted())
    counted(0, 2, task.scorer()).gather(noted)
    second = counted(2, 4, task.scorer())
    second.gather(Others(noted.sums, noted.texts))

    assert json.dumps(second.scores().as_json()) == json.dumps(alone.scores().as_json())
    assert noted.sums or noted.texts
    values = alone.scores().summary()
    assert 0.0 < values[task.main_score] < 1.0


def test_boxes_are_scored_in_pixels_of_the_picture():
    """What the network sees is enlarged by 2; without an origin a sample is padding."""
    task, outputs, tensors = list(cases())[-1]
    scorer = task.scorer()
    scorer.update(outputs, tensors, ["p#0", "", "p#2", ""])

    assert scorer.boxes.pictures == ["p#0", "p#2"]
    assert [(each.picture, each.label, each.box, each.score) for each in scorer.boxes.true[:2]] == [
        ("p#0", 1, (2.0, 3.0, 18.0, 20.0), 0.0),
        ("p#0", 0, (30.0, 5.0, 10.0, 10.0), 0.0),
    ]
    assert [each.box for each in scorer.boxes.found[2:]] == [(3.0, 3.0, 18.0, 20.0), (31.0, 5.0, 10.0, 10.0)]
    assert [each.score for each in scorer.boxes.found] == pytest.approx([0.9, 0.5] * 2)
    assert len(scorer.boxes.true) == len(scorer.boxes.found) == 4


def test_detectors_see_pictures_of_any_size_in_a_canvas_that_fits_them():
    task = Detection("ssd:test_resnet", ("a",), 3, Augment((64, 64)))
    assert task.for_images(100, 200).canvas == (128, 224)
    fitted = dataclasses.replace(task, augment=Augment((64, 64), resize_range=(100, 150)))
    assert fitted.for_images(1000, 2000).canvas == (160, 160)


def test_a_sheet_shows_what_is_learnt_beside_a_hole(monkeypatch):
    """Who was to be mixed with it is not; the hole itself has no class."""
    log = FakeLog("t")
    image = np.full((8, 8, 3), 200, np.uint8)
    log.append(encode_classification(ClassificationRecord(encode_png(image), 1, "x", "png", 8, 8)))
    log.append(None)
    source = KafkaSource(log)
    task = Classification("test_resnet", ("a", "b"), Augment((8, 8), "pad-crop", flip=0.0), Regularize(mixup=1.0))
    feed = Feed(Plan(source.snapshot(), 1), source, task.prepare(train=True), batch=2)
    drawn = []
    monkeypatch.setattr(
        Classification, "draw", lambda self, arrays, *_: drawn.append(arrays) or np.zeros((8, 8, 3), np.uint8)
    )
    _, records = samples_sheet(task, feed, [0, 1])

    assert records == ["x (t/0#0)", "no record (t/0#1)"]
    assert (drawn[0]["image"] == 200).all()
    assert [arrays["target"].tolist() for arrays in drawn] == [[0.0, 1.0], [0.0, 0.0]]
    monkeypatch.undo()
    arrays = {"image": image, "label": np.array(-1)}
    np.testing.assert_array_equal(task.draw(arrays), drawing.caption(drawing.fit(image, 192), ""))


def test_a_report_names_the_newest_of_equal_scores_as_the_session_marks_it():
    lines = [
        {"step": step, "evaluation": {"mean_iou": value}} for step, value in ((1, 0.2), (2, 0.5), (3, 0.5), (4, 0.4))
    ]
    assert page._best(lines)["mean_iou"]["step"] == 3
    assert page._reached(lines, page._best(lines))["best mean IoU"] == "50.00% at step 3"
