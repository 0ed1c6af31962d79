from __future__ import annotations

import numpy as np
from support.datasets import records
from support.layouts import pack_miniature

from penstock.images import decode_mask
from penstock.kinds.fields import decode_segmentation


def test_ade20k_ids_begin_with_one(tmp_path):
    dataset = pack_miniature("ade20k", tmp_path)
    raw = np.random.default_rng(0).integers(0, 151, (24, 32), np.uint8)
    record = next(r for r in map(decode_segmentation, records(dataset, "train")) if r.name.endswith("00000"))

    assert (decode_mask(record.mask, "m") == np.where(raw == 0, 255, raw - 1)).all()
    assert dataset.description.classes[:2] == ("thing1", "thing2")
