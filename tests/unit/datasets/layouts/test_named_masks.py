from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from support import raw_folders
from support.datasets import records
from support.layouts import words
from support.miniatures import gray, make_image, write

from penstock.datasets import LayoutOptions, inspect, pack
from penstock.images import decode_image, decode_mask
from penstock.kinds import Labels
from penstock.kinds.fields import decode_segmentation

IDS = np.arange(24 * 32, dtype=np.uint8).reshape(24, 32) % 2


def gif(ids):
    """Carvana's: indices 0 and 1 of a palette of black and white."""
    image = Image.new("P", ids.shape[::-1])
    image.putdata(ids.ravel().tolist())
    image.putpalette([0, 0, 0, 255, 255, 255])
    done = io.BytesIO()
    image.save(done, "GIF", optimize=False)
    return done.getvalue()


def tiff(values):
    done = io.BytesIO()
    Image.fromarray(values).save(done, "TIFF")
    return done.getvalue()


def test_carvana(tmp_path):
    """train/ and train_masks/, GIF masks of black and white, a test folder without masks."""
    for number in range(3):
        write(tmp_path / f"raw/train/{number}_01.jpg", make_image(seed=number))
        write(tmp_path / f"raw/train_masks/{number}_01_mask.gif", gif(IDS))
    write(tmp_path / "raw/test/9_01.jpg", make_image(seed=9))
    found = inspect(tmp_path / "raw", Labels(("background", "car"), mapping={255: 1}))
    dataset = pack(found, tmp_path / "data")

    assert found.layout.reasons == (
        "train/ holds images and train_masks/ their masks: the names of their files fit, and those in train_masks/ have "
        "few colours",
    )
    assert [problem.message for problem in found.problems] == [
        "test: no labels for it in .: all of this split is left out."
    ]
    assert dataset.description.splits["train"].records == 3
    for record in records(dataset, "train"):
        assert np.array_equal(decode_mask(decode_segmentation(record).mask, "m"), IDS)


def test_brain_slices_of_cases_in_tiff(tmp_path):
    """A folder for each patient, a.tif and a_mask.tif in it: slices of one are never divided between splits."""
    rng = np.random.default_rng(0)
    pixels, masks = {}, {}
    for case in "abcde":
        for number in range(4):
            name = f"{case}/{case}_{number}"
            pixels[name] = rng.integers(0, 256, (24, 32, 3), dtype=np.uint8)
            write(tmp_path / f"raw/{name}.tif", tiff(pixels[name]))
            write(
                tmp_path / f"raw/{name}_mask.tif",
                tiff(masks.setdefault(name, rng.integers(0, 2, (24, 32), np.uint8)) * 255),
            )
    found = inspect(tmp_path / "raw", Labels(("healthy", "tumour"), mapping={255: 1})).divided(0.3)
    dataset = pack(found, tmp_path / "data")

    assert found.problems == ()
    cases = {split: {each.item.name[0] for each in items} for split, items in found.splits.items()}
    assert cases["train"] | cases["val"] == set("abcde")
    assert not cases["train"] & cases["val"]
    for record in records(dataset, "train"):
        fields = decode_segmentation(record)
        assert np.array_equal(decode_image(fields.image, "i"), pixels[fields.name])
        assert np.array_equal(decode_mask(fields.mask, "m"), masks[fields.name])


@pytest.mark.parametrize(
    "end", ["_mask", "_masks", "_cp_masks", "_seg", "_segmentation", "_instances", "_gt", "_label", "_labels", "_L"]
)
def test_other_endings(tmp_path, end):
    for number in range(2):
        write(tmp_path / f"{number}.jpg", make_image(seed=number))
        write(tmp_path / f"{number}{end}.png", gray(IDS))
    found = inspect(tmp_path)

    assert [(each.item.name, each.item.label.name) for each in found.items] == [
        (f"{n}", f"{n}{end}.png") for n in range(2)
    ]
    assert found.layout.reasons[0] == f"masks beside the images, named by {end}"


def test_an_image_without_a_mask_is_named(tmp_path):
    for number in range(3):
        write(tmp_path / f"{number}.jpg", make_image(seed=number))
        write(tmp_path / f"{number}_mask.png", gray(IDS))
    (tmp_path / "1_mask.png").unlink()

    assert words(tmp_path) == [
        "1.jpg: expected a mask 1_mask.png beside it, found none. Add the mask, or leave the image out with --skip-bad."
    ]


def test_a_missing_mask_has_the_name_that_others_have(tmp_path):
    for number in range(3):
        write(tmp_path / f"a/{number}.jpg", make_image(seed=number))
        write(tmp_path / f"a/{number}_cp_masks.tif", tiff(IDS))
    (tmp_path / "a/1_cp_masks.tif").unlink()
    write(tmp_path / "new/7.jpg", make_image(seed=7))

    assert words(tmp_path) == [
        "a/1.jpg: expected a mask 1_cp_masks.tif beside it, found none. Add the mask, or leave the image out with "
        "--skip-bad.",
        "new/7.jpg: expected a mask 7_cp_masks.tif beside it, found none. No image in new/ has one. Add the mask, or "
        "leave the image out with --skip-bad. Images without masks can be predicted.",
    ]


def test_two_masks_of_an_image_are_named(tmp_path):
    for number in range(2):
        write(tmp_path / f"{number}.jpg", make_image(seed=number))
        write(tmp_path / f"{number}_mask.png", gray(IDS))
    write(tmp_path / "1_gt.png", gray(IDS))

    assert words(tmp_path) == [
        "1_gt.png: expected one mask of this name, found 1_mask.png too. Put both into one mask, or remove one.",
        "1_mask.png: expected one mask of this name, found 1_gt.png too. Put both into one mask, or remove one.",
    ]


def test_isic(tmp_path):
    raw_folders.isic(tmp_path)
    found = inspect(tmp_path, Labels(mapping={255: 1}))
    assert found.fatal == []
    assert [(each.item.split, each.item.name, each.item.label.parent.name) for each in found.items][::3] == [
        ("train", "ISIC_0000000", "ISIC2018_Task1_Training_GroundTruth"),
        ("val", "ISIC_0000100", "ISIC2018_Task1_Validation_GroundTruth"),
    ]
    assert found.items[0].pixels == ((0, 648), (1, 120))


@pytest.mark.parametrize(
    "names", [("{}_sat", "{}_mask"), ("{}_mask", "{}_sat"), ("img{}", "seg{}"), ("x-{}-rgb", "x-{}-gt")]
)
def test_images_may_have_an_ending_of_their_own(tmp_path, names):
    """DeepGlobe's 1_sat.jpg and 1_mask.png: which is the mask shows in the files."""
    image, mask = names
    for number in range(3):
        write(tmp_path / f"train/{image.format(number)}.jpg", make_image(seed=number))
        write(tmp_path / f"train/{mask.format(number)}.png", gray(IDS))
    found = inspect(tmp_path)

    assert [each.message for each in found.problems] == []
    assert [(each.item.image.name, each.item.label.name) for each in found.items] == [
        (f"{image.format(n)}.jpg", f"{mask.format(n)}.png") for n in range(3)
    ]


def test_folders_of_images_and_masks_together_are_none_of_either(tmp_path):
    """BUSI: benign/, malignant/ and normal/, each with images and masks, and now and then a second mask."""
    for seed, name in enumerate(("benign", "malignant", "normal")):
        for number in range(1, 4):
            write(tmp_path / f"{name}/{name} ({number}).png", make_image(seed=number + 10 * seed))
            write(tmp_path / f"{name}/{name} ({number})_mask.png", gray(IDS))
    found = inspect(tmp_path)

    assert (found.layout.name, found.fatal) == ("images and masks in one folder", [])
    assert len(found.items) == 9
    write(tmp_path / "benign/benign (2)_mask_1.png", gray(IDS))
    assert words(tmp_path) == [
        f"benign/benign (2){one}.png: expected one mask of this name, found benign/benign (2){other}.png too. Put both "
        "into one mask, or remove one."
        for one, other in (("_mask", "_mask_1"), ("_mask_1", "_mask"))
    ]


@pytest.mark.parametrize("ends", [("_1stHO", "_2ndHO"), ("_expert_a", "_expert_b")])
def test_masks_of_raters_beside_the_images_are_told_apart(tmp_path, ends):
    """CHASE: Image_01L.jpg, Image_01L_1stHO.png, Image_01L_2ndHO.png."""
    for number in range(4):
        write(tmp_path / f"Image_{number:02}L.jpg", make_image(seed=number))
        for shift, end in enumerate(ends):
            write(tmp_path / f"Image_{number:02}L{end}.png", gray(np.roll(IDS, shift, axis=1)))
    first, second = (end.strip("_") for end in ends)
    assert words(tmp_path) == [
        f"Image_00L: expected one mask, found those of 2 raters: {first}, {second}. Choose one with --rater {first}, or the "
        "most frequent value of each pixel with --rater majority."
    ]
    found = inspect(tmp_path, how=LayoutOptions(rater=second))
    assert found.fatal == []
    assert {each.item.label.name for each in found.items} == {f"Image_{n:02}L{ends[1]}.png" for n in range(4)}


def test_masks_of_classes_beside_the_images_are_put_together(tmp_path):
    ids = np.zeros((24, 32), np.uint8)
    for number in range(4):
        write(tmp_path / f"eye{number}.jpg", make_image(seed=number))
        for name, columns in (("cup", slice(4, 8)), ("disc", slice(12, 20))):
            mask = ids.copy()
            mask[:, columns] = 255
            write(tmp_path / f"eye{number}_{name}.png", gray(mask))
    found = inspect(tmp_path)
    assert (found.fatal, found.labels.classes) == ([], ("background", "cup", "disc"))
    assert dict(found.items[0].pixels) == {0: 24 * 20, 1: 24 * 4, 2: 24 * 8}


def test_of_images_and_two_kinds_of_masks_neither_kind_is_an_image(tmp_path):
    """CVPPP: plant001_rgb.png, plant001_label.png, plant001_fg.png."""
    leaves = np.zeros((24, 32), np.uint8)
    for number in range(1, 4):
        leaves[6 * number : 6 * number + 5, 4:20] = number
    for number in range(1, 5):
        for end, pixels in (("rgb", make_image(seed=number)), ("label", gray(leaves)), ("fg", gray(leaves > 0))):
            write(tmp_path / f"A1/plant{number:03}_{end}.png", pixels)
    found = inspect(tmp_path)

    assert {each.item.image.stem[-3:] for each in found.items} == {"rgb"}
    assert {each.kind for each in found.fatal} == {"two masks of one name"}
    assert found.fatal[0].message == (
        "A1/plant001_fg.png: expected one mask of this name, found A1/plant001_label.png too. Put both into one mask, or remove "
        "one."
    )
