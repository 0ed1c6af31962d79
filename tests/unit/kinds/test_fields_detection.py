from __future__ import annotations

import itertools

import pytest
from support import miniatures
from support.datasets import learn_squares

from penstock.assembly import open_experiment
from penstock.datasets import inspect, pack, verify
from penstock.errors import LabelError
from penstock.kinds.fields import (
    ClassificationRecord,
    DetectionRecord,
    decode_detection,
    encode_classification,
    encode_detection,
)
from penstock.values import Object, Record


class TestRecords:
    def test_keys_are_the_object_detection_apis(self):
        record = DetectionRecord(b"x", (Object(1, 8, 4, 18, 16, "fig", True),), "a", "jpeg", 24, 32)
        found = decode_detection(Record("s#0", encode_detection(record)))
        (box,) = found.objects

        assert (box.label, box.text, box.crowd, box.difficult) == (1, "fig", True, False)
        assert [box.left, box.top, box.right, box.bottom] == pytest.approx([8, 4, 18, 16], abs=1e-5)
        tensorflow = encode_detection(record)
        for key in (
            b"image/object/bbox/xmin",
            b"image/object/class/label",
            b"image/object/is_crowd",
            b"image/source_id",
        ):
            assert key in tensorflow

    def test_another_task_is_named(self):
        record = Record("s#0", encode_classification(ClassificationRecord(b"x", 1, "a", "jpeg", 0, 0)))
        with pytest.raises(Exception, match=r"s#0: expected a size, and for every object four edges .* found 0 x 0"):
            decode_detection(record)

    def test_a_box_outside_is_named_by_training_and_by_verify(self, squares, tmp_path):
        record = DetectionRecord(miniatures.make_image(), (Object(0, 8, 4, 40, 16),), "a", "jpeg", 24, 32)
        prepare = open_experiment(learn_squares(squares)).task.prepare(train=False)
        with pytest.raises(LabelError) as caught:
            prepare(Record("s#0", encode_detection(record)), None, {})

        assert str(caught.value) == (
            "s#0: expected boxes inside 24 x 32 (height x width), of classes from 0 to 1, found box 1 of class 0: 8, 4 to "
            "40, 16. Pack the data again."
        )
        assert verify(squares).faults == ()

    def test_crowds_are_not_learnt_and_not_counted(self, tmp_path):
        miniatures.coco(tmp_path / "raw")
        dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
        parts = open_experiment(learn_squares(dataset))
        task, feed = parts.evaluation("train")
        (batch,) = itertools.islice(feed.walk(), 1)
        crowd = batch.tensors["crowd"].sum(dim=1).argmax()

        assert (task.inputs(batch.tensors)["label"][crowd] == -1).all()
        assert batch.tensors["label"][crowd].max() == 0
