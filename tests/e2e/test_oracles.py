from __future__ import annotations

import dataclasses
import io
import math

import numpy as np
import pytest
import timm
from PIL import Image
from support.beginnings import Fed
from support.datasets import records
from support.images import array_png
from support.training import recipe

from penstock import seeds
from penstock.assembly import open_experiment
from penstock.config import apply
from penstock.datasets import inspect, pack
from penstock.kinds.fields import SegmentationRecord, encode_segmentation
from penstock.records.example import Fields, encode
from penstock.settings import Augment, Train
from penstock.settings.views import ScaleCrop
from penstock.tasks import Segmentation
from penstock.training import train
from penstock.values import Record

HEIGHT, WIDTH = 48, 64


STRIPES = np.array([0, 3, 1, 2], np.uint8)  # ids of columns of 16 pixels: between neighbours there are others


@pytest.fixture(scope="module")
def maps(tmp_path_factory):
    """Images whose red is three times the column and whose green is four times the row: every crop says where it is
    from.
    """
    root = tmp_path_factory.mktemp("maps")
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    for number in range(8):
        blue = np.full((HEIGHT, WIDTH), 20 * number)
        for folder, data in (
            ("images", array_png(np.stack([3 * columns, 4 * rows, blue], axis=2).astype(np.uint8))),
            ("masks", array_png(STRIPES[columns // 16])),
        ):
            path = root / "raw" / folder / "train" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return pack(inspect(root / "raw"), root / "data")


@dataclasses.dataclass
class Seen:
    """What a crop shows: its scale along both axes, whether it is mirrored, where it begins, and how much of it."""

    scale: tuple[float, float]
    flipped: bool
    corner: tuple[float, float]
    filled: tuple[int, int]


def crops(maps, tmp_path, *settings):
    """128 crops of a training, and what they show."""
    chosen = apply(
        recipe(maps.folder, steps=4, batch=32, ema_decay=0.0, evaluate_every=Train().evaluate_every),
        ["data.validation=", "optimizer.lr=1e-6", "augment.crop=[32, 64]", *settings],
    )
    fed = Fed()
    train(chosen, tmp_path, hooks=[fed])
    return [(image, mask, seen(image, mask)) for image, mask in zip(fed.images, fed.masks, strict=True)]


def seen(image, mask):
    inside = mask != 255
    rows, columns = (np.flatnonzero(inside.any(axis=axis)) for axis in (1, 0))
    red, green = (image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1, i].astype(float) for i in (0, 1))
    right = (red[:, -4] - red[:, 3]).mean() / (red.shape[1] - 7) / 3  # away from the edges, where it is repeated
    down = (green[-4] - green[3]).mean() / (green.shape[0] - 7) / 4
    return Seen(
        (1 / down, 1 / abs(right)), bool(right < 0), (green.min() / 4, red.min() / 3), (len(rows), len(columns))
    )


def nearest(values, to):
    """Every value as the nearest of some, which it must be near to."""
    chosen = [min(to, key=lambda each: abs(each - value)) for value in values]
    assert np.allclose(values, chosen, rtol=0.04), values
    return set(chosen)


def test_crops_are_scaled_as_the_recipe_says(maps, tmp_path):
    stepped = crops(maps, tmp_path / "a", "augment.view.scale=[0.5, 1.5]", "augment.view.scale_step=0.5")
    assert nearest([each.scale[0] for _, _, each in stepped], (0.5, 1.0, 1.5)) == {0.5, 1.0, 1.5}
    assert all(math.isclose(*each.scale, rel_tol=0.05) for _, _, each in stepped)

    smooth = [
        each.scale[0]
        for _, _, each in crops(maps, tmp_path / "b", "augment.view.scale=[1.2, 2.8]", "augment.view.scale_step=0.0")
    ]
    assert 1.15 < min(smooth) < 1.4
    assert 2.5 < max(smooth) < 2.9
    assert sum(1.53 < scale < 1.67 for scale in smooth) + sum(1.78 < scale < 1.92 for scale in smooth) > 5


@pytest.mark.parametrize(("bounds", "scale"), [([24, 1000], 0.5), ([96, 96], 1.5), ([96, 1000], 2.0)])
def test_crops_are_of_images_brought_to_a_range(maps, tmp_path, bounds, scale):
    """48 x 64: the shorter side becomes the first, unless the longer one would exceed the second."""
    found = crops(maps, tmp_path, f"augment.resize_range={bounds}", "augment.view.scale=[1.0, 1.0]")

    assert nearest([side for _, _, each in found for side in each.scale], (0.5, 1.0, 1.5, 2.0)) == {scale}


def test_crops_are_padded_with_the_mean_pixel_and_the_ignored_label(maps, tmp_path):
    found = crops(maps, tmp_path, "augment.view.scale=[0.5, 0.5]", "augment.flip=0")
    mean = [round(255 * value) for value in timm.models.get_pretrained_cfg("test_resnet").mean]

    assert {each.filled for _, _, each in found} == {(24, 32)}
    for image, mask, _ in found:
        assert image.shape == (32, 64, 3)
        outside = np.ones((32, 64), bool)
        outside[:24, :32] = False
        assert (mask[outside] == 255).all()
        assert (image[outside] == mean).all()


def test_crops_are_from_anywhere(maps, tmp_path):
    found = [each for _, _, each in crops(maps, tmp_path, "augment.view.scale=[2.0, 2.0]", "augment.flip=0")]
    down, right = ({round(each.corner[axis]) for each in found} for axis in (0, 1))

    assert {each.filled for each in found} == {(32, 64)}
    assert (min(down), max(down), min(right), max(right)) == (0, 48 - 16, 0, 64 - 32)
    assert min(len(down), len(right)) > 20


@pytest.mark.parametrize("flip", [0.0, 0.2, 1.0])
def test_crops_are_mirrored_as_often_as_the_recipe_says(maps, tmp_path, flip):
    found = crops(maps, tmp_path, "augment.view.scale=[1.0, 1.0]", f"augment.flip={flip}")

    assert abs(sum(each.flipped for _, _, each in found) / 128 - flip) <= (0.1 if 0 < flip < 1 else 0)


def test_masks_are_cropped_scaled_and_mirrored_with_their_images_by_nearest(maps, tmp_path):
    """Red says which column of the mask a pixel is from; near an edge of a stripe either neighbour may be meant."""
    found = crops(maps, tmp_path, "augment.view.scale=[0.5, 2.0]", "augment.view.scale_step=0.0")
    for image, mask, _ in found:
        inside = mask != 255
        column = image[..., 0][inside] / 3
        allowed = [STRIPES[np.clip((column + off) // 16, 0, 3).astype(int)] for off in (-1.6, 1.6)]
        assert ((mask[inside] == allowed[0]) | (mask[inside] == allowed[1])).all()
    assert {each.flipped for _, _, each in found} == {True, False}


def test_records_of_the_two_images_alone_are_trained_on_as_whole_ones(packed):
    """As other writers' files have them."""
    prepare = open_experiment(recipe(packed.folder)).task.prepare(train=False)
    (whole, *_) = records(packed, "train")
    fields = Fields(whole.payload, "x")
    keys = ("image/encoded", "image/segmentation/class/encoded")
    bare = Record("bare", encode({key: fields.first_bytes(key) for key in keys}))
    found = [{name: np.empty(field.shape, field.dtype) for name, field in prepare.fields.items()} for _ in range(2)]
    for record, out in zip((whole, bare), found, strict=True):
        prepare(record, None, out)

    assert found[0]["mask"].std() > 0
    assert all((found[0][name] == found[1][name]).all() for name in found[0])


def test_a_record_whose_mask_has_a_palette_is_trained_on_by_its_indices():
    """As DeepLab's own writer leaves Pascal VOC's where their colour maps were not removed."""
    ids = np.random.default_rng(0).choice([0, 5, 20, 255], (48, 64)).astype(np.uint8)
    colored = Image.fromarray(ids, "P")
    colored.putpalette(np.random.default_rng(1).integers(0, 256, 768).tolist())
    buffer = io.BytesIO()
    colored.save(buffer, "PNG")
    image = array_png(np.zeros((48, 64, 3), np.uint8))
    record = Record("x", encode_segmentation(SegmentationRecord(image, buffer.getvalue(), "x", "png", 48, 64)))
    task = Segmentation(
        "unet:test_resnet",
        tuple("abcdefghijklmnopqrstu"),
        augment=Augment((48, 64), ScaleCrop(scale=(1.0, 1.0)), flip=0.0),
    )
    prepare = task.prepare(train=True)
    out = {name: np.empty(field.shape, field.dtype) for name, field in prepare.fields.items()}
    prepare(record, seeds.generator(0, "augment", 0), out)

    assert (out["mask"] == ids).all()
