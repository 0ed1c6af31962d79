from __future__ import annotations

import numpy as np
import pytest

from penstock.images import PixelFormat, decode_image, fetch_image, geometry, probe
from penstock.images.codecs import encode_png
from penstock.settings.views import ScaleCrop


def turned(pixels, orientation):
    """A file that shows an upright image, stored turned: PNG with an EXIF orientation."""
    import io

    from PIL import Image

    stored = {1: pixels, 3: pixels[::-1, ::-1], 6: np.rot90(pixels), 8: np.rot90(pixels, -1)}[orientation]
    image, out = Image.fromarray(np.ascontiguousarray(stored)), io.BytesIO()
    exif = image.getexif()
    exif[274] = orientation
    image.save(out, "png", exif=exif)
    return out.getvalue()


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_a_image_and_its_mask_go_through_one_map(orientation):
    """Images whose colours are their ids, through training's view: scaled, cropped, mirrored, turned by EXIF."""
    from penstock.kinds.fields import SegmentationRecord, encode_segmentation
    from penstock.seeds import generator
    from penstock.settings import Augment
    from penstock.tasks import PrepareSegmentation
    from penstock.values import Record

    ids = np.random.default_rng(2).integers(0, 5, (5, 7)).repeat(16, 0).repeat(16, 1).astype(np.uint8)
    image = np.repeat((50 * ids)[..., None], 3, 2)
    payload = encode_segmentation(
        SegmentationRecord(turned(image, orientation), turned(ids, orientation), "a", "png", *ids.shape)
    )
    prepare = PrepareSegmentation(5, 255, (7, 7, 7), Augment((64, 96), ScaleCrop(scale=(0.75, 1.75), scale_step=0.0)))
    between, seen = 0, 0
    for draw in range(12):
        out = {"image": np.zeros((64, 96, 3), np.uint8), "mask": np.zeros((64, 96), np.uint8)}
        prepare(Record("x#0", payload), generator(1, "augment", draw), out)
        inside = out["mask"] != 255
        colors = out["image"][..., 0].astype(int)
        assert (out["image"][~inside] == 7).all()
        assert set(np.unique(out["mask"])) <= {0, 1, 2, 3, 4, 255}
        assert (np.abs(colors - 50 * out["mask"].astype(int))[inside] <= 25).mean() > 0.93
        between += int((colors[inside] % 50 != 0).sum())
        seen += int(inside.sum())

    assert 0.02 < between / seen < 0.5  # bilinear: colours between two where they meet


@pytest.mark.parametrize("channels", [1, 4])
def test_images_of_other_channels_are_fetched_as_definitions_say(channels):
    pixels = np.random.default_rng(channels).integers(0, 256, (20, 30, channels), np.uint8)
    data, out = encode_png(pixels), np.empty((16, 16, channels), np.uint8)
    crop = geometry.scale_and_crop((20, 30), (16, 16), 1.0, (0.5, 0.5))
    fetch_image(data, "x", probe(data, "x"), crop.affine, tuple(range(channels)), out)
    turned = np.empty((16, 16, channels), np.uint8)
    fetch_image(data, "x", probe(data, "x"), geometry.rotate(crop, 30.0).affine, tuple(range(channels)), turned)

    assert (decode_image(data, "x", pixels=PixelFormat(channels)) == pixels).all()
    assert (out == pixels[2:18, 7:23]).all()
    for channel in range(channels):  # each as if it were alone
        gray = np.ascontiguousarray(pixels[..., channel : channel + 1]).repeat(3, axis=2)
        alone = np.empty((16, 16, 3), np.uint8)
        fetch_image(encode_png(gray), "x", probe(data, "x"), geometry.rotate(crop, 30.0).affine, (channel,) * 3, alone)
        assert (turned[..., channel] == alone[..., 0]).all()
