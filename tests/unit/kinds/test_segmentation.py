from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from support.tasks import masked

from penstock.errors import ImageError
from penstock.images import PixelFormat, decode_image
from penstock.images.codecs import encode_mask, encode_png
from penstock.kinds import Labels, masks
from penstock.kinds.masks import read_ids


@pytest.mark.parametrize(("name", "plain"), [("background", True), ("ground", False)])
def test_records_are_drawn_with_their_background_as_it_is(packed, name, plain):
    described = dataclasses.replace(packed.description, classes=(name, *packed.description.classes[1:]))
    image = np.full((6, 8, 3), (200, 30, 30), np.uint8)
    drawn = described.kind.draw(masked(image, np.zeros((6, 8), np.uint8)), described)
    assert np.array_equal(drawn[0, drawn.shape[1] // 2], (200, 30, 30)) == plain


def test_a_image_of_other_channels_than_the_dataset_says_is_named():
    with pytest.raises(ImageError) as caught:
        decode_image(encode_png(np.zeros((4, 4, 3), np.uint8)), "a.png", pixels=PixelFormat(4))

    assert str(caught.value) == (
        "a.png: expected 4 channels, as the dataset says, found 3 channels (png). Use images with the same channels."
    )


@pytest.mark.parametrize("order", [1, -1])
def test_ids_are_mapped_at_once(order):
    """An exchange of two ids is one, whichever is named first, and a chain goes one step."""
    ids = np.arange(8, dtype=np.uint8).reshape(2, 4)
    mapping = dict([(1, 2), (2, 1), (3, 4), (4, 5), (7, 0)][::order])

    assert read_ids(encode_mask(ids), "m", Labels(mapping=mapping)).ravel().tolist() == [0, 2, 1, 4, 5, 5, 6, 0]


@pytest.mark.parametrize("pixels", [1 << 20, (1 << 24) + 8])
def test_pixels_of_large_masks_are_counted_exactly(pixels):
    """More than float32 can count one by one."""
    ids = np.full((8, pixels // 8), 3, np.uint8)
    ids[0, :5] = 250

    assert masks._counted(ids) == ((3, pixels - 5), (250, 5))
