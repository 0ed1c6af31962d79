"""Every task, with samples and masks."""

from __future__ import annotations

import numpy as np

from penstock.extensions.volumes.task import Volumes
from penstock.images.codecs import encode_mask, encode_png
from penstock.kinds.fields import SegmentationRecord
from penstock.settings import Augment
from penstock.tasks import Classification, Detection, Segmentation
from support.recorded import recorded

NOISE = np.random.default_rng(1)


CLASSES = Classification("test_resnet", ("ant", "bee", "cow"), Augment((8, 8)))


MASKS = Segmentation("unet:test_resnet", ("a", "b", "c"), ignore=200)


BOXES = Detection("ssd:test_resnet", ("cat", "dog"), 3)


VOLUMES = Volumes("unet3d", ("back", "front", "edge"), ignore=200)


def pixels(*size):
    return NOISE.integers(0, 256, (*size, 3), np.uint8)


def masked(image, ids, slices=0):
    size = image.shape[:2]
    content = SegmentationRecord(encode_png(image), encode_mask(ids), "x", "png", *size, slices)
    return recorded(content, "s#3")
