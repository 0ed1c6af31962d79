"""What tasks say of a single sample or batch, without a network."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from recorded import recorded

from penstock.errors import LabelError, SchemaError
from penstock.images import drawing
from penstock.images.codecs import encode_mask, encode_png
from penstock.kinds.labels import LabelSet
from penstock.records import SegmentationRecord
from penstock.records.schema import ClassificationRecord, DetectionRecord, Object
from penstock.seeds import generator
from penstock.tasks import (
    Augment,
    Classification,
    Detection,
    Matting,
    Objective,
    Regularize,
    Segmentation,
    Volumes,
    regularize,
)
from penstock.tasks.classification import NOTHING
from penstock.tasks.matting import PrepareMatte
from penstock.tasks.volumes import PrepareVolume, read_slices, telling_slice

NOISE = np.random.default_rng(1)
CLASSES = Classification("test_resnet", ("ant", "bee", "cow"), Augment((8, 8)))
MASKS = Segmentation("unet:test_resnet", ("a", "b", "c"), ignore=200)
MATTES = Matting("unet:test_resnet", ("back", "front"))
BOXES = Detection("ssd:test_resnet", ("cat", "dog"), 3)
VOLUMES = Volumes("unet3d", ("back", "front", "edge"), ignore=200)


def pixels(*size):
    return NOISE.integers(0, 256, (*size, 3), np.uint8)


def masked(image, ids, slices=0):
    size = image.shape[:2]
    content = SegmentationRecord(encode_png(image), encode_mask(ids), "x", "png", *size, slices)
    return recorded(content, "s#3")


class TestShown:
    """The classes in a record, by which `show` finds images of one."""

    def test_of_masks(self):
        ids = np.array([[0, 2], [200, 2]], np.uint8)
        assert MASKS.shown(masked(pixels(2, 2), ids)) == {0, 2}
        assert VOLUMES.shown(masked(pixels(2, 2), ids, 2)) == {0, 2}

    def test_of_mattes(self):
        assert MATTES.shown(masked(pixels(2, 2), np.full((2, 2), 77, np.uint8))) == {0, 1}

    def test_of_classes(self):
        content = ClassificationRecord(encode_png(pixels(2, 2)), 2, "x", "png", 2, 2)
        assert CLASSES.shown(recorded(content, "s#1")) == {2}

    def test_of_boxes(self):
        objects = (Object(1, 0, 0, 1, 1), Object(0, 0, 0, 2, 2), Object(1, 1, 1, 2, 2))
        content = DetectionRecord(encode_png(pixels(2, 2)), objects, "x", "png", 2, 2)
        assert BOXES.shown(recorded(content, "s#1")) == {0, 1}


class TestPadding:
    """Samples of weight 0, of a batch of three."""

    weight = torch.tensor([1.0, 0.0, 1.0])

    def test_of_masks(self):
        mask = torch.arange(12, dtype=torch.uint8).view(3, 2, 2)
        found = MASKS.mask_padding({"mask": mask, "image": mask}, self.weight)

        assert found["mask"].tolist() == [[[0, 1], [2, 3]], [[200, 200], [200, 200]], [[8, 9], [10, 11]]]
        assert found["image"] is mask

    def test_of_volumes(self):
        mask = torch.arange(3, dtype=torch.uint8).view(3, 1, 1, 1)
        assert VOLUMES.mask_padding({"mask": mask}, self.weight)["mask"].flatten().tolist() == [0, 200, 2]

    def test_of_classes(self):
        label = torch.tensor([2, 1, 0])
        draws = torch.arange(3 * regularize.DRAWS, dtype=torch.float32).view(3, -1)
        found = CLASSES.mask_padding({"label": label, "draws": draws}, self.weight)

        assert found["label"].tolist() == [2, -1, 0]
        # the first was to be mixed with the second, and the last has no partner: all keep their own image
        assert found["draws"][:, :5].tolist() == [[1, 0, 0, 0, 0]] * 3
        assert torch.equal(found["draws"][:, 5:], draws[:, 5:])
        assert "draws" not in CLASSES.mask_padding({"label": label}, self.weight)

    def test_of_boxes(self):
        tensors = {
            "image": torch.zeros(3, 30, 40, 3, dtype=torch.uint8),
            "label": torch.tensor([[0, 1], [1, 1], [1, -1]]),
            "size": torch.tensor([[20, 10], [21, 11], [22, 12]]),
            "scale": torch.tensor([0.5, 0.25, 2.0]),
        }
        found = BOXES.mask_padding(tensors, self.weight)

        assert found["label"].tolist() == [[0, 1], [-1, -1], [1, -1]]
        assert found["size"].tolist() == [[20, 10], [30, 40], [22, 12]]
        assert found["scale"].tolist() == [0.5, 1.0, 2.0]
        assert found["image"] is tensors["image"]


class TestPairs:
    @pytest.mark.parametrize(("count", "expected"), [(1, [0]), (2, [1, 0]), (5, [1, 0, 3, 2, 4])])
    def test_partners_are_neighbours_and_the_last_may_have_none(self, count, expected):
        assert regularize.partners(count, torch.device("cpu")).tolist() == expected

    def test_pairs_of_which_both_are_there(self):
        real = torch.tensor([True, True, True, False, False, False, True])
        assert regularize.whole_pairs(real).tolist() == [True, True] + [False] * 5


class TestDrawings:
    def test_of_classes(self):
        image = pixels(20, 30)
        large = drawing.fit(image, 192)
        arrays = {"image": image, "label": np.array(1)}
        logits = torch.tensor([0.0, 1.0, 3.0])  # softmax 0.042, 0.114, 0.844
        shares = arrays | {"target": np.array([0.25, 0.0, 0.75])}

        np.testing.assert_array_equal(CLASSES.draw(arrays), drawing.caption(large, "bee"))
        np.testing.assert_array_equal(
            CLASSES.draw(arrays, logits), drawing.caption(drawing.caption(large, "bee"), "answer: cow (84%)")
        )
        np.testing.assert_array_equal(CLASSES.draw(shares), drawing.caption(large, "ant 25% + cow 75%"))

    def test_shares_too_small_for_a_word_have_none(self):
        image = pixels(20, 30)
        arrays = {"image": image, "label": np.array(1), "target": np.array([0.004, 0.0, 0.996])}
        np.testing.assert_array_equal(CLASSES.draw(arrays), drawing.caption(drawing.fit(image, 192), "cow"))

    def test_of_masks(self):
        image, ids = pixels(6, 8), NOISE.integers(0, 3, (6, 8), np.uint8)
        logits = torch.from_numpy(NOISE.random((3, 6, 8), np.float32))
        colors = drawing.palette(200)
        labelled = drawing.overlay(image, ids, colors)
        answered = drawing.overlay(image, logits.argmax(0).to(torch.uint8).numpy(), colors)
        arrays = {"image": image, "mask": ids}

        np.testing.assert_array_equal(MASKS.draw(arrays), np.hstack([image, labelled]))
        np.testing.assert_array_equal(MASKS.draw(arrays, logits), np.hstack([image, labelled, answered]))
        many = {"image": np.dstack([image, image]), "mask": ids}
        np.testing.assert_array_equal(MASKS.draw(many), np.hstack([image, labelled]))

    @pytest.mark.parametrize("answered", [False, True])
    def test_what_is_around_the_picture_is_left_out(self, answered):
        image, ids = pixels(6, 8), NOISE.integers(0, 3, (6, 8), np.uint8)
        logits = torch.from_numpy(NOISE.random((3, 6, 8), np.float32)) if answered else None
        record = masked(image[:5, :3], ids[:5, :3])
        arrays = {"image": image, "mask": ids, "size": np.array([5, 3])}
        inside = {"image": image[:5, :3], "mask": ids[:5, :3]}
        expected = MASKS.draw(inside, None if logits is None else logits[:, :5, :3])

        np.testing.assert_array_equal(MASKS.draw(arrays, logits, record), expected)
        assert expected.shape == (5, 9 if answered else 6, 3)

    def test_of_mattes(self):
        image, shares = pixels(2, 3), np.array([[0, 100, 255], [-1, -1, 7]], np.int16)
        logits = torch.zeros(2, 2, 3)
        gray = np.repeat(np.array([[0, 100, 255], [0, 0, 7]], np.uint8)[..., np.newaxis], 3, 2)
        arrays = {"image": image, "mask": shares}

        np.testing.assert_array_equal(MATTES.draw(arrays), np.hstack([image, gray]))
        half = np.full((2, 3, 3), 128, np.uint8)  # 127.5, to the even one
        np.testing.assert_array_equal(MATTES.draw(arrays, logits), np.hstack([image, gray, half]))
        assert MATTES.legend == ()

    def test_of_boxes(self):
        image = pixels(40, 50)
        edges = np.array([(2, 3, 20, 30), (5, 5, 9, 9), (0, 0, 0, 0)], np.float32)
        arrays = {"image": image, "boxes": edges, "label": np.array([1, 0, -1]), "size": np.array([36, 44])}
        outputs = {
            "boxes": torch.tensor([(1.0, 2.0, 30.0, 31.0), (4.0, 4.0, 8.0, 8.0)]),
            "labels": torch.tensor([0, 1]),
            "scores": torch.tensor([0.75, 0.3]),  # above 0.3 are drawn
        }
        inside = np.ascontiguousarray(image[:36, :44])
        true = drawing.boxes(inside, edges[:2], np.array([1, 0]))
        found = drawing.boxes(inside, np.array([(1, 2, 30, 31)], np.float32), np.array([0]), ["cat 75%"])

        np.testing.assert_array_equal(BOXES.draw(arrays), true)
        np.testing.assert_array_equal(BOXES.draw(arrays, outputs), np.hstack([true, found]))

    def test_of_volumes(self):
        voxels, ids = pixels(4, 6, 8), np.zeros((4, 6, 8), np.uint8)
        ids[1, :3], ids[2, :2], ids[3] = 1, 2, 200  # of the ignored label there are most
        logits = torch.from_numpy(NOISE.random((3, 4, 6, 8), np.float32))
        colors = drawing.palette(200)
        drawn = [voxels[1], drawing.overlay(voxels[1], ids[1], colors)]
        answered = drawing.overlay(voxels[1], logits[:, 1].argmax(0).to(torch.uint8).numpy(), colors)
        arrays = {"image": voxels, "mask": ids}

        np.testing.assert_array_equal(VOLUMES.draw(arrays), np.hstack(drawn))
        np.testing.assert_array_equal(VOLUMES.draw(arrays, logits), np.hstack([*drawn, answered]))

    def test_of_a_volume_that_is_smaller_than_its_sample(self):
        voxels, ids = pixels(4, 6, 8), np.zeros((4, 6, 8), np.uint8)
        ids[1, :3], ids[3] = 1, 2  # the last slice is beside the volume
        logits = torch.from_numpy(NOISE.random((3, 4, 6, 8), np.float32))
        real = (slice(0, 3), slice(0, 5), slice(0, 7))
        record = masked(voxels[real].reshape(15, 7, 3), ids[real].reshape(15, 7), 3)
        expected = VOLUMES.draw({"image": voxels[real], "mask": ids[real]}, logits[(slice(None), *real)])

        found = VOLUMES.draw({"image": voxels, "mask": ids}, logits, record)
        np.testing.assert_array_equal(found, expected)
        assert expected.shape == (5, 21, 3)

    def test_volumes_of_one_modality_are_gray(self):
        voxels, ids = pixels(2, 3, 4)[..., :1], np.ones((2, 3, 4), np.uint8)
        best, image = telling_slice(voxels, ids, 200)
        assert best == 0
        np.testing.assert_array_equal(image, np.repeat(voxels[0], 3, axis=2))


class TestSeen:
    """What is done on the device, for a drawing."""

    def batch(self, *draws):
        image = torch.from_numpy(NOISE.integers(0, 256, (len(draws), 8, 8, 3), np.uint8))
        return {"image": image, "label": torch.arange(len(draws)) % 3, "draws": torch.tensor(np.stack(draws))}

    @staticmethod
    def drawn(**changed):
        names = ("own", "cut", "_", "_", "_", "erased", "_", "_", "_", "brightness", "contrast")
        draws = NOTHING.copy()
        for name, value in changed.items():
            draws[names.index(name)] = value
        return draws

    def test_without_draws_it_is_the_batch(self):
        tensors = {"image": torch.zeros(1, 2, 2, 3, dtype=torch.uint8)}
        assert CLASSES.seen(tensors) is tensors

    @pytest.mark.parametrize(("shift", "end"), [(300.0, 255), (-300.0, 0)])
    def test_tones_end_where_bytes_do(self, shift, end):
        found = CLASSES.seen(self.batch(self.drawn(brightness=shift)))
        assert (found["image"] == end).all()
        assert found["image"].shape == (1, 8, 8, 3)

    def test_pictures_and_their_classes_are_mixed(self):
        tensors = self.batch(self.drawn(own=0.25), self.drawn(own=0.5), self.drawn())
        found = CLASSES.seen(tensors)
        first, second, third = tensors["image"].double()

        np.testing.assert_allclose(found["image"][0], 0.25 * first + 0.75 * second, atol=0.51)
        np.testing.assert_allclose(found["image"][1], 0.5 * second + 0.5 * first, atol=0.51)
        np.testing.assert_array_equal(found["image"][2], third)
        assert found["target"].tolist() == [[0.25, 0.75, 0], [0.5, 0.5, 0], [0, 0, 1]]

    def test_what_is_erased_is_the_mean_pixel(self):
        draws = NOTHING.copy()
        draws[5:9] = 0.25, 0.5, 0.0, 1.0  # rows 2 and 3
        tensors = self.batch(draws)
        found = CLASSES.seen(tensors)["image"][0]

        assert (found[2:4] == torch.tensor(CLASSES.normalization.fill)).all()
        assert torch.equal(found[:2], tensors["image"][0, :2])
        assert torch.equal(found[4:], tensors["image"][0, 4:])


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
            "again, with --layout nifti-volumes."
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


@pytest.mark.parametrize("task", [MASKS, VOLUMES])
def test_a_task_changes_with_steps_only_where_mining_begins_slowly(task):
    slow = dataclasses.replace(task, objective=Objective(ohem_ratio=0.5, ohem_warmup_steps=10))

    assert task.after(4) is task
    assert slow.after(4).step == 4


def test_erasing_and_mixing_are_drawn_only_where_they_are_wanted():
    for position in range(20):
        np.testing.assert_array_equal(Regularize().draw(generator(1, "augment", position)), NOTHING)


def test_shares_are_fetched_as_the_picture_is():
    """Turned, they meet what lies outside at the edges as it does, where it is filled with black."""
    white, shares = np.full((40, 50, 3), 255, np.uint8), np.full((40, 50), 255, np.uint8)
    prepare = PrepareMatte(2, -1, (0, 0, 0), Augment((48, 48), scale=(0.7, 1.3), rotate=40.0))
    blended = 0
    for position in range(8):
        out = {name: np.empty(field.shape, field.dtype) for name, field in prepare.fields.items()}
        prepare(masked(white, shares), generator(1, "augment", position), out)
        inside = out["mask"] >= 0
        np.testing.assert_array_equal(out["mask"][inside], out["image"][inside][:, 0])
        blended += ((out["mask"] > 0) & (out["mask"] < 255)).sum()
    assert blended > 100


def test_nothing_is_known_of_a_picture_to_be_predicted():
    found = BOXES.blank(30, 40, torch.device("cpu"))

    assert {name: (tuple(each.shape), each.dtype) for name, each in found.items()} == {
        "size": ((1, 2), torch.int64),
        "boxes": ((1, 0, 4), torch.float32),
        "label": ((1, 0), torch.int64),
        "crowd": ((1, 0), torch.uint8),
    }
    assert found["size"].tolist() == [[30, 40]]
