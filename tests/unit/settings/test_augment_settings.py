from __future__ import annotations

import itertools
import math

import cv2
import numpy as np
import pytest
from support.classified import COLUMNS, HEIGHT, ROWS, WIDTH, classified, folders
from support.images import array_png
from support.miniatures import write

import penstock as ps
from penstock.datasets import inspect, pack
from penstock.errors import RecipeError
from penstock.session import Hook
from penstock.settings.views import ScaleCrop
from penstock.values import BatchSlice, Cursor


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Images whose red is three times the column and whose green is four times the row."""
    images = [np.stack([3 * COLUMNS, 4 * ROWS, np.full((HEIGHT, WIDTH), 15 * n)], axis=2) for n in range(16)]
    return folders(tmp_path_factory.mktemp("places"), np.asarray(images, np.uint8))


TONES = np.random.default_rng(0).integers(104, 152, (HEIGHT, WIDTH, 3), np.uint8)


@pytest.fixture(scope="module")
def tones(tmp_path_factory):
    """The same image of pale colours sixteen times, but for its first row."""
    images = np.repeat(TONES[np.newaxis], 16, axis=0)
    images[:, 0] = 8 * np.arange(16)[:, np.newaxis, np.newaxis]
    return folders(tmp_path_factory.mktemp("tones"), images)


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
        settings = ["augment.view=pad-crop", f"augment.view.margin={margin}", f"augment.border={border}"]
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
        settings = [
            f"augment.view.scale={list(area)}",
            f"augment.view.ratio={list(aspect)}",
            "augment.view=resized-crop",
        ]
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
        settings = [f"augment.view.crop_pct={shown}", "augment.crop=[24, 24]"]
        classified(places, tmp_path, *settings, steps=1, hooks=[Evaluated()])

        assert len(found) == 2
        for image in found:
            assert slopes(image) == pytest.approx((2 * shown, 2 * shown), rel=0.02)
            assert image[..., 0].mean() == pytest.approx(3 * 31.5, abs=1.5)
            assert image[..., 1].mean() == pytest.approx(4 * 23.5, abs=2)

    def test_it_is_mirrored_by_turns(self, places, tmp_path):
        """Fourteen images: in any two epochs in a row each is seen both ways."""
        settings = ["augment.alternating_flip=true", "augment.view=pad-crop", "augment.crop=[48, 64]"]
        images = fed(classified(places, tmp_path, *settings, batch=14, flip=()))
        seen = [{int(image[0, 0, 2]): bool(image[0, 0, 0]) for image in images[i : i + 14]} for i in (0, 14, 28, 42)]

        assert 0 < sum(seen[0].values()) < 14
        for before, after in itertools.pairwise(seen):
            assert after == {image: not mirrored for image, mirrored in before.items()}

    @pytest.mark.parametrize("largest", [8, 40])
    def test_it_is_turned(self, places, tmp_path, largest):
        settings = [f"augment.rotate={largest}", "augment.view=scale-crop", "augment.view.scale=[1.0, 1.0]"]
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
        settings = ["augment.view=scale-crop", "augment.view.scale=[1.0, 1.0]", "augment.crop=[48, 64]"]
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


def samples(dataset, **settings):
    """The training samples of an epoch by position, as arrays."""
    feed = ps.open(dataset.folder)["train"].feed(batch=4, crop=(64, 64), settings=settings)
    return [{name: array.copy() for name, array in feed[position].arrays.items()} for position in range(8)]


def rest_is_equal(one, other):
    return all(np.array_equal(one[name], other[name]) for name in one if name != "image")


class TestDegraded:
    """Blur and noise are drawn last, so views, colours and labels stay those of the seed."""

    @pytest.mark.parametrize("fixture", ["packed", "colors", "squares"])
    def test_every_task_blurs(self, fixture, request):
        dataset = request.getfixturevalue(fixture)
        plain, blurred = samples(dataset), samples(dataset, **{"augment.blur": 3.0})
        sharpness = []
        for one, other in zip(plain, blurred, strict=True):
            assert rest_is_equal(one, other)
            scales = [
                np.abs(cv2.GaussianBlur(one["image"], (0, 0), sigma).astype(int) - other["image"]).max()
                for sigma in np.arange(0.1, 3.01, 0.05)
            ]
            sharpness.append(int(np.argmin(scales)))
            assert min(scales) <= 12  # one of these standard deviations is near the one that was drawn
        assert len(set(sharpness)) > 3

    @pytest.mark.parametrize("fixture", ["packed", "colors", "squares"])
    def test_every_task_adds_noise(self, fixture, request):
        dataset = request.getfixturevalue(fixture)
        plain, noisy = samples(dataset), samples(dataset, **{"augment.noise": 10.0})
        deviations = []
        for one, other in zip(plain, noisy, strict=True):
            assert rest_is_equal(one, other)
            inside = (one["image"] > 45) & (one["image"] < 210)  # where nothing is clipped
            difference = other["image"].astype(int) - one["image"]
            assert abs(difference[inside].mean()) < 0.5
            deviations.append(difference[inside].std())
        assert 0 < min(deviations) < max(deviations) <= 10.5
        again = samples(dataset, **{"augment.noise": 10.0})
        assert all(np.array_equal(a["image"], b["image"]) for a, b in zip(noisy, again, strict=True))


NO_JITTER = {f"augment.jitter.{name}": 0.0 for name in ("brightness", "contrast", "saturation", "hue")}
KINDS = ["packed", "colors", "squares", "instances"]


class TestDistorted:
    """One geometry for image, mask and boxes."""

    @pytest.mark.parametrize("setting", [{"augment.perspective": 0.5}, {"augment.elastic": 6.0}])
    @pytest.mark.parametrize("fixture", KINDS)
    def test_every_task_is_distorted(self, fixture, setting, request):
        dataset = request.getfixturevalue(fixture)
        plain, moved = samples(dataset), samples(dataset, **setting)
        again = samples(dataset, **setting)

        assert all(not np.array_equal(a["image"], b["image"]) for a, b in zip(plain, moved, strict=True))
        assert all(np.array_equal(a[name], b[name]) for a, b in zip(again, moved, strict=True) for name in a)

    @pytest.mark.parametrize(
        "setting", [{"augment.perspective": 0.5}, {"augment.elastic": 6.0}, {"augment.mosaic": 1.0}]
    )
    @pytest.mark.parametrize("fixture", ["squares", "instances"])
    def test_boxes_stay_around_their_objects(self, fixture, setting, request):
        dataset = request.getfixturevalue(fixture)
        names = list(dataset.description.classes)
        seen = 0
        for sample in samples(
            dataset, **setting, **NO_JITTER, **{"augment.view.scale": (1.0, 1.0), "augment.min_visibility": 0}
        ):
            red = (sample["image"][..., 0] > 190) & (sample["image"][..., 2] < 80)
            blue = (sample["image"][..., 2] > 190) & (sample["image"][..., 0] < 80)
            inside = {"red": np.zeros_like(red), "blue": np.zeros_like(blue)}
            for row in np.flatnonzero(sample["label"] >= 0):
                left, top, right, bottom = sample["boxes"][row]
                name = names[sample["label"][row]]
                part = (
                    slice(max(0, math.floor(top) - 2), math.ceil(bottom) + 2),
                    slice(max(0, math.floor(left) - 2), math.ceil(right) + 2),
                )
                inside[name][part] = True
                if "masks" in sample:
                    mask = np.unpackbits(sample["masks"][row], axis=1)[:, : red.shape[1]] > 0
                    assert not (mask & ~inside[name]).any()
                seen += 1
            assert not (red & ~inside["red"]).any()
            assert not (blue & ~inside["blue"]).any()
        assert seen > 8

    @pytest.mark.parametrize("setting", [{"augment.perspective": 0.5}, {"augment.elastic": 6.0}])
    def test_masks_follow_their_images(self, mattes, setting):
        """The foreground of these mattes is bright."""
        plain = {**NO_JITTER, "augment.view.scale": (1.0, 1.0)}
        for sample in samples(mattes, **setting, **plain):
            counts = sample["mask"] >= 0
            bright = sample["image"].mean(axis=2) > 128
            apart = bright != (sample["mask"] > 128)
            assert apart[counts].mean() < 0.04

    @pytest.mark.parametrize("setting", [{"augment.perspective": 0.5}, {"augment.elastic": 6.0}])
    def test_pixels_of_objects_follow_their_images(self, instances, setting):
        names, apart = list(instances.description.classes), []
        for sample in samples(instances, **setting, **NO_JITTER, **{"augment.view.scale": (1.0, 1.0)}):
            blue = (sample["image"][..., 2] > 170) & (sample["image"][..., 0] < 90)
            masks = np.unpackbits(sample["masks"], axis=2)[..., : blue.shape[1]] > 0
            of_blue = masks[sample["label"] == names.index("blue")].any(axis=0)
            apart.append((blue & ~of_blue).sum() / max(1, blue.sum()))
        assert np.median(apart) < 0.2  # the edges of polygons, which are drawn and filled in different ways


class TestMosaic:
    """Four images of the same global batch fill a sample."""

    @pytest.mark.parametrize("fixture", ["packed", "squares", "instances", "mattes"])
    def test_it_is_of_four_parts(self, fixture, request):
        dataset = request.getfixturevalue(fixture)
        plain, mosaic, half = (samples(dataset, **{"augment.mosaic": share}) for share in (0.0, 1.0, 0.5))
        again = samples(dataset, **{"augment.mosaic": 1.0})
        same = [np.array_equal(a["image"], b["image"]) for a, b in zip(half, plain, strict=True)]

        assert all(np.array_equal(a[name], b[name]) for a, b in zip(again, mosaic, strict=True) for name in a)
        assert not any(np.array_equal(a["image"], b["image"]) for a, b in zip(mosaic, plain, strict=True))
        assert len(set(same)) <= 2

    def test_it_is_of_several_images(self, tmp_path):
        """The mask of every image is of one class, which no other image has."""
        for number in range(8):
            write(tmp_path / f"raw/images/{number}.png", array_png(np.full((64, 64, 3), 20 * number, np.uint8)))
            write(tmp_path / f"raw/masks/{number}.png", array_png(np.full((64, 64), number, np.uint8)))
        dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
        given = {**NO_JITTER, "augment.mosaic": 1.0, "augment.view.scale": (2.0, 2.0)}
        found = [len(np.unique(sample["mask"])) for sample in samples(dataset, **given)]

        assert 2 < np.mean(found) < 4  # of four, chosen among the four of a batch
        for sample in samples(dataset, **given):
            assert np.array_equal(sample["image"][..., 0], 20 * sample["mask"])

    def test_masks_belong_to_their_images(self, packed):
        """In the demo's scenes every pixel of an object is of another colour than the ground it stands on: the parts of
        image and mask have their seams at the same places.
        """
        for sample in samples(packed, **{"augment.mosaic": 1.0, "augment.flip": 0.0}):
            outside = (sample["mask"] == 255).mean()
            fill = (np.abs(sample["image"].astype(int) - [124, 116, 104]) <= 1).all(axis=2).mean()
            assert abs(outside - fill) < 0.02

    @pytest.mark.parametrize("ranks", [2, 3])
    def test_it_is_the_same_on_any_rank_and_after_any_restore(self, packed, ranks):
        def batches(share, start, count):
            feed = ps.open(packed.folder)["train"].feed(
                batch=6, crop=(32, 32), settings={"augment.mosaic": 0.5}, rank=share.rank, world_size=share.world_size
            )
            return [
                (b.origins, b.tensors["image"].numpy().copy()) for b in itertools.islice(feed.batches(start), count)
            ]

        whole = batches(BatchSlice(), Cursor(), 5)
        for number in range(5):
            parts = [batches(BatchSlice(rank, ranks), Cursor(6 * number), 1)[0] for rank in range(ranks)]
            assert tuple(origin for origins, _ in parts for origin in origins) == whole[number][0]
            assert np.array_equal(np.concatenate([images for _, images in parts]), whole[number][1])

    def test_classes_have_none(self, colors):
        with pytest.raises(RecipeError) as caught:
            samples(colors, **{"augment.mosaic": 0.5})
        assert str(caught.value) == ("A mosaic of images is not supported for classification. Remove augment.mosaic.")


def test_a_mosaic_halves_the_scale_and_its_steps():
    view = ScaleCrop(scale=(0.5, 1.0), scale_step=0.25)
    assert view.halved() == ScaleCrop(scale=(0.25, 0.5), scale_step=0.125)
