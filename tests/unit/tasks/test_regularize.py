from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from support import miniatures
from support.classified import classified, folders
from support.datasets import learn_colors
from support.defaults import default_recipe
from support.tasks import CLASSES, NOISE
from support.watching import Given
from torch.nn import functional as F  # noqa: N812

from penstock import seeds
from penstock.assembly import open_experiment
from penstock.config import apply
from penstock.datasets import inspect, pack
from penstock.seeds import generator
from penstock.settings import DataSettings, Regularize
from penstock.tasks import regularize
from penstock.tasks.classes import NOTHING
from penstock.training import train

MIXED = Regularize(mixup=0.4, cutmix=1.0, random_erasing=0.5)


def random_draws(count, seed=0):
    return torch.from_numpy(np.stack([MIXED.draw(seeds.generator(seed, "x", i)) for i in range(count)]))


class TestMixing:
    def test_images_are_mixed_as_defined(self):
        images, draws = torch.randn(6, 3, 16, 12), random_draws(6)
        found = regularize.mixed(images, draws)
        for i, (own, *edges) in enumerate(draws[:, :9].tolist()):
            other = images[i ^ 1]
            expected = own * images[i] + (1 - own) * other
            for (top, bottom, left, right), patch in ((edges[:4], other), (edges[4:], torch.zeros_like(other))):
                rows = slice(round(top * 16), round(bottom * 16))
                columns = slice(round(left * 12), round(right * 12))
                expected[:, rows, columns] = patch[:, rows, columns]
            assert torch.allclose(found[i], expected, atol=1e-6)

    def test_labels_are_mixed_by_the_pixels_that_each_gives(self):
        draws = random_draws(64)
        images = torch.arange(64).view(-1, 1, 1, 1).expand(-1, 3, 32, 32).float() % 2  # every pair: one of 0, one of 1
        unerased = draws.clone()
        unerased[:, 5:9] = 0
        ones = regularize.mixed(images, unerased).mean(dim=(1, 2, 3))
        targets = regularize.mixed_targets(F.one_hot(torch.arange(64) % 2).float(), draws, (32, 32))

        assert torch.allclose(targets[:, 1], ones, atol=1e-5)
        assert torch.allclose(targets.sum(dim=1), torch.ones(64))
        assert int(((targets[:, 1] > 0) & (targets[:, 1] < 1)).sum()) > 0

    def test_a_pair_gets_one_of_two_with_equal_probability(self):
        draws = random_draws(4000, seed=3)
        cut = (draws[:, 2] > draws[:, 1]).double().mean()
        assert float(cut) == pytest.approx(0.5, abs=0.04)

    def test_draws_have_their_distributions(self):
        mixup = np.stack([Regularize(mixup=0.4).draw(seeds.generator(1, "x", i)) for i in range(4000)])
        cutmix = np.stack([Regularize(cutmix=1.0).draw(seeds.generator(1, "x", i)) for i in range(4000)])
        erase = np.stack([Regularize(random_erasing=0.25).draw(seeds.generator(1, "x", i)) for i in range(4000)])

        assert mixup[:, 0].mean() == pytest.approx(0.5, abs=0.03)
        assert mixup[:, 0].var() == pytest.approx(1 / (4 * (2 * 0.4 + 1)), rel=0.1)  # of Beta(a, a)
        areas = (cutmix[:, 2] - cutmix[:, 1]) * (cutmix[:, 4] - cutmix[:, 3])
        assert 0.2 < areas.mean() < 0.5
        there = (erase[:, 6] > erase[:, 5]).mean()
        assert there == pytest.approx(0.25, abs=0.03)
        shares = (erase[:, 6] - erase[:, 5]) * (erase[:, 8] - erase[:, 7])
        assert shares.max() <= 1 / 3 + 1e-6

    def test_tones_are_tensorflows(self):
        pixels, draws = 255 * torch.rand(3, 3, 8, 8), torch.from_numpy(np.stack([NOTHING] * 3))
        draws[:, 9], draws[:, 10] = torch.tensor([10.0, -20, 0]), torch.tensor([0.5, 1.8, 1.0])
        found = regularize.toned(pixels, draws)
        for i in range(3):
            mean = pixels[i].mean(dim=(1, 2), keepdim=True)  # adjust_contrast: about each channel's mean
            assert torch.allclose(found[i], (pixels[i] - mean) * draws[i, 10] + mean + draws[i, 9], atol=1e-4)
        assert torch.allclose(found[2], pixels[2], atol=1e-4)

    def test_one_without_a_partner_is_its_own(self):
        assert regularize.partners(5, torch.device("cpu")).tolist() == [1, 0, 3, 2, 4]

    def test_holes_are_mixed_with_nothing(self, colors):
        task = open_experiment(learn_colors(colors, regularize=MIXED)).task
        tensors = {
            "image": torch.zeros(4, 8, 8, 3, dtype=torch.uint8),
            "label": torch.tensor([0, 1, 2, 0]),
            "draws": random_draws(4),
        }
        masked = task.mask_padding(tensors, torch.tensor([1.0, 0, 1, 1]))

        assert masked["label"].tolist() == [0, -1, 2, 0]
        assert masked["draws"][:2, :5].tolist() == [[1, 0, 0, 0, 0]] * 2
        assert torch.equal(masked["draws"][:, 5:], tensors["draws"][:, 5:]), "what is erased, and tones, stay"
        assert torch.equal(masked["draws"][2:], tensors["draws"][2:])
        assert task.count(masked).tolist() == [3.0]


def test_labels_of_mixed_images_are_learnt_in_their_shares(tmp_path):
    """Mixup by hand: the share of its own class and that of its neighbour's, smoothed, against the logits."""
    miniatures.folders(tmp_path / "raw")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    settings = [
        "model.name=test_resnet",
        "model.weights=none",
        "augment.crop=[32, 32]",
        "train.steps=2",
        "train.batch=2",
    ]
    settings += ["regularize.mixup=0.5", "loss.label_smoothing=0.1", "train.device=cpu"]
    chosen, given = (
        dataclasses.replace(default_recipe("classification"), data=DataSettings(str(dataset.folder))),
        Given(),
    )
    train(apply(chosen, settings), tmp_path / "runs", hooks=[given])

    for batch, logits, loss in zip(given.batches, given.outputs, given.losses, strict=True):
        own = batch["draws"][:, :1]
        whole = F.one_hot(batch["label"], 2).float()
        target = own * whole + (1 - own) * whole.flip(0)
        assert loss == pytest.approx(F.cross_entropy(logits, target, label_smoothing=0.1).item(), rel=1e-5)


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """Images no two of which agree in a pixel, or nearly so."""
    images = np.random.default_rng(1).integers(0, 256, (16, 32, 32, 3), np.uint8)
    return folders(tmp_path_factory.mktemp("noise"), images)


class TestRegularize:
    """Images that are mixed, erased and toned, from what went into the network."""

    @staticmethod
    def inputs(noise, folder, *settings):
        given = classified(noise, folder, *settings, "augment.view=pad-crop", "augment.crop=[32, 32]", batch=16)
        shown = [x.movedim(1, -1).numpy() * 127.5 + 127.5 for x in given.inputs]
        return given, shown

    @staticmethod
    def rectangle(changed):
        rows, columns = np.flatnonzero(changed.any(axis=1)), np.flatnonzero(changed.any(axis=0))
        if not len(rows):
            return slice(0, 0), slice(0, 0)
        return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)

    def test_cutmix(self, noise, tmp_path):
        given, shown = self.inputs(noise, tmp_path, "regularize.cutmix=1.0", "loss.label_smoothing=0.0")
        shares = []
        for batch, images, logits, loss in zip(given.batches, shown, given.outputs, given.losses, strict=True):
            own, label = batch["image"].numpy().astype(float), F.one_hot(batch["label"], 2).float()
            target = label.clone()
            for i, image in enumerate(images):
                place = self.rectangle((np.abs(image - own[i]) > 0.1).any(axis=2))
                expected = own[i].copy()
                expected[place] = own[i ^ 1][place]
                assert np.abs(image - expected).max() < 0.01
                share = own[i][place].size / own[i].size
                target[i] = (1 - share) * label[i] + share * label[i ^ 1]
                shares.append(share)
            assert loss == pytest.approx(F.cross_entropy(logits, target).item(), rel=1e-4)

        assert min(shares) < 0.05
        assert max(shares) > 0.5

    def test_erased_rectangles(self, noise, tmp_path):
        given, shown = self.inputs(noise, tmp_path, "regularize.random_erasing=0.6")
        shares = []
        for batch, images in zip(given.batches, shown, strict=True):
            for own, image in zip(batch["image"].numpy().astype(float), images, strict=True):
                place = self.rectangle((np.abs(image - own) > 0.1).any(axis=2))
                own[place] = 127.5
                assert np.abs(image - own).max() < 0.01
                shares.append(own[place].size / own.size)
        sizes = [share for share in shares if share]

        assert 0.4 < len(sizes) / len(shares) < 0.8
        assert 0.01 < min(sizes) < 0.08
        assert 0.24 < max(sizes) < 0.4

    @pytest.mark.parametrize(("shift", "factors"), [(20.0, (1.0, 1.0)), (0.0, (0.4, 1.6)), (40.0, (0.8, 0.9))])
    def test_tones(self, noise, tmp_path, shift, factors):
        settings = [f"regularize.brightness={shift}", f"regularize.contrast={list(factors)}"]
        given, shown = self.inputs(noise, tmp_path, *settings)
        shifts, found = [], []
        for batch, images in zip(given.batches, shown, strict=True):
            for own, image in zip(batch["image"].numpy().astype(float), images, strict=True):
                mean = own.mean(axis=(0, 1))
                factor = ((own - mean) * image).sum() / ((own - mean) ** 2).sum()
                moved = (image - mean).mean()
                assert np.abs(image - (factor * (own - mean) + mean + moved)).max() < 0.05
                shifts.append(moved)
                found.append(factor)

        assert -shift - 0.1 <= min(shifts) <= -0.8 * shift + 0.1
        assert 0.8 * shift - 0.1 <= max(shifts) <= shift + 0.1
        room = 0.2 * (factors[1] - factors[0]) + 1e-3
        assert factors[0] - 1e-3 < min(found) < factors[0] + room
        assert factors[1] - room < max(found) < factors[1] + 1e-3


class TestPairs:
    @pytest.mark.parametrize(("count", "expected"), [(1, [0]), (2, [1, 0]), (5, [1, 0, 3, 2, 4])])
    def test_partners_are_neighbours_and_the_last_may_have_none(self, count, expected):
        assert regularize.partners(count, torch.device("cpu")).tolist() == expected

    def test_pairs_of_which_both_are_there(self):
        real = torch.tensor([True, True, True, False, False, False, True])
        assert regularize.whole_pairs(real).tolist() == [True, True] + [False] * 5


class TestSeen:
    """What is done on the device, for a drawing."""

    def batch(self, *draws):
        image = torch.from_numpy(NOISE.integers(0, 256, (len(draws), 8, 8, 3), np.uint8))
        return {"image": image, "label": torch.arange(len(draws)) % 3, "draws": torch.tensor(np.stack(draws))}

    @staticmethod
    def drawn(**changed):
        names = ("own", "cut", "_", "_", "_", "erased", "_", "_", "_", "brightness", "contrast")
        draws = NOTHING.copy()
        for name, value in changed.items():
            draws[names.index(name)] = value
        return draws

    def test_without_draws_it_is_the_batch(self):
        tensors = {"image": torch.zeros(1, 2, 2, 3, dtype=torch.uint8)}
        assert CLASSES.drawing.seen(tensors) is tensors

    @pytest.mark.parametrize(("shift", "end"), [(300.0, 255), (-300.0, 0)])
    def test_tones_end_where_bytes_do(self, shift, end):
        found = CLASSES.drawing.seen(self.batch(self.drawn(brightness=shift)))
        assert (found["image"] == end).all()
        assert found["image"].shape == (1, 8, 8, 3)

    def test_images_and_their_classes_are_mixed(self):
        tensors = self.batch(self.drawn(own=0.25), self.drawn(own=0.5), self.drawn())
        found = CLASSES.drawing.seen(tensors)
        first, second, third = tensors["image"].double()

        np.testing.assert_allclose(found["image"][0], 0.25 * first + 0.75 * second, atol=0.51)
        np.testing.assert_allclose(found["image"][1], 0.5 * second + 0.5 * first, atol=0.51)
        np.testing.assert_array_equal(found["image"][2], third)
        assert found["target"].tolist() == [[0.25, 0.75, 0], [0.5, 0.5, 0], [0, 0, 1]]

    def test_what_is_erased_is_the_mean_pixel(self):
        draws = NOTHING.copy()
        draws[5:9] = 0.25, 0.5, 0.0, 1.0  # rows 2 and 3
        tensors = self.batch(draws)
        found = CLASSES.drawing.seen(tensors)["image"][0]

        assert (found[2:4] == torch.tensor(CLASSES.normalization.fill)).all()
        assert torch.equal(found[:2], tensors["image"][0, :2])
        assert torch.equal(found[4:], tensors["image"][0, 4:])


def test_erasing_and_mixing_are_drawn_only_where_they_are_wanted():
    for position in range(20):
        np.testing.assert_array_equal(Regularize().draw(generator(1, "augment", position)), NOTHING)
