from __future__ import annotations

import itertools
from dataclasses import replace

import cv2
import numpy as np
import pytest

from penstock.assembly.effects import check_abilities
from penstock.errors import RecipeError
from penstock.extensions.volumes.task import Volumes
from penstock.feed import Feed
from penstock.kinds.fields import ClassificationRecord, encode_classification
from penstock.order import Plan, Shuffle
from penstock.seeds import generator
from penstock.settings import Augment, Recipe
from penstock.settings.views import PadCrop, ScaleCrop
from penstock.sources import MemorySource
from penstock.tasks.classes import PrepareClassification
from penstock.values import BatchSlice, Cursor

GRAY = (7, 7, 7)


def encoded(pixels, label=0):
    data = cv2.imencode(".png", pixels[..., ::-1])[1].tobytes()
    return encode_classification(ClassificationRecord(data, label, f"{label}.png", "png", *pixels.shape[:2]))


class TestTurns:
    N = 9
    LEFT = np.repeat(np.array([255] * 4 + [0] * 4, np.uint8), 3).reshape(1, 8, 3).repeat(8, axis=0)

    def mirrored(self, epochs, *, batch_slice=BatchSlice(), batch=3, start=0):  # noqa: B008
        """Whether an image was mirrored, by epoch and image."""
        source = MemorySource({"a": [encoded(self.LEFT, i) for i in range(self.N)]})
        prepare = PrepareClassification(self.N, GRAY, Augment((8, 8), PadCrop(), alternating_flip=True), train=True)
        feed = Feed(Plan(source.snapshot(), 5, Shuffle()), source, prepare, batch=batch, batch_slice=batch_slice)
        found = {}
        for number, given in enumerate(
            itertools.islice(feed.batches(Cursor(start)), (self.N * epochs - start) // batch)
        ):
            epoch = (start + number * batch) // self.N
            for image, label in zip(given.tensors["image"], given.tensors["label"], strict=True):
                assert image[:, :4].unique().numel() == image[:, 4:].unique().numel() == 1
                found[epoch, int(label)] = not image[0, 0, 0]
        return found

    def test_two_epochs_in_a_row_show_every_image_both_ways(self):
        found = self.mirrored(4)
        first = [bool(found[0, label]) for label in range(self.N)]

        assert len(found) == 4 * self.N
        assert set(first) == {True, False}
        for epoch in range(4):
            assert [bool(found[epoch, label]) for label in range(self.N)] == [one ^ (epoch % 2 == 1) for one in first]

    def test_turns_are_the_same_on_any_rank_and_after_any_restore(self):
        whole = self.mirrored(3)
        for rank in range(3):
            part = self.mirrored(3, batch_slice=BatchSlice(rank, 3))
            assert part.items() <= whole.items()
            assert len(part) == self.N
        for start in range(0, 3 * self.N, 3):
            rest = self.mirrored(3, start=start)
            assert rest == {key: value for key, value in whole.items() if key in rest}
            assert len(rest) == 3 * self.N - start


def test_volumes_are_not_mirrored_by_turns():
    augment = Augment((16, 16), slices=16, alternating_flip=True)
    with pytest.raises(RecipeError) as caught:
        check_abilities(Recipe(augment=augment), Volumes, Recipe(augment=replace(augment, alternating_flip=False)))

    assert str(caught.value) == (
        "Augmentation beyond crop, slices and flip is not supported for volumes. Remove augment.alternating_flip."
    )


def test_noise_is_drawn_anew_for_each_image():
    first, second = (np.full((32, 32, 3), 128, np.uint8) for _ in range(2))
    for position, pixels in enumerate((first, second)):
        Augment(noise=20.0).degrade(pixels, generator(1, "augment", position))
    noise = [(pixels.astype(float) - 128).ravel() for pixels in (first, second)]

    assert all(each.std() > 0.5 for each in noise)
    assert abs(np.corrcoef(*noise)[0, 1]) < 0.2


def test_a_part_of_a_mosaic_shows_as_much_as_the_whole_crop_would():
    part = Augment((64, 64), ScaleCrop(scale=(1.0, 2.0))).within((32, 16))

    assert (part.crop, part.view.scale) == ((32, 16), (0.5, 1.0))
