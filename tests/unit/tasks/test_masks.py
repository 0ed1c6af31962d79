from __future__ import annotations

import pytest
from support.recorded import recorded
from support.samples import IMAGE, PNG, filled

from penstock.errors import LabelError
from penstock.images.codecs import encode_mask
from penstock.kinds.fields import SegmentationRecord
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
