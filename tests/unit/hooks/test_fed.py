from __future__ import annotations

import cv2
import numpy as np
from support.training import recipe
from support.watching import Given

from penstock.assembly import open_run
from penstock.config import apply
from penstock.hooks.fed import FedImages
from penstock.training import resume, train


def test_batches_are_drawn_as_the_network_is_given_them(packed, tmp_path):
    given = Given()
    folder, _ = train(recipe(packed.folder, steps=5), tmp_path / "runs", hooks=[FedImages(tmp_path, 2, 4), given])
    task = open_run(folder.path).task
    names = sorted(path.name for path in (tmp_path / "fed").iterdir())

    assert names == ["step-00000001.png", "step-00000002.png", "step-00000004.png"]
    for name in names:
        drawn = cv2.imread(str(tmp_path / "fed" / name))[..., ::-1]
        tensors = given.batches[int(name[5:13]) - 1]
        tile = task.drawing.draw(
            {key: tensor[0].numpy() for key, tensor in tensors.items() if key in {"image", "mask"}}
        )
        scale = 320 // max(tile.shape[:2])
        shown = tile.repeat(scale, axis=0).repeat(scale, axis=1)
        assert np.array_equal(drawn[6 : 6 + shown.shape[0], 6 : 6 + shown.shape[1]], shown)


def test_a_recipe_may_name_it_and_a_resumed_run_draws_no_first_step_again(packed, tmp_path):
    folder, _ = train(apply(recipe(packed.folder, steps=2), ["hooks=['fed_images']"]), tmp_path)
    (drawn,) = (folder.path / "fed").iterdir()
    drawn.unlink()
    resume(folder.path, ["train.steps=4"])

    assert drawn.name == "step-00000001.png"
    assert not list((folder.path / "fed").iterdir())
