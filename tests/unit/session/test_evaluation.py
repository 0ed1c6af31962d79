from __future__ import annotations

import json

import numpy as np
import pytest
from support.datasets import records
from support.training import recipe

from penstock.config import apply
from penstock.images import decode_mask
from penstock.kinds.fields import decode_segmentation
from penstock.training import train


def pixels_in_records(dataset, split):
    """How many pixels of every id the masks of a split have."""
    masks = [decode_mask(decode_segmentation(record).mask, "x") for record in records(dataset, split)]
    return sum(np.bincount(mask.ravel(), minlength=256) for mask in masks)


def test_an_evaluation_counts_every_labelled_pixel_once(packed, tmp_path):
    """Seven images in batches of four: what fills up the second one is no image."""
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path)
    found = json.loads((folder.path / "evaluations" / "step-00000001.json").read_text())

    assert [sum(row) for row in found["confusion"]] == pixels_in_records(packed, "val")[:6].tolist()


def test_each_loss_is_divided_by_its_count(packed, tmp_path):
    """Cross-entropy by pixels, Dice by images: what an evaluation with both gives is the sum of each alone."""
    found = []
    for terms in (["loss.dice=1.0"], ["loss.dice=1.0", "loss.cross_entropy=0.0"], []):
        folder, _ = train(apply(recipe(packed.folder, steps=1), [*terms, "optimizer.lr=1e-9"]), tmp_path)
        found.append(json.loads((folder.path / "evaluations/step-00000001.json").read_text())["loss"])
    both, dice, alone = found
    assert both == pytest.approx(dice + alone, rel=1e-4)
    assert min(dice, alone) > 0.1
