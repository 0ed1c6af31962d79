from __future__ import annotations

from penstock.models import normalization


def test_normalization_is_the_backbones():
    assert normalization("resnet50").fill == (124, 116, 104)
    assert normalization("mit_b0").mean == (0.485, 0.456, 0.406)
    assert normalization("vit_base_patch16_224").mean == (0.5, 0.5, 0.5)
