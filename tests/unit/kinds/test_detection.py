from __future__ import annotations

import pytest

from penstock.errors import LabelError
from penstock.kinds import labels
from penstock.kinds.fields import DetectionRecord
from penstock.values import Object


class TestObjects:
    def record(self, *boxes):
        objects = tuple(Object(label, *edges) for *edges, label in boxes)
        return DetectionRecord(image=b"", objects=objects, name="n", height=40, width=60, format="jpeg")

    @pytest.mark.parametrize("box", [(0, 0, 60, 40, 0), (-0.0005, -0.0005, 60.0005, 40.0005, 1), (3, 4, 5, 6, 1)])
    def test_those_inside_are_taken(self, box):
        labels.check_objects(self.record(box), 2, (40, 60), "r#1")

    @pytest.mark.parametrize(
        ("box", "said"),
        [
            ((1, 2, 3, 4, 2), "of class 2: 1, 2 to 3, 4"),
            ((1, 2, 3, 4, -1), "of class -1: 1, 2 to 3, 4"),
            ((-1, 2, 3, 4, 0), "of class 0: -1, 2 to 3, 4"),
            ((1, -2, 3, 4, 0), "of class 0: 1, -2 to 3, 4"),
            ((1, 2, 61, 4, 0), "of class 0: 1, 2 to 61, 4"),
            ((1, 2, 3, 41, 0), "of class 0: 1, 2 to 3, 41"),
            ((3, 2, 3, 4, 0), "of class 0: 3, 2 to 3, 4"),
            ((1, 4, 3, 4, 0), "of class 0: 1, 4 to 3, 4"),
        ],
    )
    def test_one_outside_is_named(self, box, said):
        with pytest.raises(LabelError) as caught:
            labels.check_objects(self.record((1, 2, 3, 4, 0), box), 2, (40, 60), "r#1")
        assert str(caught.value) == (
            f"r#1: expected boxes inside 40 x 60 (height x width), of classes from 0 to 1, found box 2 {said}. "
            "Pack the data again."
        )

    @pytest.mark.parametrize("size", [(41, 60), (40, 61)])
    def test_a_image_of_another_size_is_named(self, size):
        with pytest.raises(LabelError) as caught:
            labels.check_objects(self.record(), 2, size, "r#1")
        assert str(caught.value) == (
            "r#1: expected an image of 40 x 60 (height x width), as the record says, found one of "
            f"{size[0]} x {size[1]}. Pack the data again."
        )
