"""Which images are set aside to evaluate on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support import miniatures
from support.commands import call

import penstock as ps
from penstock.datasets import validation
from penstock.errors import DatasetError
from penstock.kinds import KINDS
from penstock.kinds.items import InspectedItem, Item


def images(counts, group=""):
    """So many images of each class, with contents in no order of classes."""
    return [
        InspectedItem(
            Item("train", f"{label}-{number}", Path(f"{label}-{number}.jpg"), label=label, group=group and f"{group}{number % 3}"),
            content=f"{hash((label, number)) & 0xFFFFFF:06x}",
        )
        for label, count in counts.items()
        for number in range(count)
    ]  # fmt: skip


def parts(counts, fraction):
    items = images(counts)
    found = validation.chosen(items, fraction, "raw", {"train": len(items)}, KINDS["classification"])
    return [Counter(each.item.label for each in items if each.content in found)[label] for label in counts]


@pytest.mark.parametrize(
    ("counts", "fraction", "expected"),
    [
        ({0: 50, 1: 30, 2: 20}, 0.1, [5, 3, 2]),
        ({0: 90, 1: 10}, 0.1, [9, 1]),
        ({0: 97, 1: 3}, 0.1, [9, 1]),  # one of each class at least
        ({0: 99, 1: 1}, 0.1, [10, 0]),  # but never the last one
        ({0: 7, 1: 7, 2: 6}, 0.25, [2, 2, 1]),  # 1.75, 1.75, 1.5: the largest remainders
        ({0: 2, 1: 2, 2: 2, 3: 2}, 0.25, [1, 1, 0, 0]),  # too few for all classes
        ({0: 3, 1: 3}, 0.9, [2, 2]),  # 5 are wanted, and each keeps one
        ({None: 21}, 0.2, [4]),  # of masks and boxes
        ({0: 10}, 0.99, [9]),
    ],
)
def test_each_class_gives_its_part(counts, fraction, expected):
    assert parts(counts, fraction) == expected


def test_a_group_stays_together():
    items = images({0: 9, 1: 9}, group="patient")
    found = validation.chosen(items, 0.3, "raw", {"train": 18}, KINDS["classification"])
    for each in items:
        same = [other for other in items if other.item.group == each.item.group]
        assert {validation.together(other) in found for other in same} == {validation.together(each) in found}
    assert len(found) == 1


@pytest.mark.parametrize(
    ("counts", "splits", "said"),
    [
        (
            {0: 1},
            {"train": 1, "test": 3},
            "raw: expected at least two different training images, found 1 of them in the splits train, test. Remove "
            "--validation.",
        ),
        ({0: 5}, {"train": 5, "val": 87}, "raw already has a split val, of 87 images. Remove --validation."),
    ],
)
def test_what_cannot_be_divided(counts, splits, said):
    with pytest.raises(DatasetError) as caught:
        validation.chosen(images(counts), 0.1, "raw", splits, KINDS["classification"])
    assert str(caught.value) == said


def test_packing_says_how_much_of_each_class_is_in_val(tmp_path, capsys):
    for label, (name, count) in enumerate({"cat": 12, "dog": 6, "rat": 1}.items()):
        for number in range(count):
            miniatures.write(tmp_path / f"raw/{name}/{number}.jpg", miniatures.make_image(seed=100 * label + number))
    out = call("pack", tmp_path / "raw", "-o", tmp_path / "data", "--validation", 0.25, capsys=capsys)[1]
    assert (
        "\nval: 5 records in 1 shard\nin val, images by class: cat 3, dog 2, rat 0. Nothing in it is of 1 class\n"
        in out
    )


@pytest.mark.parametrize("door", ["python", "command"])
def test_the_fraction_is_of_images_that_are_left(tmp_path, capsys, door):
    for number in range(20):
        for name in ("cat", "dog"):
            data = miniatures.make_image(seed=100 * (name == "cat") + number)
            miniatures.write(tmp_path / f"raw/{name}/{number}.jpg", data if number % 2 else data[:40])
    if door == "python":
        ps.pack(tmp_path / "raw", tmp_path / "data", validation=0.2, skip_bad=True)
    else:
        words = ["-o", tmp_path / "data", "--validation", 0.2, "--skip-bad"]
        assert call("pack", tmp_path / "raw", *words, capsys=capsys)[0] == 0
    data = ps.open(tmp_path / "data")
    assert {split: len(data[split]) for split in data.splits} == {"train": 16, "val": 4}
