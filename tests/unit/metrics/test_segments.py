from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch
import torchmetrics
from support.masks import random_masks

from penstock.metrics import Segments


def brute(found, true, classes, ignore=255):
    """The definitions, by OpenCV's morphology."""
    counts = np.zeros((classes, 7))
    width = max(1, round(0.02 * np.hypot(*true.shape[1:])))
    square, edge = np.ones((3, 3), np.uint8), {"borderType": cv2.BORDER_CONSTANT, "borderValue": 0}
    for mine, theirs in zip(np.where(true == ignore, ignore, found), true, strict=True):
        for label in range(classes):
            a, b = mine == label, theirs == label
            if not a.any() and not b.any():
                continue
            edges = [m & ~cv2.erode(m.astype(np.uint8), square, iterations=width, **edge).astype(bool) for m in (a, b)]
            counts[label, 0] += (edges[0] & edges[1]).sum()
            counts[label, 1] += (edges[0] | edges[1]).sum()
            overlap = (a & b).sum() / (a | b).sum()
            counts[label, 5:] += b.sum(), b.sum() * overlap
            if overlap > 0.5:
                counts[label, 2:4] += overlap, 1
            else:
                counts[label, 4] += (a.any() + b.any()) / 2
    quality = counts[:, 2] / (counts[:, 3] + counts[:, 4])
    return counts[:, 0] / counts[:, 1], quality, counts[:, 6] / counts[:, 5]


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_their_definitions(seed):
    true = random_masks(seed)
    found = np.where(
        np.random.default_rng(seed).random(true.shape) < 0.02, 1, np.roll(random_masks(seed, ignored=False), 1, axis=2)
    )
    segments = Segments(4, 255)
    for i in range(len(true)):
        segments.update(torch.from_numpy(found[i : i + 1]), torch.from_numpy(true[i : i + 1]))
    scores = segments.scores()
    boundary, quality, covering = brute(found, true, 4)
    assert scores.covering == pytest.approx(covering.tolist(), abs=1e-6)

    assert scores.boundary_iou == pytest.approx(boundary.tolist())
    assert scores.panoptic_quality == pytest.approx(quality.tolist(), abs=1e-9)


def test_perfect_masks_are_perfect_and_absent_classes_have_none():
    true = torch.from_numpy(random_masks(1, classes=3))
    segments = Segments(4, 255)
    segments.update(true, true)
    found = segments.scores().as_json(["a", "b", "c", "d"])

    assert (found["boundary_iou"], found["panoptic_quality"]) == (1.0, 1.0)
    assert found["segments"][3] == {"name": "d", "boundary_iou": None, "panoptic_quality": None, "covering": None}


def test_a_boundary_is_as_wide_as_the_image_wants_it():
    """Not as the canvas does, which is as large as the split's largest image."""
    draw = np.random.default_rng(0)
    small = torch.from_numpy(cv2.resize(draw.integers(0, 3, (6, 8), np.uint8), (64, 48), interpolation=0))[None]
    found = torch.from_numpy(cv2.resize(draw.integers(0, 3, (6, 8), np.uint8), (64, 48), interpolation=0))[None]
    alone, padded = Segments(3, 255), Segments(3, 255)
    alone.update(found, small)
    canvas = torch.full((1, 480, 640), 255, dtype=torch.uint8)
    wide = canvas.clone()
    canvas[:, :48, :64], wide[:, :48, :64] = small, found
    padded.update(wide, canvas, torch.tensor([[48, 64]]))

    assert torch.equal(alone.counts, padded.counts)


IGNORED, COUNT = 255, 5


@pytest.mark.parametrize("seed", range(4))
def test_panoptic_quality_is_that_of_torchmetrics(seed):
    """A class is one segment of an image, so its id is the only instance."""
    true = torch.from_numpy(random_masks(seed, ignored=False)).long()
    found = torch.where(torch.rand(true.shape) < 0.2, true.roll(5, dims=2), true)
    segments = Segments(4, IGNORED)
    segments.update(found, true)
    theirs = torchmetrics.detection.PanopticQuality(things=set(), stuffs=set(range(4)), return_per_class=True)
    other = theirs(*(torch.stack([each, torch.zeros_like(each)], dim=-1) for each in (found, true)))

    assert segments.scores().panoptic_quality == pytest.approx(other.flatten().tolist(), rel=1e-6)


class TestSegments:
    def test_whole_and_half_found(self):
        """Class 0 covers 40 of the 64 pixels that either has; of class 1's 16 pixels nothing is found."""
        target, predicted = torch.zeros((1, 8, 8), dtype=torch.uint8), torch.zeros((1, 8, 8), dtype=torch.uint8)
        target[:, :2] = 1
        predicted[:, 7:] = 2
        segments = Segments(4, 255)
        segments.update(predicted, target)
        found = segments.scores().as_json(["a", "b", "c", "d"])

        both, either = 40, 64
        assert [(each["name"], each["panoptic_quality"], each["covering"]) for each in found["segments"]] == [
            ("a", pytest.approx(both / either), pytest.approx(both / either, abs=1e-5)),
            ("b", 0.0, 0.0),
            ("c", 0.0, None),
            ("d", None, None),
        ]
        assert found["panoptic_quality"] == pytest.approx(both / either / 3)
        assert found["covering"] == pytest.approx(both / either / 2, abs=1e-5)

    @pytest.mark.parametrize(("rows", "quality"), [(4, 0.0), (5, 5 / 8)])
    def test_an_overlap_of_half_is_no_match(self, rows, quality):
        target, predicted = torch.full((1, 8, 8), 255, dtype=torch.uint8), torch.ones((1, 8, 8), dtype=torch.uint8)
        target[:] = 1
        predicted[:, rows:] = 0
        segments = Segments(2, 255)
        segments.update(predicted, target)

        assert segments.scores().panoptic_quality[1] == pytest.approx(quality)

    def test_borders_are_as_wide_as_the_image_wants_that_fills_a_corner(self):
        draw = torch.Generator().manual_seed(1)
        coarse = torch.randint(0, 3, (2, 1, 6, 8), generator=draw).repeat_interleave(20, 2).repeat_interleave(20, 3)
        predicted, target = coarse[0].to(torch.uint8), coarse[1].to(torch.uint8)
        alone, padded = Segments(3, 255), Segments(3, 255)
        alone.update(predicted[:, :40, :60], target[:, :40, :60])
        target[:, 40:], target[:, :, 60:] = 255, 255
        padded.update(predicted, target, torch.tensor([[40, 60]]))
        whole = Segments(3, 255)
        whole.update(predicted, target)

        assert padded.scores().boundary_iou == alone.scores().boundary_iou
        assert whole.scores().boundary_iou != alone.scores().boundary_iou
