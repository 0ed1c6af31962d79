from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from PIL import Image
from support.beginnings import Fed, make_mattes
from support.training import recipe
from support.watching import Losses, compare_losses
from torch.nn import functional as F  # noqa: N812

from penstock.config import apply
from penstock.images import decode_mask
from penstock.settings import Train
from penstock.training import train


def pixels_of(raw, split):
    """Of every class, its pixels, and those of the images that it occurs in."""
    own, around = np.zeros(6), np.zeros(6)
    for path in (raw / "masks" / split).iterdir():
        found = np.bincount(decode_mask(path.read_bytes(), "m").ravel(), minlength=256)[:6]
        own += found
        around += np.where(found, found.sum(), 0)
    return np.array([own, around])


@pytest.mark.parametrize(
    ("how", "splits"),
    [
        ("median", "train"),
        ("median", "train+val"),
        ("inverse", "train+val"),
        ("effective", "train"),
        ([1, 2, 0, 5, 0.5, 3], "train"),
    ],
)
def test_a_training_weighs_its_classes(raw, packed, tmp_path, how, splits):
    pixels, around = sum(pixels_of(raw, split) for split in splits.split("+"))
    weights = {
        "median": np.median(pixels / around) / (pixels / around),
        "inverse": pixels.sum() / pixels,
        "effective": (1 / pixels.sum()) / -np.expm1(pixels * np.log1p(-1 / pixels.sum())),
    }.get(str(how), np.array(how if isinstance(how, list) else 1.0))
    weights = weights if isinstance(how, list) else weights / weights.mean()
    settings = [f"loss.class_weights={how if isinstance(how, list) else repr(how)}", f"data.train={splits}"]
    chosen = apply(recipe(packed.folder, steps=2, evaluate_every=9), settings)
    weight = torch.tensor(weights).float()
    compare_losses(
        chosen, tmp_path, lambda logits, mask, _: F.cross_entropy(logits, mask.long(), weight, ignore_index=255)
    )


def test_a_training_mines_its_hardest_pixels_slowly(packed, tmp_path):
    """From all of them to a quarter over four steps, image by image."""

    def expected(logits, mask, step):
        share = 1 - 0.75 * min(1, step / 4)
        each = F.cross_entropy(logits, mask.long(), ignore_index=255, reduction="none").flatten(1)
        kept = [math.ceil(int((row != 255).sum()) * share) for row in mask.flatten(1)]
        return sum(row.topk(n).values.sum() for row, n in zip(each, kept, strict=True)) / sum(kept)

    chosen = apply(
        recipe(packed.folder, steps=6, evaluate_every=9), ["loss.ohem_ratio=0.25", "loss.ohem_warmup_steps=4"]
    )
    compare_losses(chosen, tmp_path, expected)


@pytest.mark.parametrize(
    "settings", [["loss.ohem_ratio=0.25", "loss.ohem_warmup_steps=4"], ["loss.ohem_threshold=0.2"]]
)
def test_a_training_weighs_the_pixels_that_it_mines(packed, tmp_path, settings):
    """Image by image the weighted mean of those that count, and images by the weights of their pixels: from the
    first step on, at which all pixels count, the same mathematics.
    """
    weight = torch.tensor([0.2, 1.0, 2.0, 3.0, 4.0, 5.0])

    def expected(logits, mask, step):
        total = worth = 0.0
        for prediction, label in zip(logits.movedim(1, -1), mask.long(), strict=True):
            own = label != 255
            each = F.cross_entropy(prediction[own], label[own], weight, reduction="none")
            weights = weight[label[own]]
            if "threshold" in settings[0]:
                sure = prediction[own].softmax(dim=1).gather(1, label[own].unsqueeze(1))[:, 0]
                least = sure.sort().values[math.ceil(len(sure) / 16) - 1]
                kept, part = (sure < 0.2) | (sure <= least), 1.0
            else:
                share = 1 - 0.75 * min(1, step / 4)
                count = math.ceil(len(each) * share)
                kept, part = torch.zeros_like(each, dtype=torch.bool), count / len(each)
                kept[each.argsort(descending=True)[:count]] = True
            total += each[kept].sum() / weights[kept].sum() * weights.sum() * part
            worth += weights.sum() * part
        return total / worth

    chosen = apply(
        recipe(packed.folder, steps=5, evaluate_every=9), [f"loss.class_weights={weight.tolist()}", *settings]
    )
    compare_losses(chosen, tmp_path, expected)


def test_a_training_on_mattes_sees_shares_where_the_recipe_looks(tmp_path):
    def expected(logits, mask, _):
        share = mask.clamp(min=0).float() / 255
        each = F.cross_entropy(logits, torch.stack([1 - share, share], dim=1), reduction="none")
        return each[mask >= 0].mean()

    settings = ["data.validation=", "augment.flip=1.0", "augment.view.scale=[1.0, 1.0]"]
    chosen = apply(
        recipe(make_mattes(tmp_path).folder, steps=3, batch=8, evaluate_every=Train().evaluate_every), settings
    )
    fed = Fed()
    hook = Losses(expected)
    train(chosen, tmp_path / "runs", hooks=[hook, fed])
    ours, theirs = zip(*hook.found, strict=True)
    originals = [np.asarray(Image.open(path))[:, ::-1] for path in sorted((tmp_path / "raw/images/train").iterdir())]

    assert ours == pytest.approx(theirs, rel=1e-4)
    for image, share in zip(fed.images, fed.masks, strict=True):
        assert np.array_equal(image[..., 1], share)
        windows = (
            w
            for each in originals
            for w in np.lib.stride_tricks.sliding_window_view(each, (32, 32, 3)).reshape(-1, 32, 32, 3)
        )
        assert any(np.array_equal(image, window) for window in windows)


@pytest.fixture(scope="module")
def soft(tmp_path_factory):
    return make_mattes(tmp_path_factory.mktemp("soft"))
