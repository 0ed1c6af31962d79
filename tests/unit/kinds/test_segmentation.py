from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ImageError
from penstock.images import PixelFormat, decode_image
from penstock.images.codecs import encode_png


def test_a_image_of_other_channels_than_the_dataset_says_is_named():
    with pytest.raises(ImageError) as caught:
        decode_image(encode_png(np.zeros((4, 4, 3), np.uint8)), "a.png", pixels=PixelFormat(4))

    assert str(caught.value) == (
        "a.png: expected 4 channels, as the dataset says, found 3 channels (png). Use images with the same channels."
    )
