from __future__ import annotations

import numpy as np
from support.commands import call
from support.images import array_png

from penstock.datasets import scenes
from penstock.datasets.inspection import grouped
from penstock.kinds.items import Problem


def test_inspect_says_what_and_why(raw, capsys):
    code, out, _ = call("inspect", raw, capsys=capsys)

    assert code == 0
    assert out.splitlines()[:6] == [
        f"{raw}: segmentation, image and mask folders",
        "  because images/ is divided into train, val",
        "  because masks are found by name in masks/",
        "classes (6): ground, disk, box, triangle, star, ring",
        "ignore label: 255",
        "train: 21 images, height x width 64 x 96 (21)",
    ]
    assert out.endswith("no problems found\n")


def test_inspect_exits_with_1_where_pack_refuses(tmp_path, capsys):
    scenes.write_folder(tmp_path / "raw", {"train": 3, "val": 1}, (24, 32))
    (tmp_path / "raw" / "masks" / "train" / "scene-00001.png").unlink()
    code, out, _ = call("inspect", tmp_path / "raw", capsys=capsys)
    assert code == 1
    assert "PROBLEMS: 1 x mask missing\n  images/train/scene-00001.jpg: expected a mask " in out
    assert call("pack", tmp_path / "raw", "-o", tmp_path / "d", capsys=capsys)[0] == 2
    code, out, _ = call("pack", tmp_path / "raw", "-o", tmp_path / "d", "--skip-bad", capsys=capsys)
    assert code == 0
    assert "skipped: images/train/scene-00001.jpg" in out
    assert "skipped 1 of 4 images" in out


def test_many_problems_of_a_kind_are_grouped():
    problems = [Problem("size mismatch", f"{i}.png", f"{i}.png is wrong.") for i in range(9)]
    problems.append(Problem("only background", "x.png", "x.png is empty.", fatal=False))

    assert grouped(problems, 4) == [
        "0.png is wrong.",
        "1.png is wrong.",
        "2.png is wrong.",
        "... and 6 more of this kind (size mismatch): 3.png, 4.png, 5.png, 6.png, ...",
        "(note) x.png is empty.",
    ]


def test_the_layout_that_is_said_is_the_one_that_is_inspected(tmp_path, capsys):
    """Images of classes in folders called images and masks: nothing but a word tells that they are no masks."""
    for number, name in enumerate(("images", "masks")):
        for count in range(2):
            path = tmp_path / name / f"{count}.png"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(array_png(np.full((20, 20, 3), 10 + 60 * number + count, np.uint8)))

    assert call("inspect", tmp_path, capsys=capsys)[0] == 1
    code, out, _ = call("inspect", tmp_path, "--layout", "folders", capsys=capsys)
    assert (code, "each folder with images is a class; found 2" in out) == (0, True)
