from __future__ import annotations

import dataclasses

import pytest
from support.errors import refused
from support.training import recipe

from penstock.models import build_classifier, build_detector, build_segmenter


class TestNames:
    """Layers are called as they are: checkpoints of before are to be loaded."""

    def test_of_deeplab(self):
        model = build_segmenter(
            "deeplab:test_resnet",
            3,
            "none",
            dataclasses.replace(recipe("x").model.deeplab, rates=(6,), aux_loss_weight=0.4),
        )
        names = [name for name in model.state_dict() if not name.startswith("encoder.") and name.endswith("weight")]

        assert names == DEEPLAB

    @pytest.mark.parametrize(
        ("build", "name", "parts"),
        [
            (build_segmenter, "unet:test_resnet", ["encoder", "decoder", "segmentation_head"]),
            (build_segmenter, "deeplabv3plus:test_resnet", ["encoder", "decoder", "segmentation_head"]),
            (build_segmenter, "manet:test_resnet", ["encoder", "decoder", "segmentation_head"]),
            (build_detector, "ssd:test_resnet", ["network.backbone.encoder", "network.backbone.neck", "network.head"]),
            (build_detector, "retinanet:test_resnet", ["network.backbone.encoder", "network.backbone.neck", "network.head"]),
            (build_detector, "fcos:test_resnet", ["network.backbone.encoder", "network.backbone.neck", "network.head"]),
            (build_detector, "fasterrcnn:test_resnet",
             ["network.backbone.encoder", "network.backbone.neck", "network.rpn", "network.roi_heads"]),
        ],
    )  # fmt: skip
    def test_of_others(self, build, name, parts):
        names = list(build(name, 3, "none").state_dict())

        assert all(any(each.startswith(f"{part}.") for part in parts) for each in names), names[:5]
        assert all(any(each.startswith(f"{part}.") for each in names) for part in parts)


DEEPLAB = [
    "aspp.point.0.weight",
    "aspp.point.1.weight",
    "aspp.atrous.0.0.weight",
    "aspp.atrous.0.1.weight",
    "aspp.atrous.0.3.weight",
    "aspp.atrous.0.4.weight",
    "aspp.pooling.0.weight",
    "aspp.pooling.1.weight",
    "aspp.project.0.0.weight",
    "aspp.project.0.1.weight",
    "decoder.skip.0.weight",
    "decoder.skip.1.weight",
    "decoder.refine.0.0.weight",
    "decoder.refine.0.1.weight",
    "decoder.refine.0.3.weight",
    "decoder.refine.0.4.weight",
    "decoder.refine.1.0.weight",
    "decoder.refine.1.1.weight",
    "decoder.refine.1.3.weight",
    "decoder.refine.1.4.weight",
    "logits.weight",
    "auxiliary.0.0.weight",
    "auxiliary.0.1.weight",
    "auxiliary.2.weight",
]


def test_networks_without_weights_take_no_file_of_them():
    refused(
        build_classifier,
        "cifar10-fast",
        10,
        "w.pth",
        message="model.weights = w.pth cannot be loaded: cifar10-fast has no backbone of timm. Remove model.weights. To start from the weights of a run, use --init RUN.",
    )
