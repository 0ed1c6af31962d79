from __future__ import annotations

import json

import pytest
from support import annotations as tools
from support.miniatures import gray, write

from penstock.datasets import inspect


def lines(root, *values):
    tools.images(root, "{name}.jpg")
    write(root / "metadata.jsonl", "\n".join(map(json.dumps, values)))


def test_classes_of_boxes_may_be_ids(tmp_path):
    lines(
        tmp_path,
        *({"file_name": f"{name}.jpg", "objects": {"bbox": [[2, 3, 8, 9]], "categories": [1]}} for name in "abc"),
    )
    write(tmp_path / "classes.txt", "dog\ncat\n")

    found = inspect(tmp_path)
    assert (found.labels.classes, {box.label for each in found.items for box in each.item.label}) == (
        ("dog", "cat"),
        {1},
    )


@pytest.mark.parametrize(
    ("field", "values", "expected"),
    [
        ("split", ("train", "train", "validation"), [("train", False), ("train", False), ("val", False)]),
        ("patient_id", ("p1", "p1", "p2"), [("train", True), ("train", True), ("train", False)]),
    ],
)
def test_masks_have_the_split_and_the_group_that_their_line_names(tmp_path, field, values, expected):
    for number, name in enumerate("abc"):
        write(tmp_path / f"{name}_mask.png", gray((tools.bits_of(tools.CAT) + number).astype("uint8")))
    held = (
        {"file_name": f"{n}.jpg", "mask_file_name": f"{n}_mask.png", field: v}
        for n, v in zip("abc", values, strict=True)
    )
    lines(tmp_path, *held)

    items = sorted((each.item for each in inspect(tmp_path).items), key=lambda item: item.name)
    first = items[0].group
    assert [(item.split, bool(first) and item.group == first) for item in items] == expected
