from __future__ import annotations

import numpy as np
from support.datasets import records
from support.layouts import boxes, words
from support.raw_folders import pets, square

from penstock.datasets import FolderDataset, LayoutOptions, inspect, pack
from penstock.images import codecs
from penstock.kinds.fields import decode_segmentation


def test_breeds_are_those_of_the_lists(tmp_path):
    pets(tmp_path)
    found = inspect(tmp_path)
    assert (found.layout.name, found.labels.classes) == ("Oxford-IIIT Pet", ("Abyssinian", "beagle"))
    assert [problem.message for problem in found.problems] == []
    assert [(each.item.split, each.item.name, each.item.label) for each in found.items] == [
        *(("train", f"Abyssinian_{number}", 0) for number in (1, 2, 3)),
        *(("train", f"beagle_{number}", 1) for number in (1, 2, 3)),
        ("test", "Abyssinian_4", 0),
        ("test", "beagle_4", 1),
    ]


def test_trimaps_are_masks_without_their_border(tmp_path):
    pets(tmp_path / "raw")
    found = inspect(tmp_path / "raw", how=LayoutOptions(task="segmentation"))
    pack(found, tmp_path / "data")
    assert found.labels.classes == ("background", "pet")
    decoded = (decode_segmentation(record) for record in records(FolderDataset.open(tmp_path / "data"), "train"))
    masks = {each.name: codecs.decode_mask(each.mask, "mask") for each in decoded}
    expected = square((0, 1), at=4)
    expected[0] = 255
    assert np.array_equal(masks["beagle_2"], expected)


def test_heads_are_boxes_of_the_images_that_have_some(tmp_path):
    pets(tmp_path / "raw")
    found = inspect(tmp_path / "raw", how=LayoutOptions(task="detection"))
    pack(found, tmp_path / "data")
    assert (found.labels.classes, len(found.items)) == (("cat", "dog"), 6)
    assert boxes(tmp_path)["Abyssinian_1"] == [(0, 2, 3, 20, 18)]
    assert boxes(tmp_path)["beagle_3"] == [(1, 2, 3, 20, 18)]


def test_a_missing_image_is_named(tmp_path):
    pets(tmp_path)
    (tmp_path / "images/beagle_4.jpg").unlink()
    assert words(tmp_path) == [
        "images/beagle_4.jpg: expected it, as test.txt names it, found nothing. Add it, or remove its line."
    ]
