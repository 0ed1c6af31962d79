from __future__ import annotations

from support.layouts import pack_miniature

from penstock.datasets import inspect
from penstock.extensions.datasets import camvid
from penstock.kinds import Labels


def test_camvid_is_sound(real_data):
    names = ("sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "bicyclist")
    found = inspect(real_data("camvid"), Labels(classes=names, ignore=11))

    assert found.fatal == []
    assert {split: len(items) for split, items in found.splits.items()} == {"train": 367, "val": 101, "test": 233}


def test_camvid_ignores_void(tmp_path):
    dataset = pack_miniature("camvid", tmp_path)

    assert (dataset.description.classes, dataset.description.ignore_label) == (camvid.CLASSES, 11)
