"""Lists, tables and trees beside the data that pair images with other masks than those of their names."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.layouts import notes, words
from support.miniatures import gray, make_image, write

IDS = np.arange(24 * 32, dtype=np.uint8).reshape(24, 32) % 2
LISTS = {"pairs.txt": "{0} {1}\n", "train_pair.lst": "{0}\t{1}\n", "lists/pairs.txt": "./{0},{1}\n"}


def fill(root, *folders):
    for number in range(6):
        write(root / f"images/{number:03}.jpg", make_image(seed=number))
        for folder in ("masks", *folders):
            write(root / f"{folder}/{number:03}.png", gray(np.roll(IDS, len(folder))))


def state(root, form, pairs):
    named = [(f"images/{a:03}.jpg", f"{folder}/{b:03}.png") for a, b, folder in pairs]
    text = {
        "data.json": lambda: json.dumps([{"image": a, "mask": b} for a, b in named]),
        "dataset.json": lambda: json.dumps({"training": [{"image": a, "label": b} for a, b in named]}),
        "map.json": lambda: json.dumps(dict(named)),
        "pairs.yaml": lambda: "".join(f"- [{a}, {b}]\n" for a, b in named),
        "pairs.csv": lambda: "img_path,gt_path\n" + "".join(f"{a},{b}\n" for a, b in named),
    }
    made = text.get(form, lambda: "".join(LISTS[form].format(a, b) for a, b in named))()
    write(root / form, made)


FORMS = [*LISTS, "data.json", "dataset.json", "map.json", "pairs.yaml", "pairs.csv"]


@pytest.mark.parametrize("form", FORMS)
def test_pairs_of_other_masks_are_refused(tmp_path, form):
    fill(tmp_path)
    state(tmp_path, form, [(n, n if n < 3 else 8 - n, "masks") for n in range(6)])
    assert words(tmp_path) == [
        f"{form}: expected the pairs of images and masks that are found by their names, found others: masks/005.png instead "
        f"of masks/003.png. Rename the masks as their images, or remove {form.rpartition('/')[2]}."
    ]


@pytest.mark.parametrize("form", FORMS)
def test_the_same_pairs_are_none(tmp_path, form):
    fill(tmp_path)
    state(tmp_path, form, [(n, n, "masks") for n in range(6)])
    assert words(tmp_path) == []


@pytest.mark.parametrize("form", FORMS)
def test_masks_of_a_second_folder_are_others(tmp_path, form):
    fill(tmp_path, "fine_annotations")
    state(tmp_path, form, [(4, 4, "fine_annotations")])
    assert [message for message in words(tmp_path) if "found others: fine_annotations/004.png" in message]


def test_a_column_of_something_else_is_no_mask(tmp_path):
    fill(tmp_path)
    rows = "".join(f"images/{n:03}.jpg,images/{(n + 1) % 6:03}.jpg,depth/{n:03}.png\n" for n in range(6))
    for number in range(6):
        write(tmp_path / f"depth/{number:03}.png", make_image(seed=9))
    write(tmp_path / "pairs.csv", f"left,right,depth\n{rows}")
    assert notes(tmp_path) == [
        "depth/: 6 images, such as depth/000.png, are no part of the layout. They are left out.",
        "pairs.csv: its column left names images, but it is not read. It has the columns left, right, depth.",
    ]
