from __future__ import annotations

import json

import numpy as np
from support.datasets import records
from support.training import recipe

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
