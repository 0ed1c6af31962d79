from __future__ import annotations

import importlib
import json
import sys

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import load_file
from support.errors import refused
from support.paths import ROOT
from support.training import recipe

import penstock as ps
from penstock.config import load
from penstock.custom import import_path_of_object
from penstock.errors import RecipeError
from penstock.inference import load_model
from penstock.training import train


def test_weights_of_a_run_are_those_of_its_average(packed, tmp_path):
    """What `--init` begins with."""
    folder, _ = train(recipe(packed.folder, wide=True, steps=2), tmp_path)
    average = load_file(folder.checkpoints / "last" / "ema.safetensors")

    assert load(folder.path / "recipe.toml").train.ema_decay == 0.9
    weights = load_model(folder.path, device="cpu").model.state_dict()
    assert all(torch.equal(weights[name], average[name]) for name in average)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((32, 32, 3), np.float32), "the image: expected a uint8 RGB array of shape (height, width, 3), found float32 of "
         "shape (32, 32, 3). If its values are from 0 to 1, give (255 * image).astype('uint8')."),
        (np.zeros((3, 32, 32), np.uint8), "the image: expected a uint8 RGB array of shape (height, width, 3), found uint8 of "
         "shape (3, 32, 32). Convert it to uint8 RGB, with values from 0 to 255 and the channels last."),
        ("nowhere.jpg", "nowhere.jpg: expected an image file, found no such file. Check the path."),
    ],
)  # fmt: skip
def test_what_is_no_image_is_not_predicted(whole_run, image, message):
    refused(ps.load(whole_run).predict, image, message=message)


def test_a_gray_image_is_predicted_as_rgb_of_equal_channels(shaken_run):
    gray = np.random.default_rng(0).integers(0, 256, (40, 48), np.uint8)
    model = ps.load(shaken_run)

    assert (model.predict(gray).mask == model.predict(np.stack([gray] * 3, axis=2)).mask).all()


def test_an_image_of_pillow_is_predicted_as_its_array(shaken_run):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 48, 3), np.uint8)
    model = ps.load(shaken_run)

    assert (model.predict(Image.fromarray(pixels)).mask == model.predict(pixels).mask).all()


def local():
    """A hook that no other process can import."""

    class Every(ps.Hook):
        pass

    return Every


Every = local()
NAMED = (
    "expected a class or function at the top of a module, FILE.py:NAME or package.module:NAME, found Every, which another "
    "process cannot import. Define it in a file of its own, so that the run can keep a copy of it."
)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hooks": "my_hooks.py:Every"}, "hooks: expected a list, found a string. Write hooks=['my_hooks.py:Every']."),
        ({"hooks": Every}, "hooks: expected a list, found Every. Write hooks=[Every()]."),
        ({"hooks": [Every]}, f"hooks: {NAMED}"),
        ({"model": Every}, f"model.name: {NAMED}"),
        ({"loss": Every}, f"loss.custom: {NAMED}"),
        ({"optimizer": Every}, f"optimizer.name: {NAMED}"),
    ],
)
def test_objects_that_must_be_named_are_refused(packed, tmp_path, options, message):
    with pytest.raises(RecipeError) as caught:
        ps.train(packed.folder, runs=tmp_path, **options)
    assert str(caught.value) == message


def test_objects_are_kept_as_the_files_that_define_them(packed, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples" / "own_parts")
    net, loss, hooks = (importlib.import_module(f"my_{name}") for name in ("net", "loss", "hooks"))
    options = {"crop": (32, 32), "batch": 2, "steps": 2}
    stop = {"name": hooks.StopAt, "loss": 0.0}
    run = ps.train(
        packed.folder, model=net.build, loss=loss.margin, hooks=[stop, hooks.Norms], runs=tmp_path, **options
    )
    kept = run.recipe.model.name, run.recipe.loss.custom, run.recipe.hooks[0]["name"], run.recipe.hooks[1]

    assert kept == tuple(
        f"{run.path}/code/my_{place}"
        for place in ("net.py:build", "loss.py:margin", "hooks.py:StopAt", "hooks.py:Norms")
    )
    assert len((run.path / "norms.jsonl").read_text().splitlines()) == 2
    assert ps.resume(run, steps=3).metrics[-1]["step"] == 3


def test_an_installed_object_is_kept_as_its_module():
    place = import_path_of_object(timm.models.resnet.resnet18)

    assert str(place) == "timm.models.resnet:resnet18"
    assert import_path_of_object(sys) is None
    assert import_path_of_object(len) is None


def test_scores_are_no_markup(tmp_path):
    (tmp_path / "recipe.toml").write_text("")
    line = {"step": 1, "best": True, "evaluation": {"mean_iou": "<img src=x>"}}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(line))
    assert "<img" not in ps.Run(tmp_path)._repr_html_()
