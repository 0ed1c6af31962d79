from __future__ import annotations

import numpy as np

from penstock.images import drawing


def test_palettes_are_the_published_ones():
    voc = drawing.palette_of("voc", 255)

    assert [tuple(color) for color in voc[[0, 1, 2, 15, 20, 255]]] == [
        (0, 0, 0), (128, 0, 0), (0, 128, 0), (192, 128, 128), (0, 64, 128), (224, 224, 192),
    ]  # fmt: skip
    assert tuple(drawing.palette_of("cityscapes", 255)[13]) == (0, 0, 142)
    ade20k = drawing.palette_of("ade20k", 255)
    assert tuple(ade20k[0]) == (120, 120, 120)  # wall
    assert tuple(ade20k[2]) == (6, 230, 230)  # sky
    assert tuple(ade20k[149]) == (92, 0, 255)  # flag
    assert len(np.unique(ade20k[:150], axis=0)) == 149  # two classes share a gray, as published
    assert not ade20k[150:].any()
