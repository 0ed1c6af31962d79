from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from penstock.models import TestTimeAugmentation, TTAModel, Window
from penstock.tasks import ReadyModel, Segmentation


class Slanted(torch.nn.Module):
    """Logits that depend on the place, so that a mirrored look answers otherwise."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, images):
        slope = torch.linspace(-2, 2, images.shape[3]).view(1, 1, 1, -1)
        return self.conv(images) + slope * torch.tensor([1.0, 0.0, -1.0, 2.0]).view(1, 4, 1, 1)


@pytest.fixture
def model():
    torch.manual_seed(3)
    return Slanted().eval()


@pytest.fixture
def images():
    return torch.randn(2, 3, 64, 96, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_a_single_look_is_the_models_own(model, images):
    assert TestTimeAugmentation().single
    assert TestTimeAugmentation().name == ""
    torch.testing.assert_close(TTAModel(model, TestTimeAugmentation())(images), model(images).log_softmax(dim=1))


@torch.no_grad()
def test_the_mirror_counts_with_one_scale_too(model, images):
    """DeepLab ignores the flag there, and still writes it beside the score."""
    expected = (model(images).softmax(dim=1) + model(images.flip(3)).softmax(dim=1).flip(3)) / 2
    found = TTAModel(model, TestTimeAugmentation(flip=True))(images)

    torch.testing.assert_close(found.exp(), expected)
    assert not torch.allclose(found, model(images).log_softmax(dim=1), atol=0.1)


@torch.no_grad()
def test_probabilities_are_averaged_and_not_put_through_a_softmax_again(model, images):
    found = TTAModel(model, TestTimeAugmentation((0.5, 1.0, 1.5), flip=True))(images)
    looks = []
    for height, width in ((32, 64), (64, 96), (96, 128)):  # sides are rounded to multiples of 32
        small = functional.interpolate(
            images, (height, width), mode="bilinear", align_corners=False, antialias=height < 64
        )
        for mirrored in (False, True):
            view = small.flip(3) if mirrored else small
            prediction = model(view).softmax(dim=1)
            prediction = prediction.flip(3) if mirrored else prediction
            looks.append(
                functional.interpolate(
                    prediction, (64, 96), mode="bilinear", align_corners=False, antialias=height > 64
                )
            )

    torch.testing.assert_close(found.exp(), torch.stack(looks).mean(dim=0))
    torch.testing.assert_close(found.exp().sum(dim=1), torch.ones(2, 64, 96))
    torch.testing.assert_close(found.log_softmax(dim=1), found)  # so that it can take the place of logits


@torch.no_grad()
def test_moved_looks_weigh_half_as_airbench_has_it(images):
    torch.manual_seed(4)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64 * 96, 5)).eval()
    moved = functional.pad(images, (1, 1, 1, 1), "reflect")
    expected = 0.0
    for weight, look in ((0.5, images), (0.25, moved[:, :, :-2, :-2]), (0.25, moved[:, :, 2:, 2:])):
        for view in (look, look.flip(3)):
            expected = expected + weight / 2 * model(view).softmax(dim=1)

    torch.testing.assert_close(TTAModel(model, TestTimeAugmentation(flip=True, shift=1))(images).exp(), expected)


def test_names():
    assert TestTimeAugmentation((0.75, 1.0, 1.25), flip=True).name == "x0.75,1,1.25-flip"
    assert TestTimeAugmentation(flip=True, shift=1).name == "x1-flip-shift1"
    assert TestTimeAugmentation((2.0,)).name == "x2"


def test_a_window_that_holds_the_image_changes_nothing(model):
    task = Segmentation("unet:test_resnet", ("a", "b", "c", "d"))
    pixels = np.random.default_rng(1).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    whole = task.predictor.predict(ReadyModel(model), pixels).mask
    windowed = task.predictor.predict(ReadyModel(model, window=Window(64)), pixels).mask

    assert (whole == windowed).all()
