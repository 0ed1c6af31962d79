from __future__ import annotations

import pytest

from penstock.datasets.layouts.matching import are_shifted, ending, match

CASES = {
    "the same name": (["a", "b"], ["b", "a"], {"a": ["a"], "b": ["b"]}),
    "any ending": (["1", "10"], ["1_anything", "10_anything"], {"1": ["1_anything"], "10": ["10_anything"]}),
    "a digit ends a name": (
        ["img1", "img12"],
        ["img12mask", "img1mask"],
        {"img1": ["img1mask"], "img12": ["img12mask"]},
    ),
    "a single image has all": (["cat"], ["x", "y"], {"cat": ["x", "y"]}),
    "a single image has its own": (["cat"], ["cat", "dog"], {"cat": ["cat"]}),
    "no word ends within": (["cat", "dog"], ["cattle", "doghouse"], {}),
    "a folder for each image": (["a", "b"], ["a/1", "a/2", "b/1"], {"a": ["a/1", "a/2"], "b": ["b/1"]}),
    "a folder for each class": (["a", "b"], ["x/a", "x/b", "y/a"], {"a": ["x/a", "y/a"], "b": ["x/b"]}),
    "channels of nnU-Net": (
        ["c_001_0000", "c_002_0000"],
        ["c_001", "c_002"],
        {"c_001_0000": ["c_001"], "c_002_0000": ["c_002"]},
    ),
    "other words before a number": (
        ["img_1", "img_2"],
        ["lab_02", "lab_01"],
        {"img_1": ["lab_01"], "img_2": ["lab_02"]},
    ),
    "both with words behind": (["1_rgb", "2_rgb"], ["1_gt", "2_gt"], {"1_rgb": ["1_gt"], "2_rgb": ["2_gt"]}),
    "numbers with zeros before them": (
        ["0", "1", "10"],
        ["0/00000_hair", "0/00001_hair", "1/00010_hair", "1/00010_nose"],
        {"0": ["0/00000_hair"], "1": ["0/00001_hair"], "10": ["1/00010_hair", "1/00010_nose"]},
    ),
    "one number twice is none": (["i1", "i2"], ["m1", "m01"], {}),
}


@pytest.mark.parametrize("case", CASES)
def test_masks_belong_to_the_images_that_their_names_show(case):
    images, masks, expected = CASES[case]
    assert match(images, masks) == expected


def test_nothing_counts_from_another_number_where_no_pair_is_found():
    """a/0.jpg beside a_0.png."""
    assert not are_shifted(["a/0", "b/0"], ["a_0", "b_0"], {})


@pytest.mark.parametrize(
    ("image", "mask", "expected"),
    [
        ("a", "a_mask", "_mask"), ("a", "cell/a", "cell"), ("a", "a/3", "/3"), ("0", "0/00000_hair", "_hair"),
        ("12", "0/00012-nose", "-nose"), ("1", "1/1", "/1"), ("1", "1/10", "/10"), ("1", "1/2", "/2"),
    ],
)  # fmt: skip
def test_an_ending_is_what_a_mask_is_called_beyond_its_image(image, mask, expected):
    assert ending(image, mask) == expected
