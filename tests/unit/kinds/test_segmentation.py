from __future__ import annotations

import dataclasses
import io

import numpy as np
import pytest
from PIL import Image
from support import miniatures
from support.miniatures import make_image, write
from support.tasks import masked

from penstock.datasets import inspect, pack
from penstock.errors import ImageError
from penstock.images import PixelFormat, decode_image
from penstock.images.codecs import encode_mask, encode_png
from penstock.kinds import Labels, masks
from penstock.kinds.masks import read_ids


@pytest.mark.parametrize(("name", "plain"), [("background", True), ("ground", False)])
def test_records_are_drawn_with_their_background_as_it_is(packed, name, plain):
    described = dataclasses.replace(packed.description, classes=(name, *packed.description.classes[1:]))
    image = np.full((6, 8, 3), (200, 30, 30), np.uint8)
    drawn = described.kind.draw(masked(image, np.zeros((6, 8), np.uint8)), described)
    assert np.array_equal(drawn[0, drawn.shape[1] // 2], (200, 30, 30)) == plain


def test_a_image_of_other_channels_than_the_dataset_says_is_named():
    with pytest.raises(ImageError) as caught:
        decode_image(encode_png(np.zeros((4, 4, 3), np.uint8)), "a.png", pixels=PixelFormat(4))

    assert str(caught.value) == (
        "a.png: expected 4 channels, as the dataset says, found 3 channels (png). Use images with the same channels."
    )


@pytest.mark.parametrize("order", [1, -1])
def test_ids_are_mapped_at_once(order):
    """An exchange of two ids is one, whichever is named first, and a chain goes one step."""
    ids = np.arange(8, dtype=np.uint8).reshape(2, 4)
    mapping = dict([(1, 2), (2, 1), (3, 4), (4, 5), (7, 0)][::order])

    assert read_ids(encode_mask(ids), "m", Labels(mapping=mapping)).ravel().tolist() == [0, 2, 1, 4, 5, 5, 6, 0]


@pytest.mark.parametrize("pixels", [1 << 20, (1 << 24) + 8])
def test_pixels_of_large_masks_are_counted_exactly(pixels):
    """More than float32 can count one by one."""
    ids = np.full((8, pixels // 8), 3, np.uint8)
    ids[0, :5] = 250

    assert masks._counted(ids) == ((3, pixels - 5), (250, 5))


def saved(image):
    done = io.BytesIO()
    image.save(done, "PNG")
    return done.getvalue()


def paletted(path, ids, colors):
    image = Image.fromarray(ids).convert("P")
    image.putpalette([value for color in colors for value in color])
    write(path, saved(image))


BLACK, WHITE, RED = (0, 0, 0), (255, 255, 255), (255, 0, 0)


@pytest.mark.parametrize(
    ("second", "told"),
    [((WHITE, BLACK, RED), "the colour 255, 255, 255 at 0, and at 1 in masks/0.png"), ((BLACK, WHITE, BLACK), "")],
)
def test_indices_of_palettes_that_differ_are_no_ids(tmp_path, second, told):
    ids = np.arange(24 * 32, dtype=np.uint8).reshape(24, 32) % 2
    for number, colors in enumerate(((BLACK, WHITE, BLACK), second)):
        write(tmp_path / f"images/{number}.jpg", make_image(seed=number))
        paletted(tmp_path / f"masks/{number}.png", ids, colors)

    expected = (
        f"masks/1.png: expected palettes that agree, as --palette takes their indices for class ids, found {told}. List "
        "the colours of the classes in a file, and use --colors FILE instead of --palette."
    )
    assert [each.message for each in inspect(tmp_path, Labels(palette=True)).fatal] == ([expected] if told else [])


@pytest.mark.parametrize("highest", [1, 3])
def test_masks_of_ids_beside_masks_of_0_and_255_are_refused(tmp_path, highest):
    for number in range(4):
        ids = np.zeros((24, 32), np.uint8)
        ids[: 4 + number] = 1 + np.arange(32) % highest if number % 2 else 255
        write(tmp_path / f"images/{number}.jpg", make_image(seed=number))
        write(tmp_path / f"masks/{number}.png", encode_png(ids[..., np.newaxis]))

    assert [each.message for each in inspect(tmp_path).fatal] == [
        f"masks/0.png: expected the values of the other masks, {', '.join(map(str, range(highest)))} and {highest}, found 0 "
        f"and 255, where 255 is the ignore label. If it is a class, use --map 255={1 if highest == 1 else 'ID'}. If it is to be "
        "ignored, name the classes with --classes."
    ]
    assert inspect(tmp_path, Labels(tuple("abcd"[: highest + 1]))).fatal == []


@pytest.mark.parametrize(("orientation", "told"), [(1, False), (3, True), (2, True), (6, False)])
def test_a_mask_that_fits_a_turned_image_in_both_ways_is_noted(tmp_path, orientation, told):
    exif = Image.Exif()
    exif[0x0112] = orientation
    done = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)).save(done, "JPEG", exif=exif)
    write(tmp_path / "images/0.jpg", done.getvalue())
    ids = np.zeros((32, 24) if orientation == 6 else (24, 32), np.uint8)
    ids[:7] = 1
    write(tmp_path / "masks/0.png", encode_png(ids[..., np.newaxis]))

    expected = (
        f"masks/0.png: its image is turned upright by its EXIF orientation {orientation}, and the mask fits it in both "
        "ways. It is taken as drawn on the upright image: penstock show tells whether that is right."
    )
    found = inspect(tmp_path)
    assert found.fatal == []
    assert (expected in [each.message for each in found.problems]) == told


def test_the_pixels_of_the_images_of_a_class_are_those_with_a_label(tmp_path):
    mask = np.zeros((24, 32), np.uint8)
    mask[:6], mask[12:] = 1, 255
    miniatures.write(tmp_path / "raw/images/a.jpg", miniatures.make_image())
    miniatures.write(tmp_path / "raw/masks/a.png", miniatures.gray(mask))
    data = pack(inspect(tmp_path / "raw", Labels(("no", "yes"))), tmp_path / "data")
    assert data.description.splits["train"].image_pixels == (12 * 32, 12 * 32)
