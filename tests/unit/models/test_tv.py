from __future__ import annotations

import pytest
import torch
import torchvision
from support.datasets import learn_squares

from penstock.assembly import open_parts
from penstock.errors import PenstockError, RecipeError
from penstock.models import build_detector
from penstock.models.tv import build_features
from penstock.training import train


@pytest.mark.parametrize("model", ["ssd:torchvision/resnet18", "fcos:torchvision/mobilenet_v3_large"])
def test_backbones_of_torchvision(squares, tmp_path, model):
    folder, outcome = train(learn_squares(squares, model, steps=1, evaluate_every=1), tmp_path)
    network = open_parts(learn_squares(squares, model)).model()

    assert outcome.status == "finished"
    assert (folder.path / "checkpoints" / "last").exists()
    maps = network.network.backbone.encoder.eval()(torch.zeros(1, 3, 64, 96))
    assert [tuple(each.shape[2:]) for each in maps] == [(8, 12), (4, 6), (2, 3)]
    assert [each.shape[1] for each in maps] == network.network.backbone.encoder.feature_info.channels()


def test_weights_of_torchvision_are_loaded_from_its_cache_or_a_file(tmp_path, monkeypatch):
    torch.manual_seed(0)
    source = torchvision.models.resnet18()
    name = torchvision.models.ResNet18_Weights.DEFAULT.url.rpartition("/")[2]
    (tmp_path / "hub/checkpoints").mkdir(parents=True)
    torch.save(source.state_dict(), tmp_path / "hub/checkpoints" / name)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    for weights in ("pretrained", str(tmp_path / "hub/checkpoints" / name)):
        network = build_detector("ssd:torchvision/resnet18", 2, weights).network.backbone.encoder.body
        assert torch.equal(network.state_dict()["layer3.0.conv1.weight"], source.layer3[0].conv1.weight)


@pytest.mark.parametrize(
    ("name", "weights", "message"),
    [
        (
            "ssd:torchvision/resnet19",
            "none",
            "model.name = 'ssd:torchvision/resnet19': expected a torchvision backbone, found torchvision/resnet19. Did you "
            "mean torchvision/resnet18 or ",
        ),
        (
            "fasterrcnn:torchvision/vit_b_16",
            "none",
            "model.name = 'fasterrcnn:torchvision/vit_b_16': expected a backbone with features at strides 4, 8, 16, 32, found "
            "torchvision/vit_b_16. Choose a convolutional one, such as torchvision/resnet50 or torchvision/convnext_tiny.",
        ),
        (
            "ssd:torchvision/resnet18",
            "nowhere",
            "nowhere: expected 'pretrained', 'none', or a file of weights, found no such",
        ),
        ("ssd:torchvision/resnet18", __file__, "expected weights that fit the backbone, found "),
    ],
)
def test_backbones_of_torchvision_that_cannot_be_had(name, weights, message):
    with pytest.raises(PenstockError) as error:
        build_detector(name, 2, weights)

    assert message in str(error.value)


@pytest.mark.parametrize(
    ("backbone", "channels"),
    [
        ("resnet50", [256, 512, 1024, 2048]),
        ("resnet18", [64, 128, 256, 512]),
        ("convnext_tiny", [96, 192, 384, 768]),
        ("efficientnet_b0", [24, 40, 112, 1280]),
    ],
)
def test_features_of_torchvision_are_those_of_the_last_block_of_each_stride(backbone, channels):
    assert build_features("x", f"torchvision/{backbone}", (4, 8, 16, 32), "none").feature_info.channels() == channels


def test_maps_with_channels_last_are_no_features():
    with pytest.raises(
        RecipeError, match=r"expected a backbone with features at strides 8, 16, 32, found torchvision/swin_t"
    ):
        build_detector("ssd:torchvision/swin_t", 2, "none")
