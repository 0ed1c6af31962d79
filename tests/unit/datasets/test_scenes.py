from __future__ import annotations

import numpy as np
import pytest
from support.commands import call

import penstock as ps
from penstock.datasets import scenes
from penstock.errors import PenstockError
from penstock.images import decode_image


def test_scenes_have_the_size_that_is_asked_for(tmp_path, capsys):
    words = ["scenes", "-o", tmp_path, "--train", 1, "--val", 1, "--test", 1, "--size", 48, 80]
    assert call(*words, capsys=capsys)[0] == 0
    images = [*tmp_path.rglob("*.jpg")]

    assert len(images) == 3
    assert {decode_image(path.read_bytes(), "x").shape for path in images} == {(48, 80, 3)}


def test_scenes_follow_from_their_seed():
    a, b = (scenes.draw(1, "train", 3, (40, 50)) for _ in range(2))

    assert np.array_equal(a.image, b.image)
    assert np.array_equal(a.mask, b.mask)
    assert not np.array_equal(a.image, scenes.draw(2, "train", 3, (40, 50)).image)
    assert not np.array_equal(a.image, scenes.draw(1, "val", 3, (40, 50)).image)


def test_who_interrupts_waits_for_no_more_scenes(tmp_path, monkeypatch):
    begun = []

    def write(path, data):
        begun.append(path)
        if len(begun) > 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(scenes, "_write", write)
    with pytest.raises(KeyboardInterrupt):
        scenes.write_folder(tmp_path, {"train": 500}, (16, 16), seed=0)
    assert len(begun) < 50


def test_more_scenes_than_names_have_digits_for_are_refused(tmp_path):
    with pytest.raises(PenstockError, match=r"^train: expected a number from 1 to 100000, found 100001"):
        ps.scenes(tmp_path, train=100_001)
