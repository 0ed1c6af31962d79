from __future__ import annotations

import numpy as np
import pytest
from support.recorded import recorded
from support.samples import IMAGE, PNG, filled

from penstock.errors import LabelError
from penstock.images.codecs import encode_mask
from penstock.kinds.fields import SegmentationRecord
from penstock.seeds import generator
from penstock.settings import Augment
from penstock.settings.views import ScaleCrop
from penstock.tasks.masks import PrepareSegmentation


class TestMasks:
    def test_a_image_that_is_larger_than_the_canvas(self):
        record = recorded(SegmentationRecord(PNG, encode_mask(IMAGE[..., 0]), "x", "png", 30, 40), "s#4")
        with pytest.raises(LabelError) as caught:
            filled(PrepareSegmentation(256, 255, (0, 0, 0), canvas=(29, 40)), record)
        assert str(caught.value) == (
            "s#4: expected an image of at most 29 x 40 (height x width), found one of 30 x 40. Pack the dataset again: "
            "its dataset.json states a smaller largest size."
        )


def test_what_a_distortion_brings_in_from_outside_is_not_learnt():
    mask = np.ones((30, 40), np.uint8)
    record = recorded(SegmentationRecord(PNG, encode_mask(mask), "x", "png", 30, 40), "s#4")
    augment = Augment((30, 40), ScaleCrop(scale=(1.0, 1.0)), perspective=0.5)
    prepare = PrepareSegmentation(2, 255, (0, 0, 0), augment)
    found = [filled(prepare, record, generator(1, "augment", position))["mask"] for position in range(8)]
    assert {int(value) for each in found for value in np.unique(each)} == {1, 255}
