from __future__ import annotations

import numpy as np
from support import miniatures
from support.datasets import records
from support.layouts import pack_miniature, words

from penstock.datasets import inspect, pack
from penstock.extensions.datasets import cityscapes
from penstock.images import decode_mask
from penstock.kinds import Labels
from penstock.kinds.fields import decode_segmentation


def test_own_ids_are_changed_before_the_layouts(tmp_path):
    """ADE20K counts from 1: what is said of raw ids leaves all others what they are."""
    miniatures.ade20k(tmp_path / "raw")
    plain = pack(inspect(tmp_path / "raw"), tmp_path / "plain").split("train").per_class
    mapped = pack(inspect(tmp_path / "raw", Labels(mapping={21: 255, 5: 6})), tmp_path / "mapped").split("train")
    expected = list(plain)
    expected[20], expected[4], expected[5] = 0, 0, plain[4] + plain[5]

    assert list(mapped.per_class) == expected


def test_coarse_masks_of_cityscapes(tmp_path):
    miniatures.cityscapes_(tmp_path)
    extra = "train_extra/ulm/ulm_000000_000099"
    image = next((tmp_path / "leftImg8bit/val").rglob("*.png")).read_bytes()
    miniatures.write(tmp_path / f"leftImg8bit/{extra}_leftImg8bit.png", image[:-1] + image[-1:])
    miniatures.write(
        tmp_path / f"gtCoarse/{extra}_gtCoarse_labelIds.png", miniatures.gray(np.full((16, 40), 7, np.uint8))
    )
    found = inspect(tmp_path)
    assert {name: len(items) for name, items in found.splits.items()} == {"train": 1, "train_extra": 1, "val": 1}
    assert found.splits["train_extra"][0].item.label.name == "ulm_000000_000099_gtCoarse_labelIds.png"

    (tmp_path / "gtFine").rename(tmp_path / "gone")
    missing = [problem.message for problem in inspect(tmp_path).fatal if problem.kind == "mask missing"]
    assert [" ".join(message.split()[4:7]) for message in missing] == [
        f"gtCoarse/{stem}_gtCoarse_labelIds.png, found none."
        for stem in ("train/ulm/ulm_000000_000010", "val/bonn/bonn_000000_000011")
    ]
    assert missing[0].endswith("Extract gtCoarse.zip beside leftImg8bit.")


def test_cityscapes_label_ids_become_train_ids(tmp_path):
    dataset = pack_miniature("cityscapes", tmp_path)
    (record,) = map(decode_segmentation, records(dataset, "train"))
    ids = decode_mask(record.mask, "m")
    named = {7: "road", 11: "building", 21: "vegetation", 23: "sky", 24: "person", 26: "car", 33: "bicycle"}

    assert record.name == "ulm/ulm_000000_000010"
    for label, name in named.items():
        assert cityscapes.CLASSES[ids[0, label]] == name
    assert sorted(set(ids.ravel().tolist())) == [*range(19), 255]
    assert {label for label in range(34) if ids[0, label] == 255} == set(range(34)) - set(cityscapes.LABEL_IDS)


def test_other_classes_beside_such_folders_are_taken(tmp_path):
    """A data set of one's own in the folders of Cityscapes, as Datumaro writes it."""
    miniatures.cityscapes_(tmp_path)
    names = ["background", *(f"thing {number}" for number in range(1, 40))]
    miniatures.write(tmp_path / "label_colors.txt", "\n".join(names) + "\n")
    found = inspect(tmp_path)
    assert found.labels.classes == tuple(names)
    assert [i for i, _ in found.items[0].pixels] == [*range(34)]


def test_classes_without_colours_begin_with_the_background(tmp_path):
    miniatures.cityscapes_(tmp_path)
    miniatures.write(tmp_path / "label_colors.txt", " sky\n lawn\n")
    (message,) = (each for each in words(tmp_path) if "background" in each)
    assert message == (
        f"{tmp_path}: expected background as the first of the classes, as the tools that write such folders give id 0 to "
        "it, found sky. Write it in front of them if it is missing, or name all classes with --classes and choose "
        "--layout masks with --images leftImg8bit --masks gtFine."
    )
