from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import segmentation_models_pytorch as smp
import timm
import torch
from support.defaults import default_recipe
from support.errors import refused
from support.training import recipe

from penstock.assembly import open_experiment
from penstock.config import apply
from penstock.errors import RecipeError
from penstock.models import ARCHITECTURES, build_segmenter, parse_name
from penstock.tasks import Segmentation
from penstock.training.compatibility import check_optimizer

BASE = smp.base.SegmentationModel


def test_architectures_are_those_of_segmentation_models_pytorch():
    """All of them, and DeepLab with every part a setting."""
    theirs = {cls.__name__.lower() for cls in vars(smp).values() if isinstance(cls, type) and issubclass(cls, BASE)}

    assert len(theirs) == 12
    assert set(ARCHITECTURES) - {"deeplab"} == theirs


def test_vision_transformers_see_images_of_any_size(tmp_path):
    torch.save(timm.create_model("test_vit").state_dict(), tmp_path / "w.pth")
    model = build_segmenter("dpt:test_vit", 5, str(tmp_path / "w.pth")).eval()

    assert model(torch.zeros(2, 3, 64, 96)).shape == (2, 5, 64, 96)
    with pytest.raises(
        RecipeError, match=r"model.name: expected a backbone that the architecture takes, found resnet18 \("
    ):
        build_segmenter("dpt:resnet18", 5, "none")


@pytest.mark.parametrize("architecture", [name for name in ARCHITECTURES if name != "dpt"])
@pytest.mark.parametrize("backbone", ["test_resnet", "mobilenetv3_small_050"])
def test_every_architecture_takes_any_timm_backbone(architecture, backbone):
    model = build_segmenter(f"{architecture}:{backbone}", 5, "none").eval()

    assert model(torch.zeros(2, 3, 128, 160)).shape == (2, 5, 128, 160)  # pan takes none much smaller


def test_segformer_has_its_own_backbones():
    assert build_segmenter("segformer:mit_b0", 2, "none").eval()(torch.zeros(1, 3, 64, 64)).shape == (1, 2, 64, 64)


def test_unknown_names_are_predicted_with_the_nearest():
    with pytest.raises(RecipeError) as caught:
        parse_name("deeplabv3pluss:resnet50")
    assert str(caught.value) == (
        "model.name = 'deeplabv3pluss:resnet50': expected an architecture, found deeplabv3pluss. Did you mean "
        "deeplabv3plus or deeplabv3 or deeplab?"
    )
    with pytest.raises(RecipeError, match=r"expected a timm backbone, found resnet51\. Did you mean resnet5"):
        parse_name("unet:resnet51")
    with pytest.raises(RecipeError) as caught:
        parse_name("unet")
    assert str(caught.value) == (
        "model.name = 'unet': expected ARCHITECTURE:BACKBONE, found an architecture without a backbone. Name a backbone of "
        "timm, for example unet:resnet50."
    )
    with pytest.raises(RecipeError) as caught:
        parse_name("resnet18.a1_in1k")
    assert str(caught.value) == (
        "model.name = 'resnet18.a1_in1k': expected ARCHITECTURE:BACKBONE, found a backbone of timm without an "
        "architecture. Name one, for example unet:resnet18.a1_in1k."
    )
    with pytest.raises(RecipeError) as caught:
        parse_name("resnet5")
    assert str(caught.value) == (
        "model.name = 'resnet5': expected ARCHITECTURE:BACKBONE, for example unet:resnet50, found resnet5. The "
        "architectures are deeplabv3plus, deeplabv3, deeplab, unet, unetplusplus, fpn, segformer, upernet, pspnet, "
        "linknet, manet, dpt, pan; the backbones are those of timm."
    )
    with pytest.raises(RecipeError, match=r"found xyz\. Choose one of deeplabv3plus, deeplabv3, deeplab, unet, "):
        parse_name("xyz:resnet50")


def test_padding_is_nothing_to_the_network(packed):
    """What lies outside an image becomes 0 up to the rounding of a byte, as the same mean is taken from it."""
    task = Segmentation("unet:resnet18", ("a", "b", "c", "d", "e", "f"), canvas=(128, 128))
    sample = dataclasses.replace(
        open_experiment(recipe(packed.folder)).training_feed(), prepare=task.prepare(train=False)
    )[0]
    image = torch.from_numpy(np.asarray(sample.arrays["image"])).unsqueeze(0)
    seen = task.inputs({"image": image})[0]
    step = 1 / 255 / min(task.normalization.std)

    assert sample.arrays["image"].shape == (128, 128, 3)
    assert seen[:, 64:].abs().max() <= step / 2 + 1e-6
    assert seen[:, :, 96:].abs().max() <= step / 2 + 1e-6
    assert seen[:, :64, :96].abs().max() > 1


class TestLearning:
    def test_nothing_that_pspnet_does_not_reach_learns(self):
        model = build_segmenter("pspnet:mobilenetv3_small_050", 2, "none").train()
        model(torch.zeros(2, 3, 64, 64)).sum().backward()
        still = [name for name, parameter in model.named_parameters() if not parameter.requires_grad]

        assert still
        assert [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None] == []

    def test_what_has_no_backbone_is_told_so(self):
        model = torch.nn.Linear(2, 2)
        chosen = default_recipe("volumes")
        refused(
            check_optimizer,
            apply(chosen, ["optimizer.name=muon"]),
            model,
            message="optimizer.name = muon is for the convolution weights of a backbone, but unet3d has no backbone. Use adamw.",
        )
        refused(
            check_optimizer,
            apply(chosen, ["optimizer.head_lr_mult=10"]),
            model,
            message="optimizer.head_lr_mult = 10 has no effect, as unet3d has no backbone. Remove optimizer.head_lr_mult.",
        )


@pytest.mark.parametrize("name", ["unet", "linknet", "fpn", "pspnet", "manet", "pan", "segformer", "deeplabv3plus"])
def test_an_architecture_is_the_one_of_its_name(name):
    import segmentation_models_pytorch as smp

    from penstock.models import build_segmenter

    (theirs,) = [kind for own, kind in vars(smp).items() if isinstance(kind, type) and own.lower() == name]

    assert type(build_segmenter(f"{name}:test_resnet", 3, "none")) is theirs
