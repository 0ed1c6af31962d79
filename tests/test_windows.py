"""A window that slides over images: its places, its blending, and that evaluation sees as prediction does."""

from __future__ import annotations

import dataclasses
import json

import cv2
import numpy as np
import pytest
import torch
from test_cli import call
from test_mended import classes
from torch import nn
from training import recipe

from penstock.config import apply
from penstock.errors import RecipeError
from penstock.models import Window, Windowed
from penstock.models.sliding_window import bell
from penstock.training import train

CPU = torch.device("cpu")


class Place(nn.Module):
    """Logits that depend on a pixel and on its place within what is seen, so that windows disagree where they meet."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, images):
        self.seen.append(tuple(images.shape[2:]))
        ramp = torch.linspace(-1, 1, images.shape[3]).expand(images.shape[0], 1, *images.shape[2:])
        return torch.cat([images[:, :1], 3 * ramp, images[:, 1:2] * ramp], dim=1)


@pytest.mark.parametrize(
    ("side", "overlap", "length", "starts"),
    [
        (32, 0.25, 32, [0]),
        (32, 0.25, 20, [0]),
        (32, 0.25, 33, [0, 1]),
        (32, 0.25, 80, [0, 24, 48]),
        (32, 0.0, 96, [0, 32, 64]),
        (32, 0.5, 70, [0, 16, 32, 38]),
    ],
)
def test_where_windows_begin(side, overlap, length, starts):
    assert Window(side, overlap).starts(length) == starts


@pytest.mark.parametrize("overlap", [0.0, 0.25, 0.6])
def test_every_pixel_is_seen_and_none_beyond(overlap):
    for side in (1, 7, 32):
        for length in range(1, 120):
            starts = Window(side, overlap).starts(length)
            seen = [pixel for start in starts for pixel in range(start, min(start + side, length))]
            assert set(seen) == set(range(length))
            assert max(starts) + side <= max(length, side)


def test_probabilities_are_weighted_by_a_gaussian_around_each_windows_middle():
    images = torch.randn(2, 3, 64, 80)
    total, weights = torch.zeros(2, 3, 64, 80), torch.zeros(64, 80)
    for y in (0, 24, 32):
        for x in (0, 24, 48):
            place = slice(y, y + 32), slice(x, x + 32)
            along = np.exp(-0.5 * ((np.arange(32) + 0.5 - 16) / 4) ** 2)  # the deviation is an eighth of the side
            weight = torch.from_numpy(np.maximum(np.outer(along, along), 1e-4)).float()
            total[(..., *place)] += weight * Place()(images[(..., *place)]).softmax(dim=1)
            weights[place] += weight
    found = Windowed(Place(), Window(32), CPU)(images).exp()

    torch.testing.assert_close(found, total / weights)
    plain = Windowed(Place(), Window(32, 0.0), CPU)(images).exp()
    assert not torch.allclose(found, plain, atol=0.05), "windows that do not overlap have seams"


def test_windows_are_filled_up_to_what_networks_take():
    model = Place()
    found = Windowed(model, Window(40), CPU)(torch.randn(1, 3, 50, 30))

    assert (set(model.seen), found.shape) == ({(64, 64)}, (1, 3, 50, 30))


def test_the_bell_is_highest_in_the_middle_and_nowhere_nothing():
    found = bell(8, 12).numpy()

    assert np.unravel_index(found.argmax(), found.shape) in {(3, 5), (3, 6), (4, 5), (4, 6)}
    assert found.min() > 0
    np.testing.assert_allclose(found, found[::-1, ::-1], rtol=1e-5)
    assert found[4, 8] / found[4, 5] == pytest.approx(np.exp(-(2.5**2 - 0.5**2) / 2 / (12 / 8) ** 2))


@pytest.fixture(scope="module")
def run(packed, tmp_path_factory):
    return train(recipe(packed.folder, ema_decay=0.0, window=32), tmp_path_factory.mktemp("runs"))[0].path


def test_training_evaluation_and_prediction_see_the_same(run, packed, raw, tmp_path, capsys):
    code, out, _ = call("evaluate", run, "--checkpoint", "last", "--images", 0, capsys=capsys)
    during = json.loads((run / "evaluations/step-00000012.json").read_text())
    after = json.loads((run / "evaluations/val-00000012-window32.json").read_text())
    assert code == 0
    assert (after["confusion"], after["loss"]) == (during["confusion"], during["loss"])
    assert after["window"] == {"side": 32, "overlap": 0.25}
    assert "val, with the weights of step 12" in out

    whole = call("evaluate", run, "--checkpoint", "last", "--window", 0, "--images", 0, capsys=capsys)[0]
    plain = json.loads((run / "evaluations/val-00000012.json").read_text())
    assert (whole, "window" in plain) == (0, False)
    assert plain["confusion"] != after["confusion"]

    words = ["--checkpoint", "last", "-o", tmp_path]
    assert call("predict", run, raw / "images/val", *words, capsys=capsys)[0] == 0
    matrix = np.zeros((6, 6), np.int64)
    for path in sorted((raw / "masks/val").glob("*.png")):
        true, found = (cv2.imread(str(each), cv2.IMREAD_UNCHANGED) for each in (path, tmp_path / path.name))
        np.add.at(matrix, (true[true != 255], found[true != 255]), 1)
    assert matrix.tolist() == after["confusion"]  # images of 64 x 96, which are no smaller than the canvas


def test_another_overlap_has_a_name_of_its_own(run, packed, capsys):
    words = ["--checkpoint", "last", "--images", 0, "--flip", "--overlap", 0.5]
    assert call("evaluate", run, *words, capsys=capsys)[0] == 0
    assert (run / "evaluations/val-00000012-x1-flip-window32-0.5.json").is_file()
    assert call("evaluate", run, *words, "--window", 0, capsys=capsys)[2] == (
        "error: --overlap: expected --window, whose it is, found none. Name the window's side.\n"
    )


def test_networks_of_one_size_are_evaluated_through_it(packed, tmp_path):
    """What sees images of its own size alone needs no whole ones."""
    chosen = recipe(packed.folder, steps=1, batch=2, window=64)
    chosen = dataclasses.replace(chosen, augment=dataclasses.replace(chosen.augment, crop=(64, 64)))
    settings = ["model.name=unet:swin_tiny_patch4_window7_224"]
    with pytest.raises(RecipeError) as caught:
        train(apply(chosen, [*settings, "augment.crop=[224, 224]", "train.window=0"]), tmp_path)
    assert str(caught.value).endswith(
        "Choose another --model, or evaluate through a window of the crop: --set train.window=224."
    )


def test_what_makes_no_masks_has_no_window(tmp_path, capsys):
    chosen = classes(tmp_path)
    with pytest.raises(RecipeError) as caught:
        train(apply(chosen, ["train.window=32", "data.validation=train"]), tmp_path / "runs")
    assert str(caught.value) == "A sliding window is not supported for classification. Remove train.window."
    folder, _ = train(chosen, tmp_path / "runs")
    assert call("evaluate", folder.path, "--split", "train", "--window", 32, capsys=capsys)[2] == (
        "error: A sliding window is not supported for classification. Remove --window.\n"
    )
