from __future__ import annotations

import json
import math
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import torch

from penstock.feed import Batch
from penstock.hooks import NonFiniteFiles
from penstock.images import drawing
from penstock.ranks import Ranks
from penstock.session import NonFinite
from penstock.session.diagnosis import Cause
from penstock.tasks import Segmentation
from penstock.values import Cursor

COUNT = 20


@pytest.fixture
def given():
    """A session whose batch has twenty images, of which the last is padding."""
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (COUNT, 8, 8, 3), np.uint8))
    masks = torch.from_numpy(np.arange(COUNT, dtype=np.uint8)[:, None, None].repeat(8, 1).repeat(8, 2) % 2)
    weight = torch.ones(COUNT)
    weight[-1] = 0
    origins = tuple(f"n#{row}" for row in range(COUNT))
    batch = Batch({"image": images, "mask": masks}, weight, Cursor(COUNT, "plan"), origins)
    return SimpleNamespace(batch=batch, task=Segmentation("unet:test_resnet", ("a", "b")), ranks=Ranks())


def written(folder, session, cause=Cause("encoder", ("n#17", "n#3"))):  # noqa: B008 - frozen
    NonFiniteFiles(folder).on_nonfinite(session, NonFinite(12, math.inf, 3.5, cause, "skip"))
    return folder / "nonfinite/step-00000012"


def test_all_of_the_batch_is_told_and_sixteen_are_drawn_the_suspects_first(given, tmp_path):
    place = written(tmp_path, given)
    drawn = cv2.imread(str(place / "images.png"))[..., ::-1]
    order = [3, 17, *(row for row in range(16) if row != 3)][:16]
    tiles = []
    for row in order:
        pair = given.task.drawing.draw({name: tensor[row].numpy() for name, tensor in given.batch.tensors.items()})
        mark = "NOT FINITE: " if row in (3, 17) else ""
        tiles.append(drawing.caption(drawing.fit(pair, 320), f"{mark}n#{row}"))

    assert json.loads((place / "batch.json").read_text()) == {
        "step": 12, "loss": "inf", "gradient_norm": 3.5, "began_in": "encoder", "samples": ["n#17", "n#3"],
        "action": "skip", "origins": [f"n#{row}" for row in range(COUNT)],
    }  # fmt: skip
    assert np.array_equal(drawn, drawing.sheet(tiles))


def test_every_rank_writes_its_share(given, tmp_path):
    given.ranks = Ranks(rank=1, world_size=2)
    place = written(tmp_path, given)

    assert sorted(path.name for path in place.iterdir()) == ["batch-rank1.json", "images-rank1.png"]


def test_what_cannot_be_drawn_is_told_all_the_same(given, tmp_path):
    given.task = SimpleNamespace(mask_padding=lambda *_: given.batch.tensors, drawing=SimpleNamespace(seen=raises))

    assert [path.name for path in written(tmp_path, given).iterdir()] == ["batch.json"]


def raises(_):
    raise ValueError("no number can be drawn")
