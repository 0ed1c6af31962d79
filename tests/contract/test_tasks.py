from __future__ import annotations

import numpy as np
import pytest
import torch
from support.tasks import BOXES, CLASSES, MASKS, NOISE, VOLUMES, masked, pixels

from penstock.extensions.volumes.task import telling_slice
from penstock.images import drawing
from penstock.settings import DRAWS, Augment
from penstock.tasks import Matting, Segmentation

MATTES = Matting("unet:test_resnet", ("back", "front"))


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
        draws = torch.arange(3 * DRAWS, dtype=torch.float32).view(3, -1)
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


class TestDrawings:
    def test_of_classes(self):
        image = pixels(20, 30)
        large = drawing.fit(image, 192)
        arrays = {"image": image, "label": np.array(1)}
        logits = torch.tensor([0.0, 1.0, 3.0])  # softmax 0.042, 0.114, 0.844
        shares = arrays | {"target": np.array([0.25, 0.0, 0.75])}

        np.testing.assert_array_equal(CLASSES.drawing.draw(arrays, logits), large)
        assert CLASSES.drawing.words(arrays) == ("bee",)
        assert CLASSES.drawing.words(arrays, logits) == ("bee", "WRONG prediction: cow (84%)")
        assert CLASSES.drawing.words(arrays, logits[[0, 2, 1]]) == ("bee", "prediction: bee (84%)")
        assert CLASSES.drawing.panels == ""
        assert CLASSES.drawing.words(shares) == ("ant 25% + cow 75%",)

    def test_shares_too_small_for_a_word_have_none(self):
        image = pixels(20, 30)
        arrays = {"image": image, "label": np.array(1), "target": np.array([0.004, 0.0, 0.996])}
        assert CLASSES.drawing.words(arrays) == ("cow",)

    def test_of_masks(self):
        image, ids = pixels(6, 8), NOISE.integers(0, 3, (6, 8), np.uint8)
        logits = torch.from_numpy(NOISE.random((3, 6, 8), np.float32))
        colors = drawing.palette(200)
        labelled = drawing.overlay(image, ids, colors)
        found = logits.argmax(0).to(torch.uint8).numpy()
        predicted = drawing.overlay(image, found, colors)
        arrays = {"image": image, "mask": ids}

        np.testing.assert_array_equal(MASKS.drawing.draw(arrays), np.hstack([image, labelled]))
        panels = MASKS.drawing.draw(arrays, logits)
        np.testing.assert_array_equal(panels[:, :24], np.hstack([image, labelled, predicted]))
        red = (panels[:, 24:] == (255, 40, 40)).all(axis=2)
        np.testing.assert_array_equal(red, (found != ids) & (ids != 200))
        assert panels[:, 24:][~red].max() <= 127
        assert MASKS.drawing.panels == "image, labels, prediction, errors in red"
        many = {"image": np.dstack([image, image]), "mask": ids}
        np.testing.assert_array_equal(MASKS.drawing.draw(many), np.hstack([image, labelled]))

    @pytest.mark.parametrize("predicted", [False, True])
    def test_what_is_around_the_image_is_left_out(self, predicted):
        image, ids = pixels(6, 8), NOISE.integers(0, 3, (6, 8), np.uint8)
        logits = torch.from_numpy(NOISE.random((3, 6, 8), np.float32)) if predicted else None
        record = masked(image[:5, :3], ids[:5, :3])
        arrays = {"image": image, "mask": ids, "size": np.array([5, 3])}
        inside = {"image": image[:5, :3], "mask": ids[:5, :3]}
        expected = MASKS.drawing.draw(inside, None if logits is None else logits[:, :5, :3])

        np.testing.assert_array_equal(MASKS.drawing.draw(arrays, logits, record), expected)
        assert expected.shape == (5, 12 if predicted else 6, 3)

    def test_of_mattes(self):
        image, shares = pixels(2, 3), np.array([[0, 100, 255], [-1, -1, 7]], np.int16)
        logits = torch.zeros(2, 2, 3)
        gray = np.repeat(np.array([[0, 100, 255], [0, 0, 7]], np.uint8)[..., np.newaxis], 3, 2)
        arrays = {"image": image, "mask": shares}

        np.testing.assert_array_equal(MATTES.drawing.draw(arrays), np.hstack([image, gray]))
        half = np.full((2, 3, 3), 128, np.uint8)  # 127.5, to the even one
        np.testing.assert_array_equal(MATTES.drawing.draw(arrays, logits), np.hstack([image, gray, half]))
        assert MATTES.drawing.legend == ()

    @pytest.mark.parametrize(("name", "plain"), [("background", True), ("ground", False)])
    def test_of_masks_with_a_background(self, name, plain):
        """Where truth and prediction say background, the image is as it was."""
        image, ids = pixels(4, 6, 8), np.zeros((4, 6, 8), np.uint8)
        logits = torch.zeros(3, 4, 6, 8)
        names = (name, "a", "b")
        masks = Segmentation("unet:test_resnet", names, 200, augment=Augment((6, 8)))
        arrays = {"image": image[0], "mask": ids[0]}
        first, second, third, _ = np.split(masks.drawing.draw(arrays, logits[:, 0]), 4, axis=1)
        assert np.array_equal(first, second) == plain
        assert np.array_equal(first, third) == plain

    def test_the_background_of_volumes_is_id_0_whatever_its_name(self):
        image, ids = pixels(4, 6, 8), np.zeros((4, 6, 8), np.uint8)
        first, second, third, _ = np.split(
            VOLUMES.drawing.draw({"image": image, "mask": ids}, torch.zeros(3, 4, 6, 8)), 4, axis=1
        )
        assert np.array_equal(first, second)
        assert np.array_equal(first, third)

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

        np.testing.assert_array_equal(BOXES.drawing.draw(arrays), true)
        np.testing.assert_array_equal(BOXES.drawing.draw(arrays, outputs), np.hstack([true, found]))
        assert BOXES.drawing.panels == "labels, prediction"

    def test_of_volumes(self):
        voxels, ids = pixels(4, 6, 8), np.zeros((4, 6, 8), np.uint8)
        ids[1, :3], ids[2, :2], ids[3] = 1, 2, 200  # of the ignored label there are most
        logits = torch.from_numpy(NOISE.random((3, 4, 6, 8), np.float32))
        colors = drawing.palette(200)
        drawn = [voxels[1], drawing.overlay(voxels[1], ids[1], colors, background=0)]
        found = logits[:, 1].argmax(0).to(torch.uint8).numpy()
        predicted = drawing.overlay(voxels[1], found, colors, background=0)
        wrong = drawing.errors(voxels[1], (found != ids[1]) & (ids[1] != 200))
        arrays = {"image": voxels, "mask": ids}

        np.testing.assert_array_equal(VOLUMES.drawing.draw(arrays), np.hstack(drawn))
        np.testing.assert_array_equal(VOLUMES.drawing.draw(arrays, logits), np.hstack([*drawn, predicted, wrong]))

    def test_of_a_volume_that_is_smaller_than_its_sample(self):
        voxels, ids = pixels(4, 6, 8), np.zeros((4, 6, 8), np.uint8)
        ids[1, :3], ids[3] = 1, 2  # the last slice is beside the volume
        logits = torch.from_numpy(NOISE.random((3, 4, 6, 8), np.float32))
        real = (slice(0, 3), slice(0, 5), slice(0, 7))
        record = masked(voxels[real].reshape(15, 7, 3), ids[real].reshape(15, 7), 3)
        expected = VOLUMES.drawing.draw({"image": voxels[real], "mask": ids[real]}, logits[(slice(None), *real)])

        found = VOLUMES.drawing.draw({"image": voxels, "mask": ids}, logits, record)
        np.testing.assert_array_equal(found, expected)
        assert expected.shape == (5, 28, 3)

    def test_volumes_of_one_modality_are_gray(self):
        voxels, ids = pixels(2, 3, 4)[..., :1], np.ones((2, 3, 4), np.uint8)
        best, image = telling_slice(voxels, ids, 200)
        assert best == 0
        np.testing.assert_array_equal(image, np.repeat(voxels[0], 3, axis=2))
