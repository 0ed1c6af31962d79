from __future__ import annotations

import numpy as np
from support import miniatures
from support.layouts import notes


def test_a_gray_image_makes_no_masks(tmp_path):
    for name in ("cat", "dog"):
        for number in range(3):
            miniatures.write(tmp_path / f"{name}/{number}.jpg", miniatures.make_image(seed=10 * number + ord(name[0])))
    miniatures.write(tmp_path / "cat/0.png", miniatures.gray(np.zeros((24, 32), np.uint8)))
    (tmp_path / "cat/0.jpg").unlink()

    assert notes(tmp_path) == []
