"""What each setting changes in a training, worked out from what the network was given and what it made of it."""

from __future__ import annotations

import dataclasses
import itertools
import math

import cv2
import miniatures
import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from training import recipe
from watching import Batches, Given, compare_losses

from penstock.config import Data, Model, apply, default_recipe
from penstock.datasets import How, inspect, pack
from penstock.errors import RecipeError
from penstock.session import CheckpointStore, Hook
from penstock.training import train

HEIGHT, WIDTH = 48, 64
ROWS, COLUMNS = np.mgrid[:HEIGHT, :WIDTH]


def png(pixels):
    return cv2.imencode(".png", pixels[..., ::-1])[1].tobytes()


def folders(root, pictures):
    """Images of two classes, packed; one of each in split val."""
    for number, pixels in enumerate(pictures):
        split = "val" if number < 2 else "train"
        miniatures.write(root / "raw" / split / "ab"[number % 2] / f"{number}.png", png(pixels))
    return pack(inspect(root / "raw"), root / "data")


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Images whose red is three times the column and whose green is four times the row."""
    pictures = [np.stack([3 * COLUMNS, 4 * ROWS, np.full((HEIGHT, WIDTH), 15 * n)], axis=2) for n in range(16)]
    return folders(tmp_path_factory.mktemp("places"), np.asarray(pictures, np.uint8))


TONES = np.random.default_rng(0).integers(104, 152, (HEIGHT, WIDTH, 3), np.uint8)


@pytest.fixture(scope="module")
def tones(tmp_path_factory):
    """The same image of pale colours sixteen times, but for its first row."""
    pictures = np.repeat(TONES[np.newaxis], 16, axis=0)
    pictures[:, 0] = 8 * np.arange(16)[:, np.newaxis, np.newaxis]
    return folders(tmp_path_factory.mktemp("tones"), pictures)


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """Images no two of which agree in a pixel, or nearly so."""
    pictures = np.random.default_rng(1).integers(0, 256, (16, 32, 32, 3), np.uint8)
    return folders(tmp_path_factory.mktemp("noise"), pictures)


def classified(dataset, folder, *settings, steps=4, batch=32, hooks=(), flip=("augment.flip=0.0",)):
    """A training of a small classifier, with what it was given."""
    begun = dataclasses.replace(
        default_recipe("classification"), data=Data(str(dataset.folder)), model=Model("test_resnet", "none")
    )
    given = Given()
    words = ["train.device=cpu", f"train.steps={steps}", f"train.batch={batch}", "train.ema_decay=0.0", *flip]
    folder, _ = train(apply(begun, [*words, *settings]), folder, hooks=[given, *hooks])
    return given


def fed(given):
    """All images of a training, (height, width, 3)."""
    return [image for batch in given.batches for image in batch["image"].numpy()]


def slopes(image):
    """Columns and rows of the source per pixel of a crop, between its edges."""
    pixels = image.astype(float)
    return (
        float((pixels[4:-4, -5, 0] - pixels[4:-4, 4, 0]).mean() / (image.shape[1] - 9) / 3),
        float((pixels[-5, 4:-4, 1] - pixels[4, 4:-4, 1]).mean() / (image.shape[0] - 9) / 4),
    )


class TestViews:
    """What of an image a classifier is shown."""

    @pytest.mark.parametrize("border", ["fill", "reflect"])
    @pytest.mark.parametrize("margin", [1, 3])
    def test_it_is_moved_about_by_a_margin(self, places, tmp_path, margin, border):
        settings = ["augment.method=pad-crop", f"augment.margin={margin}", f"augment.border={border}"]
        images = fed(classified(places, tmp_path, *settings, "augment.crop=[48, 64]"))
        plain = np.stack([3 * COLUMNS, 4 * ROWS], axis=2)
        mode = {"mode": "reflect"} if border == "reflect" else {"constant_values": 128}  # 127.5 normalises to 0
        around = np.pad(plain, ((margin, margin), (margin, margin), (0, 0)), **mode)
        windows = {
            around[y : y + HEIGHT, x : x + WIDTH].astype(np.uint8).tobytes(): (y, x)
            for y in range(2 * margin + 1)
            for x in range(2 * margin + 1)
        }
        found = [windows[np.ascontiguousarray(image[..., :2]).tobytes()] for image in images]

        assert {y for y, _ in found} == {x for _, x in found} == set(range(2 * margin + 1))

    @pytest.mark.parametrize(("area", "aspect"), [((0.1, 0.3), (0.6, 1.6)), ((0.5, 0.6), (1.0, 1.1))])
    def test_it_is_a_window_of_an_area_and_an_aspect(self, places, tmp_path, area, aspect):
        settings = [f"augment.area={list(area)}", f"augment.aspect={list(aspect)}", "augment.method=resized-crop"]
        images = fed(classified(places, tmp_path, *settings, "augment.crop=[32, 32]"))
        sides = np.array([slopes(image) for image in images]) * 32
        areas, aspects = sides.prod(axis=1) / (HEIGHT * WIDTH), sides[:, 0] / sides[:, 1]

        for values, (least, most) in ((areas, area), (aspects, aspect)):
            room = 0.2 * (most - least)
            assert least * 0.93 < values.min() < least + room
            assert most - room < values.max() < most * 1.07

    @pytest.mark.parametrize("shown", [0.5, 1.0])
    def test_its_middle_is_evaluated(self, places, tmp_path, shown):
        class Evaluated(Hook):
            def on_start(self, session):
                session.model.register_forward_pre_hook(self.keep)

            def keep(self, module, inputs):
                if not module.training:
                    found.extend((inputs[0] * 127.5 + 127.5).movedim(1, -1).numpy())

        found = []
        settings = [f"augment.crop_pct={shown}", "augment.crop=[24, 24]"]
        classified(places, tmp_path, *settings, steps=1, hooks=[Evaluated()])

        assert len(found) == 2
        for image in found:
            assert slopes(image) == pytest.approx((2 * shown, 2 * shown), rel=0.02)
            assert image[..., 0].mean() == pytest.approx(3 * 31.5, abs=1.5)
            assert image[..., 1].mean() == pytest.approx(4 * 23.5, abs=2)

    def test_it_is_mirrored_by_turns(self, places, tmp_path):
        """Fourteen images: in any two epochs in a row each is seen both ways."""
        settings = ["augment.alternating_flip=true", "augment.method=pad-crop", "augment.crop=[48, 64]"]
        images = fed(classified(places, tmp_path, *settings, batch=14, flip=()))
        seen = [{int(image[0, 0, 2]): bool(image[0, 0, 0]) for image in images[i : i + 14]} for i in (0, 14, 28, 42)]

        assert 0 < sum(seen[0].values()) < 14
        for before, after in itertools.pairwise(seen):
            assert after == {picture: not mirrored for picture, mirrored in before.items()}

    @pytest.mark.parametrize("largest", [8, 40])
    def test_it_is_turned(self, places, tmp_path, largest):
        settings = [f"augment.rotate={largest}", "augment.method=scale-crop", "augment.scale=[1.0, 1.0]"]
        images = fed(classified(places, tmp_path, *settings, "augment.crop=[32, 32]"))
        rows, columns = np.mgrid[10:22, 10:22]  # always inside the image
        ground = np.stack([columns.ravel(), rows.ravel(), np.ones(144)], axis=1)
        angles = []
        for image in images:
            seen = image[10:22, 10:22, :2].reshape(-1, 2) / (3, 4)
            (right, down, _), *_ = np.linalg.lstsq(ground, seen, rcond=None)
            assert np.hypot(*right) == pytest.approx(1, abs=0.03)
            assert right @ down == pytest.approx(0, abs=0.03)
            angles.append(math.degrees(math.atan2(right[1], right[0])))

        assert -largest - 1 < min(angles) < -0.85 * largest
        assert 0.85 * largest < max(angles) < largest + 1


GRAY = TONES @ np.array([[0.299], [0.587], [0.114]])
YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])


class TestColours:
    """How far they move, image by image."""

    @staticmethod
    def moved(tones, folder, setting):
        settings = ["augment.method=scale-crop", "augment.scale=[1.0, 1.0]", "augment.crop=[48, 64]"]
        images = fed(classified(tones, folder, *settings, f"augment.jitter.{setting}"))
        return [image[1:].astype(float) for image in images]

    @pytest.mark.parametrize(("name", "around"), [("brightness", 0.0), ("contrast", 127.5), ("saturation", GRAY[1:])])
    def test_factors(self, tones, tmp_path, name, around):
        factors, plain = [], TONES[1:] - around
        for image in self.moved(tones, tmp_path, f"{name}=0.4"):
            factor = (plain * (image - around)).sum() / (plain**2).sum()
            assert np.abs(around + factor * plain - image).max() < 1.2
            factors.append(factor)

        assert 0.59 < min(factors) < 0.65
        assert 1.35 < max(factors) < 1.41

    def test_hue(self, tones, tmp_path):
        angles, plain = [], TONES[1:] @ YIQ.T
        begun = plain[..., 1] + 1j * plain[..., 2]
        for image in self.moved(tones, tmp_path, "hue=0.1"):
            found = image @ YIQ.T
            turned = found[..., 1] + 1j * found[..., 2]
            angle = np.angle((turned * begun.conj()).sum())
            assert np.abs(found[..., 0] - plain[..., 0]).max() < 1.2
            assert np.abs(turned - begun * np.exp(1j * angle)).max() < 1.5
            angles.append(angle / math.tau)

        assert -0.101 < min(angles) < -0.085
        assert 0.085 < max(angles) < 0.101


class TestRegularize:
    """Images that are mixed, erased and toned, from what went into the network."""

    @staticmethod
    def inputs(noise, folder, *settings):
        given = classified(noise, folder, *settings, "augment.method=pad-crop", "augment.crop=[32, 32]", batch=16)
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


def boxes(root):
    """Images of places with a box each, 20 x 20 pixels, packed."""
    rows = ["file,class,xmin,ymin,xmax,ymax"]
    for number in range(8):
        pixels = np.stack([3 * COLUMNS, 4 * ROWS, np.full((HEIGHT, WIDTH), 30 * number)], axis=2).astype(np.uint8)
        miniatures.write(root / "raw" / f"{number}.png", png(pixels))
        rows.append(f"{number}.png,thing,2,4,22,24")
    miniatures.write(root / "raw" / "boxes.csv", "\n".join(rows) + "\n")
    return pack(inspect(root / "raw"), root / "data")


def detecting(dataset, *settings):
    """A recipe that crops 32 x 32 of them as they are."""
    begun = dataclasses.replace(
        default_recipe("detection"),
        data=Data(str(dataset.folder), validation=""),
        model=Model("ssd:test_resnet", "none"),
    )
    words = ["augment.crop=[32, 32]", "augment.scale=[1.0, 1.0]", "augment.flip=0.0", "augment.resize_range=[48, 64]"]
    words += ["train.steps=6", "train.batch=16", "train.device=cpu", "optimizer.lr=1e-6"]
    return apply(begun, [*words, *settings])


@pytest.mark.parametrize("kept", [0.1, 0.75])
def test_boxes_stay_where_enough_of_them_is_inside_the_crop(tmp_path, kept):
    given = Batches()
    train(detecting(boxes(tmp_path), f"augment.min_visibility={kept}"), tmp_path / "runs", hooks=[given])
    seen = []
    for batch in given.batches:
        for image, label, box in zip(batch["image"].numpy(), batch["label"], batch["boxes"].numpy(), strict=True):
            left, top = image[0, 0, 0] / 3, image[0, 0, 1] / 4
            inside = np.clip([2 - left, 4 - top, 22 - left, 24 - top], 0, 32)
            share = (inside[2] - inside[0]) * (inside[3] - inside[1]) / 400
            if abs(share - kept) > 0.05:
                there = bool((label >= 0).any())
                assert there == (share > kept)
                assert not there or np.abs(box[0] - inside).max() < 0.7
                seen.append(there)

    assert min(seen.count(True), seen.count(False)) > 3


def test_patches_have_as_many_slices_as_the_recipe_says(tmp_path):
    pytest.importorskip("nibabel")
    from test_volumes import cases

    cases(tmp_path / "raw", 3)
    dataset = pack(inspect(tmp_path / "raw", how=How("nifti-volumes")), tmp_path / "data")
    given = Batches()
    begun = dataclasses.replace(default_recipe("volumes"), data=Data(str(dataset.folder), validation=""))
    settings = ["augment.slices=16", "augment.crop=[32, 32]", "train.steps=1", "train.batch=1", "train.device=cpu"]
    train(apply(begun, settings), tmp_path / "runs", hooks=[given])

    assert sorted(given.batches[0]["mask"].shape) == [1, 16, 32, 32]


# ------------------------------------------------------------------------------------------------------- losses


def areas(logits, target, picture, label):
    """True positives, false positives and false negatives of a class in an image, as probabilities."""
    valid, own = target[picture] != 255, target[picture] == label
    found = logits[picture].softmax(dim=0)[label]
    return found[own].sum(), found[valid & ~own].sum(), (1 - found[own]).sum()


def tversky(logits, target, tversky_alpha, tversky_beta):
    worth = []
    for picture in range(len(target)):
        each = []
        for label in target[picture].unique().tolist():
            if label != 255:
                true, extra, missed = areas(logits, target, picture, label)
                each.append(1 - true / (true + tversky_alpha * extra + tversky_beta * missed))
        worth.append(torch.stack(each).mean())
    return torch.stack(worth).mean()


def lovasz(logits, target):
    """Berman et al. 2018: errors from large to small, each times what its pixel adds to the Jaccard loss of a set."""
    worth = []
    for answer, labels in zip(logits.softmax(dim=1).flatten(2), target.flatten(1), strict=True):
        each = []
        for label in labels.unique().tolist():
            if label == 255:
                continue
            truth = (labels == label)[labels != 255]
            errors = (truth.float() - answer[label][labels != 255]).abs()
            total, before, wrong_inside, wrong_outside = 0.0, 0.0, 0, 0
            for index in errors.argsort(descending=True).tolist():
                wrong_inside += int(truth[index])
                wrong_outside += int(not truth[index])
                jaccard = 1 - (int(truth.sum()) - wrong_inside) / (int(truth.sum()) + wrong_outside)
                total += float(errors[index]) * (jaccard - before)
                before = jaccard
            each.append(total)
        worth.append(np.mean(each))
    return np.mean(worth)


def focal(logits, target, gamma):
    each = F.cross_entropy(logits, target, ignore_index=255, reduction="none")
    return ((1 - torch.exp(-each)) ** gamma * each).sum() / (target != 255).sum()


LOSSES = {
    "focal": (["focal=2.0", "focal_gamma=1.5"], lambda logits, target: 2 * focal(logits, target, 1.5)),
    "tversky": (
        ["tversky=1.0", "tversky_alpha=0.2", "tversky_beta=0.6"],
        lambda logits, target: tversky(logits, target, 0.2, 0.6),
    ),
    "tversky by default": (["tversky=1.0"], lambda logits, target: tversky(logits, target, 0.3, 0.7)),
    "lovasz": (["lovasz=0.5"], lambda logits, target: 0.5 * lovasz(logits, target)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_training_minds_the_loss_of_its_recipe(packed, tmp_path, name):
    settings, expected = LOSSES[name]
    words = ["loss.cross_entropy=0.0", *(f"loss.{each}" for each in settings)]
    chosen = apply(recipe(packed.folder, steps=2, evaluate_every=9), words)
    compare_losses(chosen, tmp_path, lambda logits, mask, _: expected(logits, mask.long()))


# ----------------------------------------------------------------------------------------------------- trainings


def test_a_share_is_cut_into_micro_batches(packed, tmp_path):
    given = Given()
    train(recipe(packed.folder, steps=2, accumulate=2, ema_decay=0.0, evaluate_every=9), tmp_path, hooks=[given])

    assert [len(images) for images in given.inputs] == [2, 2, 2, 2]
    assert [len(batch["mask"]) for batch in given.batches] == [4, 4]


def test_a_model_is_compiled_where_the_recipe_says_so(packed, tmp_path, monkeypatch):
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda module, **_: (compiled.append(module), module)[1])
    for on in (False, True):
        train(recipe(packed.folder, steps=1, evaluate_every=9, compile=on), tmp_path / str(on))
        assert bool(compiled) == on


def test_a_device_that_is_not_there_is_named(packed, tmp_path):
    with pytest.raises(RecipeError, match=r"^train\.device: expected "):
        train(recipe(packed.folder, steps=1, device="cuda:99"), tmp_path)


@pytest.mark.parametrize("window", [1, 2])
def test_records_are_shuffled_in_blocks_within_windows(packed, tmp_path, window):
    """21 records in a ring are cut into three blocks: those of the first window, mixed, come before all others."""
    settings = ["data.block=7", f"data.window={window}"]
    folder, _ = train(apply(recipe(packed.folder, steps=4, evaluate_every=9), settings), tmp_path)
    ring = [f"{shard.name}#{offset}" for shard in packed.split("train").shards for offset in range(shard.records)]
    origins = [origin for line in folder.lines("origins.jsonl") for origin in line["origins"]]
    first = [ring.index(origin) for origin in origins[: 7 * window]]
    blocks = [frozenset((start + i) % 21 for i in range(7)) for start in range(21)]

    assert len(ring) == 21
    assert frozenset(first if window == 1 else set(range(21)) - set(first)) in blocks
    assert (frozenset(first[:7]) in blocks) == (window == 1)
    assert first != sorted(first)


def test_evaluations_and_checkpoints_come_as_often_as_the_recipe_says(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=7, evaluate_every=3, save_every=2, keep=9), tmp_path)
    lines = folder.lines("events.jsonl")

    assert [line["step"] for line in lines if line["event"] == "evaluated"] == [3, 6, 7]
    assert CheckpointStore(folder.checkpoints).names() == [f"step-{step:08d}" for step in (2, 3, 4, 6, 7)]


def test_a_layer_that_a_model_has_not_is_named(tmp_path):
    begun = detecting(boxes(tmp_path), "optimizer.head=logits", "optimizer.head_lr_mult=10")
    with pytest.raises(RecipeError) as caught:
        train(begun, tmp_path / "runs")

    assert str(caught.value) == (
        "optimizer.head: expected all, as ssd:test_resnet has no layer of that name, found logits. Leave it out."
    )
