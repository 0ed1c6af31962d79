from __future__ import annotations

import numpy as np
import pytest
from support.tasks import NOISE, masked, pixels
from support.volumes import volume_record

from penstock import seeds
from penstock.errors import LabelError, SchemaError
from penstock.extensions.volumes.task import PrepareVolume, read_slices
from penstock.images.codecs import encode_mask, encode_png
from penstock.kinds.fields import SegmentationRecord, encode_segmentation
from penstock.kinds.labels import LabelSet
from penstock.seeds import generator
from penstock.values import Record


class TestSlices:
    def test_are_those_of_the_record(self):
        voxels, ids = pixels(12, 5), NOISE.integers(0, 3, (12, 5), np.uint8)
        found = read_slices(masked(voxels, ids, 3), 3, LabelSet(3, 200))

        np.testing.assert_array_equal(found[0], voxels.reshape(3, 4, 5, 3))
        np.testing.assert_array_equal(found[1], ids.reshape(3, 4, 5))

    @pytest.mark.parametrize(("slices", "said"), [(0, "0 slices"), (5, "5 slices"), (-1, "-1 slices")])
    def test_a_number_that_rows_do_not_come_in(self, slices, said):
        record = masked(pixels(12, 5), np.zeros((12, 5), np.uint8), slices)
        with pytest.raises(SchemaError) as caught:
            read_slices(record, 3, LabelSet(3, 200))
        assert str(caught.value) == (
            f"s#3: expected a volume: image/slices slices below one another, found {said} in 12 rows. Pack the dataset "
            "again, with --task volumes."
        )

    def test_a_mask_of_another_size(self):
        record = masked(pixels(12, 5), np.zeros((12, 7), np.uint8), 3)
        with pytest.raises(LabelError) as caught:
            read_slices(record, 3, LabelSet(3, 200))
        assert str(caught.value) == (
            "s#3 (mask): expected a mask of 12 x 5, like its voxels, found one of 12 x 7. Pack the dataset again."
        )

    def test_a_label_that_is_no_class(self):
        record = masked(pixels(12, 5), np.full((12, 5), 3, np.uint8), 3)
        with pytest.raises(LabelError, match=r"^s#3 \(mask\): "):
            read_slices(record, 3, LabelSet(3, 200))


class TestPatches:
    voxels, ids = pixels(4, 6, 8), np.zeros((4, 6, 8), np.uint8)
    voxels[...] = np.maximum(voxels, 1)  # 0 is what lies outside
    ids[2, 4, 7] = 1
    record = masked(voxels.reshape(24, 8, 3), ids.reshape(24, 8), 4)

    def prepared(self, size, flip=None, position=None):
        prepare = PrepareVolume(3, 200, 3, size, flip)
        out = {name: np.full(field.shape, 77, field.dtype) for name, field in prepare.fields.items()}
        prepare(self.record, None if position is None else generator(3, "augment", position), out)
        return out

    def test_a_whole_volume_lies_in_the_corner_of_its_sample(self):
        out = self.prepared((5, 6, 9))
        image, mask = np.zeros((5, 6, 9, 3), np.uint8), np.full((5, 6, 9), 200, np.uint8)
        image[:4, :, :8], mask[:4, :, :8] = self.voxels, self.ids

        np.testing.assert_array_equal(out["image"], image)
        np.testing.assert_array_equal(out["mask"], mask)

    def test_one_that_is_too_large_is_named(self):
        with pytest.raises(LabelError) as caught:
            self.prepared((4, 5, 9))
        assert str(caught.value) == (
            "s#3: expected a volume of at most 4 x 5 x 9 (slices x rows x columns), found one of 4 x 6 x 8. Pack the "
            "dataset again: its dataset.json states a smaller largest size."
        )

    @pytest.mark.parametrize("size", [(2, 3, 4), (4, 6, 8), (6, 3, 8), (5, 7, 9)])
    def test_a_patch_is_a_piece_of_the_volume_or_has_it_inside(self, size):
        """Wherever it may begin, it does; a third are around the label, or as near to it as the volume's end lets."""
        starts, around = set(), 0
        for position in range(600):
            out = self.prepared(size, 0.0, position)
            start = self.start_of(out["image"])
            starts.add(start)
            around += (out["mask"] == 1).any()
            for axis in range(3):
                low, high = sorted((0, self.ids.shape[axis] - size[axis]))
                assert low <= start[axis] <= high
            np.testing.assert_array_equal(out["mask"], self.at(start, size, self.ids, 200))
        expected = np.prod([abs(have - side) + 1 for have, side in zip(self.ids.shape, size, strict=True)])
        assert len(starts) == expected
        assert around >= 160

    def at(self, start, size, array, fill):
        """A piece of what has `fill` all around it."""
        wide = [(9, 9)] * 3 + [(0, 0)] * (array.ndim - 3)
        around = np.pad(array, wide, constant_values=fill)
        return around[tuple(slice(9 + at, 9 + at + side) for at, side in zip(start, size, strict=True))]

    def start_of(self, image):
        """Where a patch lies, by all of its voxels."""
        size = image.shape[:3]
        ranges = [range(*sorted((0, have - side))) for have, side in zip(self.ids.shape, size, strict=True)]
        ranges = [range(each.start, each.stop + 1) for each in ranges]
        found = [
            (a, b, c)
            for a in ranges[0] for b in ranges[1] for c in ranges[2]
            if np.array_equal(self.at((a, b, c), size, self.voxels, 0), image)
        ]  # fmt: skip
        (start,) = found
        return start

    def test_it_is_mirrored_along_each_axis(self):
        for flip, expected in ((0.0, {(0, 0, 0)}), (1.0, {(1, 1, 1)}), (0.5, set(np.ndindex(2, 2, 2)))):
            seen = set()
            for position in range(60):
                out = self.prepared((4, 6, 8), flip, position)
                ways = [
                    way
                    for way in np.ndindex(2, 2, 2)
                    if np.array_equal(out["image"], np.flip(self.voxels, np.flatnonzero(way)))
                ]
                seen.update(ways)
                np.testing.assert_array_equal(out["mask"], np.flip(self.ids, np.flatnonzero(ways[0])))
            assert seen == expected


def empty(prepare):
    return {name: np.full(field.shape, 99, field.dtype) for name, field in prepare.fields.items()}


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_every_patch_is_a_window_of_the_volume_perhaps_mirrored(channels):
    record, voxels, ids = volume_record(8, 7, 9, channels)
    prepare = PrepareVolume(3, 255, channels, (4, 4, 4), 0.5)
    starts, flips = set(), set()
    for position in range(300):
        out = empty(prepare)
        prepare(record, seeds.generator(0, "augment", position), out)
        match = [
            (z, y, x, axes)
            for z in range(5) for y in range(4) for x in range(6) for axes in AXES
            if (np.flip(ids[z : z + 4, y : y + 4, x : x + 4], axes) == out["mask"]).all()
        ]  # fmt: skip
        assert match
        z, y, x, axes = match[0]
        assert (np.flip(voxels[z : z + 4, y : y + 4, x : x + 4], axes) == out["image"]).all()
        starts.add((z, y, x))
        flips.add(axes)
    assert len(flips) == 8
    assert len(starts) > 60


AXES = [tuple(axis for axis in range(3) if bits >> axis & 1) for bits in range(8)]


def test_a_third_of_the_patches_are_around_labelled_voxels():
    shape = (40, 40, 40)
    ids = np.zeros(shape, np.uint8)
    ids[3, 35, 20] = 1
    record, _, _ = with_labels(ids)
    prepare = PrepareVolume(2, 255, 1, (16, 16, 16), 0.0)
    held = 0
    for position in range(300):
        out = empty(prepare)
        prepare(record, seeds.generator(1, "augment", position), out)
        held += bool((out["mask"] == 1).any())

    by_chance = (4 / 25) * (5 / 25) * (16 / 25)  # of the corners that hold it
    assert held / 300 == pytest.approx(1 / 3 + 2 / 3 * by_chance, abs=0.08)


def with_labels(ids):
    voxels = np.random.default_rng(0).integers(0, 256, (*ids.shape, 1), np.uint8)
    data = encode_png(voxels.reshape(-1, ids.shape[2], 1)), encode_mask(ids.reshape(-1, ids.shape[2]))
    height = ids.shape[0] * ids.shape[1]
    fields = SegmentationRecord(*data, "v", "png", height, ids.shape[2], ids.shape[0])
    return Record("shard#0", encode_segmentation(fields)), voxels, ids


@pytest.mark.parametrize("size", [(16, 16, 16), (2, 16, 3)])
def test_a_volume_smaller_than_the_patch_lies_whole_inside_it(size):
    record, voxels, ids = volume_record()
    prepare = PrepareVolume(3, 255, 1, size, 0.0)
    corners = set()
    for position in range(40):
        out = empty(prepare)
        prepare(record, seeds.generator(0, "augment", position), out)
        inside = out["mask"] != 255
        sides = tuple(min(have, fits) for have, fits in zip(ids.shape, size, strict=True))
        assert inside.sum() == np.prod(sides)
        assert not out["image"][~inside].any()
        block = out["mask"][inside].reshape(sides)
        windows = [
            tuple(slice(at, at + side) for at, side in zip((z, 0, x), sides, strict=True))
            for z in range(ids.shape[0] - sides[0] + 1)
            for x in range(ids.shape[2] - sides[2] + 1)
        ]
        (window,) = [window for window in windows if (ids[window] == block).all()]
        assert (out["image"][inside].reshape(*sides, 1) == voxels[window]).all()
        corners.add(tuple(int(axis.min()) for axis in np.nonzero(inside)))
    assert len(corners) > 3 or size == (2, 16, 3)


def test_evaluation_shows_the_whole_volume():
    record, voxels, ids = volume_record()
    prepare = PrepareVolume(3, 255, 1, (8, 8, 8))
    out = empty(prepare)
    prepare(record, None, out)

    assert (out["image"][:6, :5, :4] == voxels).all()
    assert (out["mask"][:6, :5, :4] == ids).all()
    assert (out["mask"] == 255).sum() == 8**3 - ids.size
    with pytest.raises(LabelError, match="expected a volume of at most 4 x 8 x 8"):
        PrepareVolume(3, 255, 1, (4, 8, 8))(record, None, empty(PrepareVolume(3, 255, 1, (4, 8, 8))))


def test_patches_are_not_around_voxels_that_do_not_count():
    """Every patch that is to be around a label is around the only one of a class, though most voxels are ignored."""
    ids = np.zeros((16, 16, 16), np.uint8)
    ids[:, :, :8], ids[8, 8, 12] = 255, 1
    prepare = PrepareVolume(2, 255, 1, (3, 3, 3), flip=0.5)
    corners = [prepare._corner(ids, generator(1, "augment", position)) for position in range(200)]
    around = [corner for corner in corners if corner == [7, 7, 11]]

    assert len(around) >= 200 / 3 - 30
    assert sum(corner[2] < 7 for corner in corners) < 100
