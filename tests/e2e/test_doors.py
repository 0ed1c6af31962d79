from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support import miniatures
from support.commands import call

import penstock as ps
from penstock import files
from penstock.assembly import resolve_settings
from penstock.config import load
from penstock.session.options import ENDLESS

SMALL = {"augment.crop": [32, 32], "train.batch": 4, "train.steps": 2, "train.device": "cpu"}


@pytest.fixture(scope="module")
def color_folders(tmp_path_factory):
    """Images with a class each."""
    folder = tmp_path_factory.mktemp("colors")
    miniatures.folders(folder / "raw")
    return ps.pack(folder / "raw", folder / "data")


def written(given):
    """Settings as a recipe in TOML."""
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in given.items())


def weights(run):
    last = (run / "checkpoints" / "last").resolve()
    return {path.name: path.read_bytes() for path in sorted(last.iterdir())}


@pytest.mark.parametrize(
    ("data", "given", "words"),
    [
        ("packed", {"model.name": "unet:test_resnet", "model.weights": "none", "optimizer.name": "adamw"},
         ["--model", "unet:test_resnet", "--weights", "none", "--optimizer", "adamw"]),
        ("color_folders", {"model.name": "test_resnet", "model.weights": "none", "augment.flip": 0.25},
         ["--model", "test_resnet", "--weights", "none", "--set", "augment.flip=0.25"]),
    ],
)  # fmt: skip
def test_three_doors_lead_to_the_same_training(request, data, given, words, tmp_path, capsys):
    found = request.getfixturevalue(data)
    path = str(found.path if data == "color_folders" else found.folder)
    given = {**given, **SMALL}
    python = ps.train(path, settings=given, runs=tmp_path / "python", name="r").path
    (tmp_path / "recipe.toml").write_text(written({"data.path": path, **given}))
    assert call("train", tmp_path / "recipe.toml", "--runs", tmp_path / "toml", "--name", "r", capsys=capsys)[0] == 0
    small = ["--crop", 32, 32, "--batch", 4, "--steps", 2, "--device", "cpu"]
    assert call("train", path, *words, *small, "--runs", tmp_path / "words", "--name", "r", capsys=capsys)[0] == 0
    toml, command = tmp_path / "toml" / "0001-r", tmp_path / "words" / "0001-r"

    for other in (toml, command):
        assert (other / "recipe.toml").read_bytes() == (python / "recipe.toml").read_bytes()
        assert json.loads((other / "settings.json").read_text()) == json.loads((python / "settings.json").read_text())
        assert (other / "metrics.jsonl").read_bytes() == (python / "metrics.jsonl").read_bytes()
        assert weights(other) == weights(python)


def test_what_nobody_gives_comes_from_what_is_chosen(packed, color_folders):
    """From following, the optimizer, the model, the task, the general defaults; the first that says something."""

    def found(path, key, **given):
        resolved = resolve_settings({"data.path": str(path), **{k.replace("__", "."): v for k, v in given.items()}})
        value = resolved.recipe
        for name in key.split("."):
            value = getattr(value, name)
        return value, resolved.origin(key)

    rate = "optimizer.lr"
    assert found(packed.folder, rate) == (0.01, "general default")
    assert found(packed.folder, rate, optimizer__name="adamw") == (3e-4, "optimizer adamw")
    assert found(packed.folder, rate, optimizer__name="adamw", optimizer__lr=0.5) == (0.5, "given")
    assert found(color_folders.path, "loss.label_smoothing") == (0.1, "task classification")
    assert found(color_folders.path, "loss.label_smoothing", model__name="cifar10-fast") == (0.2, "model cifar10-fast")
    assert found(color_folders.path, "loss.label_smoothing", model__name="cifar10-tutorial") == (
        0.0,
        "model cifar10-tutorial",
    )
    assert found(color_folders.path, rate, model__name="cifar10-fast", optimizer__name="adamw") == (
        3e-4,
        "optimizer adamw",
    )
    assert found(packed.folder, "train.steps") == (1000, "size of the data")
    assert found(packed.folder, "train.steps", model__name="cifar10-fast") == (400, "model cifar10-fast")
    assert found(packed.folder, "train.batch") == (16, "general default")


def test_a_topic_is_followed_without_end_and_its_shuffle_is_chosen(monkeypatch):
    """Whichever door it came through: nothing of this is the command line's."""
    from penstock.assembly import resolving

    monkeypatch.setattr(resolving, "_task", lambda data: "segmentation")
    monkeypatch.setattr(resolving, "_opened", lambda data: None)
    monkeypatch.setattr(resolving, "with_data_defaults", lambda resolved, dataset, task: resolved)
    topic = {"data.path": "kafka://h:9092/t"}
    followed = resolve_settings({**topic, "follow.on": True, "optimizer.name": "adamw"})

    assert (followed.recipe.train.steps, followed.origin("train.steps")) == (ENDLESS, "following a topic")
    assert followed.recipe.optimizer.schedule.name == "constant"
    assert (followed.recipe.data.block, followed.origin("data.block")) == (0, "topic")
    assert resolve_settings({**topic, "data.block": 4}).recipe.data.block == 4


def test_a_run_keeps_what_was_given_and_where_the_rest_comes_from(packed, tmp_path, capsys):
    run = ps.train(
        str(packed.folder), model="unet:test_resnet", weights="none", optimizer="adamw", steps=1, crop=(32, 32), batch=2,
        device="cpu", runs=tmp_path,
    )  # fmt: skip
    kept = json.loads((run.path / "settings.json").read_text())
    manifest = json.loads((run.path / "checkpoints/step-00000001/manifest.json").read_text())

    assert kept.pop("run") == manifest["run"]
    assert kept == {
        "given": {
            "data.path": str(packed.folder), "model.name": "unet:test_resnet", "model.weights": "none",
            "optimizer.name": "adamw", "train.steps": 1, "augment.crop": [32, 32], "train.batch": 2, "train.device": "cpu",
        },
        "origins": {
            "optimizer.schedule.name": "optimizer adamw", "optimizer.lr": "optimizer adamw",
            "optimizer.weight_decay": "optimizer adamw",
            **dict.fromkeys(("train.evaluate_every", "train.save_every", "train.log_every"), "train.steps"),
            **{f"augment.jitter.{name}": "images in colour" for name in ("brightness", "contrast", "saturation", "hue")},
        },
        "code": {}, "recipe": files.sha256(run.path / "recipe.toml"),
    }  # fmt: skip
    ps.resume(run, settings={"train.steps": 2})
    assert json.loads((run.path / "settings.json").read_text())["given"]["train.steps"] == 2
    shown = call("recipe", "--set", "optimizer.name=adamw", capsys=capsys)[1].splitlines()
    assert "lr = 0.0003  # optimizer adamw" in shown
    assert 'name = "adamw"  # given' in shown
    assert "decay_biases = false" in shown
    assert not any(line.startswith("momentum") for line in shown)


def test_an_optimizer_is_a_value_too(packed, tmp_path):
    """With its schedule: the same recipe as by names, kept as plain settings, and gone on with."""
    small = {"model": "unet:test_resnet", "weights": "none", "crop": (32, 32), "batch": 2, "steps": 1, "device": "cpu"}
    value = ps.AdamW(lr=0.002, schedule=ps.Step(step_size=1, gamma=0.5))
    named = {
        "optimizer": "adamw",
        "optimizer.lr": 0.002,
        "optimizer.schedule": {"name": "step", "step_size": 1, "gamma": 0.5},
    }
    one, other = (
        ps.train(str(packed.folder), runs=tmp_path / name, name="r", **small, **given).path
        for name, given in (("value", {"optimizer": value}), ("named", {"settings": named}))
    )

    assert (one / "recipe.toml").read_bytes() == (other / "recipe.toml").read_bytes()
    assert weights(one) == weights(other)
    assert json.loads((one / "settings.json").read_text())["given"]["optimizer.schedule.gamma"] == 0.5
    again = ps.resume(one, optimizer=replace(value, lr=0.001), steps=2)
    assert again.outcome.step == 2
    assert load(one / "recipe.toml").optimizer == replace(value, lr=0.001)
