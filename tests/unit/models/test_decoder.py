"""The options of decoders of segmentation_models.pytorch, by its own names."""

from __future__ import annotations

import pytest
import segmentation_models_pytorch as smp
import torch
from support.errors import refused

from penstock.errors import RecipeError
from penstock.models import ARCHITECTURES, build_segmenter, decoder_options

CHANNELS = [64, 32, 32, 16, 16]
OTHERS = {
    "deeplabv3plus": {"decoder_channels": 32, "decoder_atrous_rates": [2, 4, 6]},
    "deeplabv3": {"decoder_channels": 32, "decoder_atrous_rates": [2, 4, 6]},
    "unet": {"decoder_channels": CHANNELS, "decoder_attention_type": "scse"},
    "unetplusplus": {"decoder_channels": CHANNELS},
    "fpn": {"decoder_pyramid_channels": 32, "decoder_segmentation_channels": 32, "decoder_merge_policy": "cat"},
    "segformer": {"decoder_segmentation_channels": 64},
    "upernet": {"decoder_channels": 64},
    "pspnet": {"psp_out_channels": 64},
    "linknet": {"decoder_use_norm": False},
    "manet": {"decoder_channels": CHANNELS, "decoder_pab_channels": 8},
    "pan": {"decoder_channels": 16},
}


@pytest.mark.parametrize("architecture", OTHERS)
def test_a_network_is_made_with_them(architecture):
    options = OTHERS[architecture]
    torch.manual_seed(0)
    theirs = smp.create_model(architecture, "resnet18", encoder_weights=None, classes=3, **options)
    ours = build_segmenter(f"{architecture}:resnet18", 3, "none", options=options)
    plain = build_segmenter(f"{architecture}:resnet18", 3, "none")
    heads = {name: value.shape for name, value in theirs.state_dict().items() if name.startswith(("decoder.", "segm"))}

    assert {name: value.shape for name, value in ours.state_dict().items() if name in heads} == heads
    assert {name: value.shape for name, value in plain.state_dict().items() if name in heads} != heads
    with torch.inference_mode():
        assert ours.eval()(torch.zeros(1, 3, 128, 128)).shape == (1, 3, 128, 128)


def test_every_architecture_has_some():
    for architecture in ARCHITECTURES:
        known = decoder_options(f"{architecture}:resnet18")
        assert bool(known) == (architecture != "deeplab"), architecture
        assert not {"classes", "in_channels", "encoder_name", "activation", "aux_params"} & set(known)
    assert decoder_options("unet:resnet18")["decoder_channels"] == (256, 128, 64, 32, 16)
    assert decoder_options("resnet18") == decoder_options("net.py:build") == {}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "unet:resnet18",
            {"decoder_chanels": [1]},
            "model.decoder.decoder_chanels: expected one of encoder_depth, decoder_use_norm, decoder_channels, "
            "decoder_attention_type, decoder_interpolation, found decoder_chanels. Did you mean "
            "model.decoder.decoder_channels?",
        ),
        (
            "unet:resnet18",
            {"classes": 7},
            "model.decoder.classes: expected one of encoder_depth, decoder_use_norm, decoder_channels, "
            "decoder_attention_type, decoder_interpolation, found classes. Check the name.",
        ),
    ],
)
def test_options_that_it_does_not_have_are_named(name, options, message):
    refused(build_segmenter, name, 3, "none", options=options, message=message)


def test_values_that_do_not_fit_are_named():
    with pytest.raises(RecipeError) as caught:
        build_segmenter("unet:resnet18", 3, "none", options={"decoder_channels": [32, 16]})
    said = str(caught.value)
    assert said.startswith(
        "model.decoder: expected options that the decoder of unet takes, found decoder_channels=[32, 16] ("
    )
    assert said.endswith("). Change them, or remove model.decoder.")
