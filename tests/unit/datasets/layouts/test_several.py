"""Several masks for each image."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from PIL import Image
from support import miniatures
from support.datasets import records
from support.layouts import words

from penstock.datasets import LayoutOptions, inspect, pack
from penstock.images import decode_mask
from penstock.kinds import Labels
from penstock.kinds.fields import decode_detection, decode_segmentation

TOP, LEFT, CORNER = np.zeros((3, 24, 32), bool)
TOP[:6], LEFT[:, :5], CORNER[20:, 28:] = True, True, True


def fill(root, masks, pattern, count=3, images="images/{}.jpg"):
    for number in range(count):
        miniatures.write(root / images.format(number), miniatures.make_image(seed=number))
        for name, there in masks.items():
            miniatures.write(root / pattern.format(number, name), miniatures.gray(there.astype(np.uint8) * 255))


def masks_of(found, folder):
    every = (decode_segmentation(record) for record in records(pack(found, folder), "train"))
    return [decode_mask(each.mask, "m") for each in every]


@pytest.mark.parametrize("pattern", ["masks/{1}/{0}.png", "masks/{0}_{1}.png", "masks/{0}/{1}.png"])
def test_masks_of_classes_are_put_together(tmp_path, pattern):
    fill(tmp_path / "raw", {"nucleus": TOP, "cell": CORNER}, pattern)
    found = inspect(tmp_path / "raw")
    assert (found.problems, found.labels.classes) == ((), ("background", "cell", "nucleus"))
    for mask in masks_of(found, tmp_path / "data"):
        assert np.array_equal(mask, CORNER * 1 + TOP * 2)


def test_parts_lie_in_folders_of_many_and_have_zeros_before_their_numbers(tmp_path):
    """CelebAMask-HQ: image 7 has the masks 0/00007_hair.png and 0/00007_nose.png, and 2,000 images a folder."""
    for number in range(4):
        miniatures.write(tmp_path / f"raw/CelebA-HQ-img/{number}.jpg", miniatures.make_image(seed=number))
        for name, there in {"hair": TOP, "nose": CORNER}.items():
            path = tmp_path / f"raw/anno/{number // 2}/{number:05d}_{name}.png"
            miniatures.write(path, miniatures.gray(there.astype(np.uint8) * 255))
    found = inspect(tmp_path / "raw")
    assert (found.problems, found.labels.classes) == ((), ("background", "hair", "nose"))
    for mask in masks_of(found, tmp_path / "data"):
        assert np.array_equal(mask, TOP * 1 + CORNER * 2)


def test_classes_that_overlap_are_reported(tmp_path):
    fill(tmp_path, {"cell": TOP, "nucleus": LEFT}, "masks/{1}/{0}.png")
    assert [problem.message for problem in inspect(tmp_path).problems] == [
        "0: masks of classes overlap in 3 of the first 3 images. There the smaller mask counts."
    ]


def test_a_smaller_mask_lies_on_a_larger_one_whatever_their_names_are(tmp_path):
    cup, disc = np.zeros((2, 24, 32), bool)
    cup[8:12, 8:12], disc[4:16, 4:16] = True, True
    for first, second in (("cup", "disc"), ("rim", "centre")):
        fill(
            tmp_path / first,
            {first: cup if first == "cup" else disc, second: disc if first == "cup" else cup},
            "masks/{1}/{0}.png",
        )
        found = inspect(tmp_path / first)
        for mask in masks_of(found, tmp_path / f"{first}-data"):
            assert {name: int((mask == number).sum()) for number, name in enumerate(found.labels.classes)} == {
                "background": 24 * 32 - 144, first: 16 if first == "cup" else 128, second: 128 if first == "cup" else 16,
            }  # fmt: skip


@pytest.mark.parametrize("pattern", ["masks/{1}/{0}.png", "masks/{0}_{1}.png"])
def test_names_of_two_letters_are_classes_and_numbers_are_none(tmp_path, pattern):
    """Lesions of IDRiD: microaneurysms, haemorrhages."""
    fill(tmp_path / "lesions", {"MA": TOP, "HE": CORNER}, pattern)
    fill(tmp_path / "objects", {"o1": TOP, "o2": CORNER}, pattern)
    assert inspect(tmp_path / "lesions").labels.classes == ("background", "HE", "MA")
    assert inspect(tmp_path / "objects").layout.task == "instances"


def test_a_mask_of_a_class_has_two_values(tmp_path):
    fill(tmp_path, {"cell": TOP, "nucleus": CORNER}, "masks/{1}/{0}.png")
    miniatures.write(tmp_path / "masks/cell/0.png", miniatures.gray(np.arange(768, dtype=np.uint8).reshape(24, 32)))
    assert words(tmp_path) == [
        f"{tmp_path}/masks/cell/0.png: expected a mask of one class or object, of two values, found 256 values. Save one "
        "mask with an id for every class."
    ]


def test_raters_are_chosen_or_vote(tmp_path):
    fill(tmp_path / "raw", {"rater1": TOP, "rater2": TOP | CORNER, "rater3": LEFT | CORNER}, "masks/{0}_{1}.png")
    assert words(tmp_path / "raw")[0] == (
        "0: expected one mask, found those of 3 raters: rater1, rater2, rater3. Choose one with --rater rater1, or the most "
        "frequent value of each pixel with --rater majority."
    )
    expected = {"rater2": TOP | CORNER, "majority": TOP | CORNER}
    for rater, there in expected.items():
        (tmp_path / "raw/classes.txt").write_text("no\nyes\n")
        from penstock.kinds import Labels

        found = inspect(tmp_path / "raw", Labels(mapping={255: 1}), how=LayoutOptions(rater=rater))
        assert found.fatal == []
        for mask in masks_of(found, tmp_path / rater):
            assert np.array_equal(mask, there)
    assert words(tmp_path / "raw", LayoutOptions(rater="four")) == [
        "--rater four: expected one of rater1, rater2, rater3, majority, found four. Choose one of them."
    ]


def test_one_mask_each_has_no_raters(tmp_path):
    fill(tmp_path, {"x": TOP}, "masks/{0}.png")
    assert words(tmp_path, LayoutOptions(rater="a")) == [
        "--rater a: expected masks of several raters, found image and mask folders, in which no masks are told apart by "
        "raters. Remove --rater."
    ]


def test_masks_of_objects_are_instances(tmp_path):
    """As DSB 2018 has them: a folder for each image, with a mask for each nucleus."""
    for number in range(3):
        fill(
            tmp_path / "raw",
            {f"{number}f3": TOP, f"{number}a9": CORNER},
            f"id{number}/masks/{{1}}.png",
            1,
            f"id{number}/images/id{number}.png",
        )
        miniatures.write(tmp_path / f"raw/id{number}/images/id{number}.png", miniatures.make_image(seed=number))
    found = inspect(tmp_path / "raw")
    assert (found.layout.task, found.fatal, len(found.items)) == ("instances", [], 3)
    for record in records(pack(found, tmp_path / "data"), "train"):
        objects = [decode_mask(each.mask, "m").astype(bool) for each in decode_detection(record).objects]
        assert sorted(each.tobytes() for each in objects) == sorted([TOP.tobytes(), CORNER.tobytes()])
    binary = inspect(tmp_path / "raw", how=LayoutOptions(task="segmentation"))
    for mask in masks_of(binary, tmp_path / "binary"):
        assert np.array_equal(mask, TOP | CORNER)


def test_a_mask_of_the_name_of_the_image_beside_another_is_a_problem(tmp_path):
    fill(tmp_path, {"": TOP, "_color": CORNER}, "masks/{0}{1}.png")
    assert words(tmp_path)[0] == (
        "masks/0.png: expected one mask of this name, found masks/0_color.png too. Put both into one mask, or remove one."
    )


@pytest.mark.parametrize("pattern", ["masks/{1}/{0}.png", "masks/{0}_{1}.png", "masks/{0}/{1}.png"])
def test_a_class_may_have_no_mask_in_some_images(tmp_path, pattern):
    fill(tmp_path / "raw", {"nucleus": TOP, "cell": CORNER}, pattern, count=4)
    (tmp_path / "raw" / pattern.format(1, "cell")).unlink()
    found = inspect(tmp_path / "raw")
    assert (found.fatal, found.labels.classes) == ([], ("background", "cell", "nucleus"))
    assert found.layout.reasons[-1].endswith("in 1 image a class has no mask, and is taken as absent")
    for number, mask in enumerate(masks_of(found, tmp_path / "data")):
        assert np.array_equal(mask, TOP * 2 + (CORNER * 1 if number != 1 else 0))


def test_numbered_masks_of_which_some_images_have_more_are_objects(tmp_path):
    for number, names in enumerate((("one_1", "one_2"), ("one_1", "one_2", "one_3"), ("one_1", "one_2", "one_3"))):
        for name in names:
            miniatures.write(tmp_path / f"masks/{number}/{name}.png", miniatures.gray(TOP.astype(np.uint8) * 255))
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.make_image(seed=number))
    found = inspect(tmp_path)
    assert (found.layout.kind.name, found.labels.classes) == ("instances", ("object",))


@pytest.mark.parametrize("pattern", ["masks/{0}/{1}_{2}.png", "masks/{0}/{1}/{2}.png", "masks/{0}_{1}{2}.png"])
def test_numbered_masks_of_classes_are_objects_of_these_classes(tmp_path, pattern):
    masks = {("cat", 1): TOP, ("dog", 1): LEFT, ("dog", 2): CORNER}
    for number in range(3):
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.make_image(seed=number))
        for (name, which), there in masks.items():
            path = tmp_path / pattern.format(number, name, which)
            miniatures.write(path, miniatures.gray(there.astype(np.uint8) * 255))
    found = inspect(tmp_path)
    assert (found.fatal, found.layout.kind.name, found.labels.classes) == ([], "instances", ("cat", "dog"))
    assert [[one.label for one in each.item.label] for each in found.items] == [[0, 1, 1]] * 3
    assert inspect(tmp_path, how=LayoutOptions(task="segmentation")).labels.classes == ("background", "cat", "dog")


def test_a_mask_of_an_object_has_the_size_of_its_image(tmp_path):
    top = np.zeros((24, 32), np.uint8)
    top[:6] = 255
    for number in range(3):
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.make_image(seed=number))
        for name in ("1", "2"):
            miniatures.write(tmp_path / f"masks/{number}_{name}.png", miniatures.gray(np.roll(top, 8 * int(name), 0)))
    miniatures.write(tmp_path / "masks/0_2.png", miniatures.gray(top[:12, :16]))
    assert words(tmp_path)[0].startswith(f"{tmp_path}/masks/0_2.png: expected a mask of 24 x 32")


@pytest.mark.parametrize("pattern", ["masks/{1}/{0}.png", "masks/{0}_{1}.png"])
@pytest.mark.parametrize("names", [("anna", "bert"), ("gt", "pred"), ("v1", "v2"), ("A", "B")])
def test_masks_that_cover_nearly_the_same_are_those_of_raters(tmp_path, pattern, names):
    fill(tmp_path, {names[0]: TOP, names[1]: TOP & ~CORNER & ~LEFT}, pattern)
    assert words(tmp_path, LayoutOptions(), labels=Labels(mapping={255: 1})) == [
        f"0: expected one mask, found those of 2 raters: {names[0]}, {names[1]}. Choose one with --rater {names[0]}, or the "
        "most frequent value of each pixel with --rater majority."
    ]
    found = inspect(tmp_path, Labels(mapping={255: 1}), how=LayoutOptions(rater=names[1]))
    assert found.fatal == []
    assert all(dict(each.pixels)[1] == (TOP & ~CORNER & ~LEFT).sum() for each in found.items)


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_black_and_white_masks_may_be_stored_in_colour(tmp_path, mode):
    fill(tmp_path, {"cell": TOP, "nucleus": CORNER}, "masks/{1}/{0}.png")
    before = inspect(tmp_path)
    for path in tmp_path.glob("masks/*/*.png"):
        Image.open(path).convert(mode).save(path)
    after = inspect(tmp_path)
    assert (after.fatal, after.labels.classes) == ([], ("background", "cell", "nucleus"))
    assert [each.pixels for each in after.items] == [each.pixels for each in before.items]


def test_one_mask_in_colours_does_not_end_the_folder(tmp_path):
    fill(tmp_path, {"cell": TOP, "nucleus": CORNER}, "masks/{1}/{0}.png")
    colors = np.random.default_rng(1).integers(0, 256, (24, 32, 3), np.uint8)
    miniatures.write(tmp_path / "masks/cell/0.png", cv2.imencode(".png", colors)[1].tobytes())
    assert words(tmp_path) == [
        f"{tmp_path}/masks/cell/0.png: expected a mask of one channel that holds numbers, found an image in the mode RGB. "
        "Save the numbers of the objects in one channel."
    ]
