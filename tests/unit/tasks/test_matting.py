from __future__ import annotations

import cv2
import numpy as np
from support.datasets import disk
from support.miniatures import gray
from support.tasks import masked

from penstock import seeds
from penstock.kinds.fields import SegmentationRecord, encode_segmentation
from penstock.seeds import generator
from penstock.settings import Augment
from penstock.settings.views import ScaleCrop
from penstock.tasks.matting import PrepareMatte
from penstock.values import Record


def test_shares_go_with_the_image_and_nothing_lies_outside_it():
    """The image is its own matte, so that both must come out the same wherever there is an image."""
    image, shares = disk(1)
    same = np.repeat(shares[..., np.newaxis], 3, axis=2)
    png = cv2.imencode(".png", same)[1].tobytes()
    record = Record("r", encode_segmentation(SegmentationRecord(png, gray(shares), "a", "png", *shares.shape)))
    prepare = PrepareMatte(
        2, -1, (0, 0, 0), Augment((40, 40), ScaleCrop(scale=(0.4, 1.8), scale_step=0.0), rotate=25.0)
    )
    outside = 0
    for position in range(60):
        out = {"image": np.empty((40, 40, 3), np.uint8), "mask": np.empty((40, 40), np.int16)}
        prepare(record, seeds.generator(0, "augment", position), out)
        inside = out["mask"] >= 0
        outside += int((~inside).sum())
        off = np.abs(out["image"][..., 0].astype(int) - out["mask"])[inside]
        assert np.median(off) == 0
        assert (off > 2).mean() < 0.05  # where the border is mixed in
        assert (out["mask"][~inside] == -1).all()
    assert outside > 1000
    assert image.shape == same.shape


def test_shares_are_fetched_as_the_image_is():
    """Turned, they meet what lies outside at the edges as it does, where it is filled with black."""
    white, shares = np.full((40, 50, 3), 255, np.uint8), np.full((40, 50), 255, np.uint8)
    prepare = PrepareMatte(2, -1, (0, 0, 0), Augment((48, 48), ScaleCrop(scale=(0.7, 1.3)), rotate=40.0))
    blended = 0
    for position in range(8):
        out = {name: np.empty(field.shape, field.dtype) for name, field in prepare.fields.items()}
        prepare(masked(white, shares), generator(1, "augment", position), out)
        inside = out["mask"] >= 0
        np.testing.assert_array_equal(out["mask"][inside], out["image"][inside][:, 0])
        blended += ((out["mask"] > 0) & (out["mask"] < 255)).sum()
    assert blended > 100
