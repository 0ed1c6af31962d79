from __future__ import annotations

import pytest
import torch
from support.deeplab import images, network
from torch import nn

from penstock.errors import RecipeError
from penstock.models import build_segmenter
from penstock.settings import DeepLabConfig


@pytest.mark.parametrize("stride", [8, 16, 32])
def test_features_are_dilated_and_not_shrunk(stride):
    model = network(output_stride=stride)
    fine, _, coarse = model.encoder(images())

    assert (fine.shape[-1], coarse.shape[-1]) == (16, 64 // stride)
    assert model.eval()(images()).shape == (2, 5, 64, 64)
    assert sum(p.numel() for p in model.parameters()) == sum(p.numel() for p in network().parameters())


def test_rates_are_deeplabs_for_the_stride():
    def rates(**parts):
        return [branch[0].dilation[0] for branch in network(**parts).aspp.atrous]

    assert [rates(output_stride=stride) for stride in (32, 16, 8)] == [[3, 6, 9], [6, 12, 18], [12, 24, 36]]
    assert rates(rates=(2, 5)) == [2, 5]


def test_multi_grid_multiplies_the_last_stages_dilation():
    def dilations(grid):
        last = list(network(output_stride=8, multi_grid=grid).encoder.children())[-1]
        return [
            [m.dilation[0] for m in block.modules() if isinstance(m, nn.Conv2d) and m.kernel_size[0] > 1]
            for block in last
        ]

    plain = dilations(())
    assert dilations((1, 2)) == [plain[0], [2 * rate for rate in plain[1]]]
    assert network(output_stride=8, multi_grid=(1, 2)).eval()(images()).shape == (2, 5, 64, 64)


def test_a_backbone_that_cannot_be_dilated_is_refused():
    with pytest.raises(RecipeError) as caught:
        build_segmenter("deeplab:vit_tiny_patch16_224", 3, "none")

    assert str(caught.value) == (
        "model.name = 'deeplab:vit_tiny_patch16_224': expected a backbone with features of stride 4, which can be dilated to "
        "stride 16, found vit_tiny_patch16_224. Choose a convolutional one, such as resnet50, xception65 or convnext_tiny."
    )


@pytest.mark.parametrize("backbone", ["mobilenetv3_small_050", "xception41"])
def test_multi_grid_needs_a_row_of_blocks(backbone):
    with pytest.raises(RecipeError, match=r"model\.deeplab\.multi_grid: expected a backbone whose last stage is a row"):
        build_segmenter(f"deeplab:{backbone}", 2, "none", DeepLabConfig(multi_grid=(1, 2, 4)))


def test_multi_grid_dilates_convnexts_blocks_one_by_one():
    plain, model = (
        build_segmenter("deeplab:convnext_atto", 2, "none", DeepLabConfig(multi_grid=factors)).encoder
        for factors in ((), (1, 2))
    )
    rates = [
        [layer.dilation[0] for layer in list(each.children())[-1].blocks.modules() if getattr(layer, "groups", 1) > 1]
        for each in (plain, model)
    ]

    assert len(rates[0]) == 2
    assert rates[1] == [rates[0][0], 2 * rates[0][1]]


def test_the_last_factor_of_multi_grid_is_for_all_blocks_that_follow():
    def dilations(*grid):
        torch.manual_seed(0)
        network = build_segmenter(
            "deeplab:resnet18", 3, "none", DeepLabConfig(channels=8, output_stride=8, multi_grid=grid)
        )
        layers = [m for m in list(network.encoder.children())[-1].modules() if isinstance(m, nn.Conv2d)]
        return [m.dilation[0] for m in layers if m.kernel_size[0] > 1]

    assert dilations(3) == [3 * rate for rate in dilations()]
