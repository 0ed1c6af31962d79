from __future__ import annotations

import numpy as np
from support.datasets import records
from support.layouts import boxes, words
from support.raw_folders import penn_fudan

from penstock.datasets import FolderDataset, LayoutOptions, inspect, pack
from penstock.images import codecs
from penstock.kinds.fields import decode_detection, decode_segmentation


def test_all_numbers_are_one_class(tmp_path):
    penn_fudan(tmp_path / "raw")
    found = inspect(tmp_path / "raw")
    pack(found, tmp_path / "data")
    assert (found.layout.name, found.labels.classes) == ("Penn-Fudan", ("background", "person"))
    decoded = (decode_segmentation(record) for record in records(FolderDataset.open(tmp_path / "data"), "train"))
    masks = {each.name: codecs.decode_mask(each.mask, "mask") for each in decoded}
    expected = np.zeros((24, 32), np.uint8)
    expected[3:15, 2:8] = 1
    expected[5:20, 15:22] = 1
    assert np.array_equal(masks["FudanPed00002"], expected)


def test_each_number_has_a_box(tmp_path):
    penn_fudan(tmp_path / "raw")
    pack(inspect(tmp_path / "raw", how=LayoutOptions(task="detection")), tmp_path / "data")
    assert boxes(tmp_path)["FudanPed00003"] == [(0, 2, 3, 8, 15), (0, 15, 5, 23, 20)]


def test_each_number_is_an_object(tmp_path):
    penn_fudan(tmp_path / "raw")
    data = pack(inspect(tmp_path / "raw", how=LayoutOptions(task="instances")), tmp_path / "data")
    objects = {each.name: each.objects for each in map(decode_detection, records(data, "train"))}["FudanPed00003"]
    expected = np.zeros((2, 24, 32), np.uint8)
    expected[0, 3:15, 2:8] = 1
    expected[1, 5:20, 15:23] = 1
    assert np.array_equal([codecs.decode_mask(each.mask, "mask") for each in objects], expected)
    assert [each.label for each in objects] == [0, 0]


def test_a_missing_mask_is_named(tmp_path):
    penn_fudan(tmp_path)
    (tmp_path / "PedMasks/FudanPed00001_mask.png").unlink()
    assert words(tmp_path) == [
        "PNGImages/FudanPed00001.png: expected a mask PedMasks/FudanPed00001_mask.png, found none. Add the mask, or leave "
        "the image out with --skip-bad."
    ]
