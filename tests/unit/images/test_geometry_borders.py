from __future__ import annotations

import cv2
import numpy as np
import pytest
from support.training import recipe

from penstock import seeds
from penstock.assembly import open_experiment
from penstock.config import apply
from penstock.errors import RecipeError
from penstock.images import warp_image
from penstock.images.geometry import Affine
from penstock.kinds.fields import ClassificationRecord, encode_classification
from penstock.settings import Augment
from penstock.settings.views import PadCrop
from penstock.tasks import Classification
from penstock.values import Record

GRAY = (7, 7, 7)


def encoded(pixels, label=0):
    data = cv2.imencode(".png", pixels[..., ::-1])[1].tobytes()
    return encode_classification(ClassificationRecord(data, label, f"{label}.png", "png", *pixels.shape[:2]))


class TestBorders:
    PIXELS = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)

    def shown(self, margin, number):
        augment = Augment((8, 8), PadCrop(margin=margin), border="reflect")
        out = {"image": np.empty((8, 8, 3), np.uint8), "label": np.empty((), np.int64)}
        record = Record("a:0", encoded(self.PIXELS))
        Classification("test_resnet", ("a",), augment).prepare(train=True)(record, seeds.generator(0, "x", number), out)
        return out["image"]

    @pytest.mark.parametrize("margin", [1, 2, 4])
    def test_what_is_around_a_image_may_be_its_mirror(self, margin):
        padded = np.pad(self.PIXELS, ((margin, margin), (margin, margin), (0, 0)), "reflect")
        moves = range(2 * margin + 1)
        windows = {padded[y : y + 8, x : x + 8][:, ::step].tobytes() for y in moves for x in moves for step in (1, -1)}
        seen = {self.shown(margin, number).tobytes() for number in range(600)}

        assert seen <= windows
        assert len(seen) > 0.9 * len(windows)

    def test_evaluation_reflects_what_is_larger_than_the_image(self):
        augment = Augment((12, 10), PadCrop(), border="reflect")
        out = {"image": np.empty((12, 10, 3), np.uint8), "label": np.empty((), np.int64)}
        Classification("test_resnet", ("a",), augment).prepare(train=False)(
            Record("a:0", encoded(self.PIXELS)), None, out
        )

        assert np.array_equal(out["image"], np.pad(self.PIXELS, ((2, 2), (1, 1), (0, 0)), "reflect"))

    @pytest.mark.parametrize(
        "affine", [Affine(xx=0.8, xy=-0.6, yx=0.6, yy=0.8), Affine(x0=9.0), Affine(x0=-0.5, y0=0.25)]
    )
    def test_turned_images_are_reflected_too(self, affine):
        out, more = np.full((8, 8, 3), 99, np.uint8), np.full((8, 8, 3), 99, np.uint8)
        warp_image(self.PIXELS, affine, None, out)
        padded = np.pad(self.PIXELS, ((14, 14), (14, 14), (0, 0)), "reflect")
        warp_image(padded, affine.then(Affine(x0=14.0, y0=14.0)), GRAY, more)

        assert np.abs(out.astype(int) - more).max() <= 1

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                ["augment.border=reflect"],
                "A reflected border is not supported for segmentation. Remove augment.border.",
            ),
            (["augment.alternating_flip=true"], ""),
        ],
    )
    def test_masks_know_no_border(self, packed, changes, message):
        chosen = apply(recipe(packed.folder), changes)
        if not message:
            open_experiment(chosen).model()
            return
        with pytest.raises(RecipeError) as caught:
            open_experiment(chosen).model()
        assert str(caught.value) == message


class TestMirrored:
    """What lies outside, where nothing is to fill it."""

    noise = np.random.default_rng(2).integers(0, 256, (12, 16, 3), np.uint8)

    @pytest.mark.parametrize(
        ("down", "right"), [(0, 0), (5, 0), (-5, 0), (0, 7), (0, -7), (3, -4), (-3, 4), (11, 0), (0, 15), (-9, 13)]
    )
    def test_it_is_the_mirror_of_the_image(self, down, right):
        """Up to the image's whole size away, by pixels counted from its edges."""
        out = np.full((12, 16, 3), 77, np.uint8)
        warp_image(self.noise, Affine(x0=-right, y0=-down), None, out)
        rows, columns = (self.reflected(np.arange(n) - by, n) for n, by in ((12, down), (16, right)))

        np.testing.assert_array_equal(out, self.noise[rows][:, columns])

    @staticmethod
    def reflected(places, length):
        folded = np.abs(places) % (2 * length - 2)
        return np.minimum(folded, 2 * length - 2 - folded)


@pytest.mark.parametrize(("x", "y"), [(40.0, 0.0), (-40.0, 0.0), (0.0, 40.0), (0.0, -40.0), (16.0, 0.0)])
def test_a_view_beside_the_image_is_filled(x, y):
    out = np.full((12, 16, 3), 77, np.uint8)
    warp_image(TestMirrored.noise, Affine(x0=x, y0=y), (1, 2, 3), out)

    assert (out == (1, 2, 3)).all()
