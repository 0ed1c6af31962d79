from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from support import miniatures
from support.datasets import records
from support.defaults import default_recipe
from support.watching import Given
from torch.nn import functional as F  # noqa: N812

from penstock.assembly import open_experiment
from penstock.config import apply
from penstock.datasets import inspect, pack
from penstock.images import decode_image
from penstock.kinds.fields import decode_classification
from penstock.models import FastNetwork, Normalization
from penstock.models.cifar import TutorialNetwork
from penstock.session.optimizer import make_optimizer
from penstock.settings import DataSettings
from penstock.settings.views import PadCrop
from penstock.training import train


def test_the_tutorials_network_is_given_toned_and_standardised_images(tmp_path):
    """cifar10_input.py: random_brightness(63), random_contrast(0.2, 1.8), per_image_standardization, in training."""
    miniatures.cifar10(tmp_path / "raw")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    chosen = default_recipe("classification", "cifar10-tutorial")
    chosen = dataclasses.replace(chosen, data=DataSettings(str(dataset.folder), validation="test"))
    given = Given()
    train(apply(chosen, ["train.steps=2", "train.batch=6", "train.device=cpu"]), tmp_path / "runs", hooks=[given])

    shifts, factors = set(), set()
    for batch, inputs in zip(given.batches, given.inputs, strict=True):
        assert inputs.shape == (6, 3, 24, 24)
        for pixels, draws, found in zip(batch["image"], batch["draws"], inputs, strict=True):
            x, shift, factor = pixels.movedim(-1, 0).float(), float(draws[9]), float(draws[10])
            mean = x.mean(dim=(1, 2), keepdim=True)
            x = (x - mean) * factor + mean + shift
            expected = (x - x.mean()) / max(float(x.std(correction=0)), x.numel() ** -0.5)
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
            shifts.add(shift)
            factors.add(factor)
    assert len(shifts) == len(factors) == 12
    assert max(map(abs, shifts)) <= 63
    assert 0.2 <= min(factors) < 1 < max(factors) <= 1.8


def test_the_tutorials_network_is_that_of_cifar10_py():
    model, x = TutorialNetwork(10), torch.randn(2, 3, 24, 24)
    own = dict(model.named_parameters())
    for name, spread, bias in (
        ("encoder.conv1", 0.05, 0.0),
        ("encoder.conv2", 0.05, 0.1),
        ("encoder.local3", 0.04, 0.1),
        ("encoder.local4", 0.04, 0.1),
        ("head", 1 / 192, 0.0),
    ):  # a normal distribution that is cut at two deviations has 0.88 of its deviation
        weight = own[f"{name}.weight"].detach()
        assert weight.abs().max() <= 2 * spread
        assert weight.std().item() == pytest.approx(0.88 * spread, rel=0.1)
        assert (own[f"{name}.bias"] == bias).all()

    def pooled(x):
        """tf.nn.max_pool(x, 3, 2, "SAME"): of even sides, one more row and column behind."""
        return F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=-torch.inf), 3, 2)

    def normed(x):
        """tf.nn.lrn(x, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75)."""
        around = F.pad((x**2).movedim(1, -1), (4, 4)).unfold(-1, 9, 1).sum(dim=-1).movedim(-1, 1)
        return x / (1 + 0.001 / 9 * around) ** 0.75

    def layer(name, x):
        weight, bias = own[f"{name}.weight"], own[f"{name}.bias"]
        return F.conv2d(x, weight, bias, padding=2) if weight.ndim == 4 else F.linear(x, weight, bias)

    y = normed(pooled(layer("encoder.conv1", 5 * x).relu()))
    y = pooled(normed(layer("encoder.conv2", y).relu()))
    y = layer("encoder.local4", layer("encoder.local3", y.flatten(1)).relu()).relu()

    torch.testing.assert_close(model(5 * x), layer("head", y), rtol=1e-5, atol=1e-6)


def test_a_training_of_cifar10_fast_begins_with_patches_of_its_data_whitened(tmp_path):
    miniatures.cifar10(tmp_path / "raw")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    chosen = dataclasses.replace(
        default_recipe("classification", "cifar10-fast"), data=DataSettings(str(dataset.folder))
    )
    first = open_experiment(chosen).model().encoder[0]
    images = [decode_image(decode_classification(record).image, "x") for record in records(dataset, "train")]
    mean, std = np.array([0.4914, 0.4822, 0.4465]), np.array([0.2470, 0.2435, 0.2616])
    shown = torch.from_numpy(((np.stack(images) / 255 - mean) / std).astype(np.float32)).movedim(-1, 1)
    predictions = F.conv2d(shown, first.weight)[:, :12].transpose(0, 1).flatten(1)

    torch.testing.assert_close(predictions @ predictions.T / predictions.shape[1], torch.eye(12), rtol=0, atol=0.02)


class TestCifar:
    def test_the_tutorials_network_has_its_parameters(self):
        model = TutorialNetwork(10)

        assert sum(parameter.numel() for parameter in model.parameters()) == 1_068_298
        assert model(torch.zeros(2, 3, 24, 24)).shape == (2, 10)

    def test_local_response_is_tensorflows(self):
        """tf.nn.lrn(x, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75): over four channels on either side."""
        x = torch.randn(2, 64, 5, 5)
        found = TutorialNetwork(10).encoder["norm"](x)
        for channel in (0, 3, 30, 63):
            window = x[:, max(0, channel - 4) : channel + 5]
            expected = x[:, channel] / (1 + 0.001 / 9 * (window**2).sum(dim=1)) ** 0.75
            assert torch.allclose(found[:, channel], expected, atol=1e-6)

    def test_its_decay_is_on_the_hidden_layers_alone(self):
        model, spec = TutorialNetwork(10), default_recipe("classification", "cifar10-tutorial").optimizer
        decayed = {
            name
            for group in make_optimizer(spec, model).param_groups
            for parameter in group["params"]
            for name, own in model.named_parameters()
            if own is parameter and group["weight_decay"] == 0.004
        }

        assert decayed == {"encoder.local3.weight", "encoder.local4.weight"}

    def test_its_recipe_is_the_published_one(self):
        chosen = default_recipe("classification", "cifar10-tutorial")

        assert (chosen.train.batch, chosen.train.ema_decay, chosen.optimizer.momentum) == (128, 0.9999, 0.0)
        assert [chosen.optimizer.rate(step, 10**6) for step in (0, 136_717)] == [0.1, 0.1]
        assert chosen.optimizer.rate(136_718, 10**6) == pytest.approx(0.01)
        augment, tones = chosen.augment, chosen.regularize
        assert (augment.crop, augment.view, augment.flip) == ((24, 24), PadCrop(), 0.5)
        assert (tones.brightness, tones.contrast) == (63, (0.2, 1.8))

    def test_images_are_standardised_one_by_one(self):
        """tf.image.per_image_standardization: (x - mean) / max(stddev, 1 / sqrt(number of values))."""
        pixels = 255 * torch.rand(2, 3, 24, 24)
        pixels[1] = 7.0
        found = Normalization((0.5,) * 3, (1,) * 3, alone=True).apply(pixels.clone())

        assert torch.allclose(found[0], (pixels[0] - pixels[0].mean()) / pixels[0].std(correction=0), atol=1e-4)
        assert not found[1].any()

    def test_the_first_layer_whitens(self):
        model, images = FastNetwork(10), torch.randn(64, 3, 32, 32).cumsum(dim=3)
        model.initialize_from(images)
        first = model.encoder[0]
        with torch.no_grad():
            predictions = first(images)[:, :12].transpose(0, 1).flatten(1)
        second = predictions @ predictions.T / predictions.shape[1]

        assert not first.weight.requires_grad
        assert torch.allclose(second, torch.eye(12), atol=0.02)
        assert model(images).shape == (64, 10)
