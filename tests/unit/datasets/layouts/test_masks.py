from __future__ import annotations

import cv2
import numpy as np
import pytest
from support import miniatures
from support.layouts import notes, words

from penstock.datasets import LayoutOptions, inspect
from penstock.kinds import Labels

IDS = np.arange(24 * 32, dtype=np.uint8).reshape(24, 32) % 2


def pairs(root, images, masks, count=3):
    for number in range(count):
        miniatures.write(root / images.format(number), miniatures.make_image(seed=number))
        miniatures.write(root / masks.format(number), miniatures.gray(IDS))


def test_a_gray_image_makes_no_masks(tmp_path):
    for name in ("cat", "dog"):
        for number in range(3):
            miniatures.write(tmp_path / f"{name}/{number}.jpg", miniatures.make_image(seed=10 * number + ord(name[0])))
    miniatures.write(tmp_path / "cat/0.png", miniatures.gray(np.zeros((24, 32), np.uint8)))
    (tmp_path / "cat/0.jpg").unlink()

    assert notes(tmp_path) == []


class TestFoldersOfAnyName:
    @pytest.mark.parametrize(
        ("images", "masks"),
        [
            ("pictures/{}.jpg", "labels/{}.png"),
            ("Fotos 2026/{}.jpg", "masks/{}_cp_masks.png"),
            ("raw/train/{}.jpg", "masks/train/{}.png"),
            ("train/photos/{}.jpg", "train/masks/{}.png"),
        ],
    )
    def test_masks_of_their_names_show_which_images_they_are_of(self, tmp_path, images, masks):
        pairs(tmp_path, images, masks)
        miniatures.write(tmp_path / "other/a.jpg", miniatures.make_image(seed=9))
        found = inspect(tmp_path)
        assert (found.layout.kind.name, found.layout.name) == ("segmentation", "image and mask folders")
        assert [(each.item.name, each.item.label.suffix) for each in found.items] == [
            (str(n), ".png") for n in range(3)
        ]

    def test_most_of_them_have_one(self, tmp_path):
        pairs(tmp_path, "pictures/{}.jpg", "labels/{}.png", count=4)
        (tmp_path / "labels/3.png").unlink()
        assert words(tmp_path) == [
            "pictures/3.jpg: expected a mask labels/3.png, found none. Add the mask, or leave the image out with --skip-bad."
        ]
        (tmp_path / "labels/2.png").unlink()
        assert [problem.kind for problem in inspect(tmp_path).fatal] == ["mask missing"] * 2
        (tmp_path / "labels/1.png").unlink()
        assert inspect(tmp_path).labels.classes == ("labels", "pictures")

    def test_two_such_folders_leave_it_open(self, tmp_path):
        pairs(tmp_path, "left/{}.jpg", "masks/{}.png")
        pairs(tmp_path, "right/{}.jpg", "masks/{}.png")
        assert words(tmp_path) == [
            "left/, right/: expected one folder of images and one of their masks, found that masks/ fit. Choose both, for "
            "example with --images left --masks masks."
        ]

    def test_without_masks_they_are_classes(self, tmp_path):
        for number, name in enumerate(("photos", "drawings")):
            miniatures.write(tmp_path / name / "a.jpg", miniatures.make_image(seed=number))
        assert inspect(tmp_path).labels.classes == ("drawings", "photos")


def test_a_missing_mask_is_called_as_most_others_are(tmp_path):
    pairs(tmp_path, "images/{}.jpg", "masks/{}_label.tif", count=0)
    for number, end in enumerate(("_label.png", "_label.png", ".png")):
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"masks/{number}{end}", miniatures.gray(IDS))
    miniatures.write(tmp_path / "images/3.jpg", miniatures.make_image(seed=3))
    assert words(tmp_path) == [
        "images/3.jpg: expected a mask masks/3_label.png, found none. Add the mask, or leave the image out with --skip-bad."
    ]


def test_masks_in_the_alpha_channel(tmp_path):
    """Of one colour: their ids would all be that colour's."""
    for number in range(2):
        pixels = np.full((24, 32, 4), 7, np.uint8)
        pixels[..., 3] = IDS * 255
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"masks/{number}.png", cv2.imencode(".png", pixels)[1].tobytes())
    assert words(tmp_path)[0] == (
        "masks/0.png: expected class ids in gray or in colours, found one colour, and 2 values in the alpha channel. If the "
        "alpha channel is the mask, use --mask-threshold 128."
    )
    found = inspect(tmp_path, Labels(threshold=128))
    assert found.fatal == []
    assert found.items[0].pixels == ((0, 384), (1, 384))


def test_one_mask_is_not_that_of_two_images(tmp_path):
    """Whose splits are in folders, and the masks in none."""
    for split in ("train", "val"):
        miniatures.write(tmp_path / f"images/{split}/0.jpg", miniatures.make_image(seed=len(split)))
    miniatures.write(tmp_path / "masks/0.png", miniatures.gray(np.eye(24, 32, dtype=np.uint8)))
    found = inspect(tmp_path).fatal

    assert [problem.message for problem in found] == [
        f"images/{one}/0.jpg: expected a mask of its own, found masks/0.png, which is that of images/{other}/0.jpg too. "
        "Divide the masks into folders as the images are."
        for one, other in (("train", "val"), ("val", "train"))
    ]


@pytest.mark.parametrize(("first", "more"), [(0, 0), (2, 0), (0, 3)])
@pytest.mark.parametrize(("image", "mask"), [("img_{:04}", "mask_{:04}"), ("{}", "{}")])
def test_numbers_that_begin_otherwise_pair_nothing(tmp_path, first, more, image, mask):
    for number in range(1, 6 + more):
        miniatures.write(tmp_path / f"images/{image.format(number)}.jpg", miniatures.make_image(seed=number))
        ids = np.random.default_rng(number).integers(0, 3, (24, 32), np.uint8)
        miniatures.write(tmp_path / f"masks/{mask.format(number - 1 + first)}.png", miniatures.gray(ids))
    said = (
        "images and masks: expected images and masks of equal numbers, found that they count from different ones. Rename "
        "either, so that an image and its mask have one number. If an image and a mask are missing instead, remove those "
        "that are alone."
    )

    assert said in words(tmp_path)
    assert any("expected a mask " in text and ", found none. Add" in text for text in words(tmp_path))


def test_a_mask_that_is_missing_shifts_no_numbers(tmp_path):
    for number in range(1, 6):
        miniatures.write(tmp_path / f"images/img_{number}.jpg", miniatures.make_image(seed=number))
        ids = np.random.default_rng(number).integers(0, 3, (24, 32), np.uint8)
        if number < 5:
            miniatures.write(tmp_path / f"masks/mask_{number}.png", miniatures.gray(ids))

    assert words(tmp_path) == [
        "images/img_5.jpg: expected a mask in masks/, found none. Add the mask, or leave the image out with --skip-bad."
    ]


def test_one_object_of_a_folder_for_each_image_is_one_too(tmp_path):
    """As the Data Science Bowl of 2018 has them: masks of any name, one for each object."""
    for number, objects in enumerate((3, 1, 2)):
        miniatures.write(tmp_path / f"train{number}/images/train{number}.png", miniatures.make_image(seed=number))
        for each in range(objects):
            mask = np.zeros((24, 32), np.uint8)
            mask[2:6, 5 * each : 5 * each + 4] = 255
            miniatures.write(tmp_path / f"train{number}/masks/{number}f{each}.png", miniatures.gray(mask))
    miniatures.write(tmp_path / "train9/images/train9.png", miniatures.make_image(seed=9))
    found = inspect(tmp_path)

    assert (found.layout.task, [len(each.item.label) for each in found.items]) == ("instances", [3, 1, 2])
    assert notes(tmp_path) == ["train9/images: there is no masks/ beside it: it is left out."]


@pytest.mark.parametrize("above", ["", "training/"])
def test_of_several_folders_of_masks_the_one_that_is_named_counts(tmp_path, above):
    """SYNTHIA's colours beside its ids, Mapillary's instances beside its labels."""
    ids = np.arange(24 * 32, dtype=np.uint8).reshape(24, 32) % 3
    color = cv2.imencode(".png", np.eye(3, dtype=np.uint8)[ids] * 200)[1].tobytes()
    for number in range(4):
        miniatures.write(tmp_path / f"{above}RGB/{number}.png", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"{above}GT/LABELS/{number}.png", miniatures.gray(ids))
        miniatures.write(tmp_path / f"{above}GT/COLOR/{number}.png", color)
    assert words(tmp_path)[0] == (
        "RGB/: expected one folder of images and one of their masks, found that GT/LABELS/, GT/COLOR/ fit. Choose both, for "
        "example with --images RGB --masks GT/LABELS."
    )
    found = inspect(tmp_path, how=LayoutOptions(images="RGB", masks="GT/LABELS"))
    assert found.fatal == []
    assert {each.item.label.parent.name for each in found.items} == {"LABELS"}


IDS = np.arange(24 * 32, dtype=np.uint8).reshape(24, 32) % 2


def fill(root, image, mask, count=4):
    """Images and masks whose places are made from their numbers."""
    for number in range(count):
        miniatures.write(root / image(number), miniatures.make_image(seed=number))
        miniatures.write(root / mask(number), miniatures.gray(IDS))


def splits_of(found):
    assert found.fatal == []
    return {split: sorted(each.item.image.stem for each in items) for split, items in found.splits.items()}


def place(number):
    return "val" if number == 3 else "train"


@pytest.mark.parametrize(
    ("image", "mask"),
    [
        ("images/{}.jpg", "masks/{split}/{}.png"),
        ("images/{split}/{}.jpg", "masks/{}.png"),
        ("photos/{}.jpg", "gt/{split}/{}.png"),
        ("photos/{split}/{}.jpg", "gt/{}.png"),
    ],
)
def test_splits_of_either_side_divide_the_images(tmp_path, image, mask):
    fill(tmp_path, lambda n: image.format(n, split=place(n)), lambda n: mask.format(n, split=place(n)))
    found = inspect(tmp_path)
    assert splits_of(found) == {"train": ["0", "1", "2"], "val": ["3"]}
    assert ("the splits are those of the masks: train, val" in found.layout.reasons) == ("split" in mask)


def test_masks_of_both_splits_of_one_image_are_no_classes(tmp_path):
    for split in ("train", "val"):
        fill(tmp_path, "images/{}.jpg".format, lambda n, split=split: f"masks/{split}/{n}.png")
    assert words(tmp_path)[0] == (
        "images/0.jpg: expected its mask in the folder of one split, found masks/train/0.png and masks/val/0.png. Divide "
        "the images into folders as the masks are."
    )
