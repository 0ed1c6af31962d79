from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from support import miniatures
from support.commands import call
from support.datasets import disk, records
from support.layouts import notes, outside
from support.miniatures import gray, make_image, write

from penstock.datasets import inspect
from penstock.images import decode_mask
from penstock.kinds.fields import decode_segmentation


def test_shares_are_packed_as_they_are(mattes):
    described = mattes.description
    found = {decode_segmentation(r).name: decode_segmentation(r) for r in records(mattes, "train")}
    shares = sum(disk(number)[1].astype(np.int64).sum() for number in range(12))

    assert (described.task, described.classes) == ("matting", ("background", "foreground"))
    assert described.splits["train"].per_class == (12 * 48 * 64 - round(shares / 255), round(shares / 255))
    for number in range(12):
        assert (decode_mask(found[f"{number}"].mask, "m") == disk(number)[1]).all()


def test_inspect_counts_pixels_by_their_shares(mattes, capsys):
    _, out, _ = call("inspect", mattes.folder.parent / "raw", capsys=capsys)
    background, foreground = mattes.description.splits["train"].per_class

    assert f"\n  background       {background:>10,} pixels, by their alpha values\n" in out
    assert f"\n  foreground       {foreground:>10,} pixels, by their alpha values\n" in out


@pytest.mark.parametrize("folders", ["{split}/images {split}/matte", "images alpha"])
def test_other_names_are_recognised(tmp_path, folders):
    for number, split in enumerate(("train", "val")):
        images, alphas = folders.format(split=split).split()
        write(tmp_path / images / f"{split}.jpg", make_image(seed=number))
        write(tmp_path / alphas / f"{split}.png", gray(np.full((24, 32), 200 + number, np.uint8)))
    found = inspect(tmp_path)

    assert (found.layout.task, found.layout.name) == ("matting", "image and alpha folders")
    assert (sorted(found.splits), found.fatal) == (["train", "val"] if "{" in folders else ["train"], [])


def test_a_matte_of_one_bit_is_named(tmp_path):
    write(tmp_path / "images/a.jpg", make_image())
    (tmp_path / "alphas").mkdir()
    Image.fromarray(np.eye(24, 32, dtype=bool)).save(tmp_path / "alphas/a.png")

    assert [problem.message for problem in inspect(tmp_path).fatal] == [
        "alphas/a.png: expected an alpha matte of 8 bits, found 1 bits. Save it as an 8-bit gray PNG."
    ]


def test_mattes_that_are_black(tmp_path):
    for name, matte in (("a", [[0, 1]] * 8), ("b", [[0, 0]] * 8), ("c", [[0, 200]] * 8)):
        miniatures.write(tmp_path / f"images/{name}.jpg", miniatures.make_image((8, 2), seed=ord(name)))
        miniatures.write(tmp_path / f"alphas/{name}.png", miniatures.gray(np.array(matte, np.uint8)))

    assert [(problem.fatal, problem.message) for problem in inspect(tmp_path).problems] == [
        (True, "alphas/a.png: expected alpha values from 0 to 255, found 0 and 1. Multiply it by 255."),
        (
            False,
            "alphas/b.png: expected alpha values from 0 to 255, found only 0. This is right if the image shows no foreground.",
        ),
    ]


@pytest.mark.parametrize("inside", [True, False])
def test_mattes_outside_them_are_told_of(tmp_path, inside):
    for number, split in enumerate(("train", "val")):
        for kind, data in (
            ("images", miniatures.make_image(seed=number)),
            ("alphas", miniatures.gray(np.full((24, 32), 9 + number, np.uint8))),
        ):
            miniatures.write(tmp_path / (f"{kind}/{split}" if inside else f"{split}/{kind}") / "a.png", data)
    name = "images/rest/b.jpg" if inside else "rest/images/b.jpg"
    miniatures.write(tmp_path / name, miniatures.make_image(seed=7))

    assert outside(name) in notes(tmp_path)
