from __future__ import annotations

import copy

import pytest
import torch
from support.beginnings import begun, make_mattes
from support.training import recipe
from torch import nn

from penstock.config import apply
from penstock.models import build_segmenter
from penstock.settings import Branch, DeepLabConfig, Train

PARTS = {
    "output_stride=8": {"output_stride": 8},
    "output_stride=32": {"output_stride": 32},
    "rates=[1, 2]": {"rates": (1, 2)},
    "multi_grid=[2]": {"output_stride": 8, "multi_grid": (2,)},
    "separable=false": {"separable": False},
    "pooling=false": {"pooling": False},
    "pooling_size=[32, 48]": {"pooling_size": (32, 48)},
    "pooling_stride=[2, 2]": {"pooling_size": (32, 32), "pooling_stride": (2, 2)},
    "squeeze_excite=true": {"squeeze_excite": True},
    "norms=false": {"norms": False},
    "channels=8": {"channels": 8},
    "projection=false": {"projection": False},
    "cell=[{of=-1, rate=[1, 6]}, {of=0, grid=[2, 1]}]": {"cell": (Branch(-1, (1, 6)), Branch(0, grid=(2, 1)))},
    "decoder=false": {"decoder": False},
    "decoder_strides=[8, 4]": {"decoder_strides": (8, 4)},
    "decoder_sum=true": {"decoder_sum": True},
    "decoder_logits=true": {"decoder_logits": True},
    "logits_kernel=3": {"logits_kernel": 3},
    "image_pyramid=[0.5, 1.0]": {"image_pyramid": (0.5, 1.0)},
    "merge=average": {"image_pyramid": (0.5, 1.0), "merge": "average"},
    "aux_loss_weight=0.4": {"aux_loss_weight": 0.4},
    "upsample=false": {"upsample": False},
}


def without_chance(network):
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return network


def predictions(network, images):
    """In evaluation, and all that there is in training, with their weights."""
    with torch.no_grad():
        learnt = without_chance(network).train()(images)
        shown = network.eval()(images)
    return [(1.0, shown), *learnt]


def same(one, other):
    return len(one) == len(other) and all(
        a == b and x.shape == y.shape and torch.allclose(x, y, atol=1e-4)
        for (a, x), (b, y) in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("matting", [False, True], ids=["masks", "mattes"])
@pytest.mark.parametrize("setting", PARTS)
def test_a_part_of_the_recipe_is_a_part_of_the_network(packed, soft, tmp_path, setting, matting):
    parts = PARTS[setting]
    more = [f"{name}={toml(value)}" for name, value in parts.items() if not setting.startswith(f"{name}=")]
    settings = [f"model.deeplab.{each}" for each in [*([] if "channels" in parts else ["channels=16"]), *more, setting]]
    data = (soft if matting else packed).folder
    plain = recipe(data, "deeplab:test_resnet", ema_decay=0.0, evaluate_every=Train().evaluate_every)
    chosen = apply(plain, ["data.validation=", *settings])
    ours = begun(chosen, tmp_path)
    with torch.no_grad():  # a new residual branch ends in zeros, and would not be seen
        for parameter in ours.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    classes, base = 2 if matting else 6, {"channels": 16}
    theirs = build_segmenter("deeplab:test_resnet", classes, "none", DeepLabConfig(**{**base, **parts}))
    theirs.load_state_dict(ours.state_dict())
    images = torch.randn((2, 3, 96, 96), generator=torch.Generator().manual_seed(0))
    found = predictions(copy.deepcopy(ours), images)

    assert same(found, predictions(theirs, images))
    name = setting.partition("=")[0]
    plain = build_segmenter(
        "deeplab:test_resnet",
        classes,
        "none",
        DeepLabConfig(**{key: value for key, value in {**base, **parts}.items() if key != name}),
    )
    if {k: v.shape for k, v in plain.state_dict().items()} == {k: v.shape for k, v in ours.state_dict().items()}:
        plain.load_state_dict(ours.state_dict())
        assert not same(found, predictions(plain, images))


def toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else str(value)


@pytest.fixture(scope="module")
def soft(tmp_path_factory):
    return make_mattes(tmp_path_factory.mktemp("soft"))
