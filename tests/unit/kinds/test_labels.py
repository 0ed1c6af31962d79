from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import LabelError
from penstock.images import codecs
from penstock.kinds import labels


class TestLabels:
    def test_ids_outside_are_named(self):
        ids = np.array([[0, 1, 2], [255, 9, 77]], np.uint8)
        with pytest.raises(LabelError) as caught:
            labels.LabelSet(3, 255).check(ids, "m#1")
        assert str(caught.value) == (
            "m#1: expected class ids from 0 to 2, or the ignore label 255, found id 9, 77. Check classes and "
            "ignore_label in dataset.json, or pack the data again."
        )
        labels.LabelSet(78, 255).check(ids, "m#1")

    def test_sizes_must_agree(self):
        with pytest.raises(LabelError) as caught:
            labels.decode_ids(codecs.encode_mask(np.zeros((4, 5), np.uint8)), "m#1", (5, 4))
        assert str(caught.value) == (
            "m#1: expected a mask of 5 x 4 (height x width), like its image, found one of 4 x 5. Make both the same "
            "size, then pack again."
        )
