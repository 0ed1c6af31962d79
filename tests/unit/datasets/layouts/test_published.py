from __future__ import annotations

import numpy as np
import pytest
from support.layouts import notes
from support.miniatures import gray, make_image, write

from penstock.datasets import inspect

COUNT = np.arange(24 * 32, dtype=np.uint8).reshape(24, 32) % 3
IDS = {"CamVid": COUNT, "Cityscapes": COUNT + 7}


@pytest.mark.parametrize(
    ("name", "image", "mask", "count"),
    [
        ("CamVid", "train/{}.png", "trainannot/{}.png", "367"),
        ("Cityscapes", "leftImg8bit/train/a/{}_leftImg8bit.png", "gtFine/train/a/{}_gtFine_labelIds.png", "2,975"),
    ],
)
def test_classes_of_a_published_data_set_are_doubted(tmp_path, name, image, mask, count):
    for number in range(3):
        write(tmp_path / image.format(number), make_image(seed=number))
        write(tmp_path / mask.format(number), gray(IDS[name]))
    said = (
        f"{tmp_path}: the classes are those of {name}, as the folders are called so, but train has 3 images instead of "
        f"{count}. If these are not its classes, list them in classes.txt."
    )
    assert said in notes(tmp_path)
    names = ("background", *(f"cup{number}" for number in range(int(IDS[name].max()))))
    write(tmp_path / "classes.txt", "\n".join(names))
    assert inspect(tmp_path).labels.classes == names
    assert said not in notes(tmp_path)
