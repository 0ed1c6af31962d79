from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from support import miniatures
from support.commands import call
from support.datasets import classes, learn_colors
from support.training import recipe

from penstock.config import apply
from penstock.datasets import inspect, pack
from penstock.errors import RecipeError
from penstock.inference import load_model
from penstock.inference.export import export
from penstock.models import TestTimeAugmentation
from penstock.tasks import Augment, Detection
from penstock.training import train


@pytest.fixture(scope="module")
def run(packed, tmp_path_factory):
    folder, _ = train(recipe(packed.folder, steps=4), tmp_path_factory.mktemp("runs"))
    return folder.path


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
def test_masks_are_those_of_the_model(run, tmp_path, suffix, capsys):
    file = tmp_path / f"model{suffix}"
    status, out, errors = call("export", run, "-o", file, "--size", 64, 96, capsys=capsys)

    assert (status, errors) == (0, "")
    assert "takes: image, uint8 (n, 64, 96, 3), RGB; gives: classes, probabilities" in out
    assert "compared with the PyTorch model on random images: 100.00 % of the predictions are equal, " in out
    trained, images = load_model(run, device="cpu"), torch.randint(0, 256, (3, 64, 96, 3), dtype=torch.uint8)
    classes, probabilities = predictions(file, images)
    with torch.inference_mode():
        expected = trained.model(trained.parts.task.inputs({"image": images})).softmax(dim=1)
    assert (classes.dtype, tuple(classes.shape)) == (torch.int32, (3, 64, 96))
    torch.testing.assert_close(probabilities, expected, rtol=1e-4, atol=1e-5)
    assert (classes == expected.argmax(dim=1)).float().mean() > 0.999


def test_masks_are_made_of_all_the_dataset_holds(run, tmp_path, capsys, monkeypatch):
    assert "uint8 (n, 64, 96, 3)" in call("export", run, "-o", tmp_path / "a.pt2", capsys=capsys)[1]
    monkeypatch.setattr("penstock.tasks.segmentation.MOST_PROBABILITIES", 64 * 96)
    crop = load_model(run, device="cpu").parts.task.augment.crop
    assert crop != (64, 96)
    assert f"uint8 (n, {crop[0]}, {crop[1]}, 3)" in call("export", run, "-o", tmp_path / "a.pt2", capsys=capsys)[1]


def predictions(file, images):
    if file.suffix == ".pt2":
        return torch.export.load(file).module()(images)
    import onnxruntime

    found = onnxruntime.InferenceSession(str(file)).run(["classes", "probabilities"], {"image": images.numpy()})
    return tuple(torch.from_numpy(each) for each in found)


def test_names_and_size_are_in_the_file(run, tmp_path):
    trained = load_model(run, device="cpu")
    export(trained.parts.task, trained.model, tmp_path / "a.onnx", trained.parts.recipe.augment.crop)
    export(trained.parts.task, trained.model, tmp_path / "a.pt2", trained.parts.recipe.augment.crop)
    about = {each.key: json.loads(each.value) for each in onnx.load(tmp_path / "a.onnx").metadata_props}
    files = {"penstock.json": ""}
    torch.export.load(tmp_path / "a.pt2", extra_files=files)

    shown = "images that are not resized, but padded on the right and below to 32 x 32 with 128, 128, 128"
    assert about == {"classes": list(trained.parts.task.classes), "height": 32, "width": 32, "input": shown}
    assert json.loads(files["penstock.json"]) == about
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.onnx", "a.pt2"]


def test_several_looks_are_exported_with_it(run, tmp_path):
    trained = load_model(run, device="cpu").with_tta(TestTimeAugmentation((0.5, 1.0), flip=True))
    found = export(trained.parts.task, trained.model, tmp_path / "a.pt2", (64, 64))

    assert found.agreement > 0.999
    assert found.largest < 1e-4


def test_classes_are_exported_too(tmp_path):
    miniatures.folders(tmp_path / "raw")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    folder, _ = train(learn_colors(dataset, steps=1, batch=2), tmp_path / "runs")
    trained = load_model(folder.path, device="cpu")

    for suffix in (".onnx", ".pt2"):
        found = export(trained.parts.task, trained.model, tmp_path / f"a{suffix}", trained.parts.recipe.augment.crop)
        assert (found.agreement, found.size) == (1.0, trained.parts.task.augment.crop)
        assert found.input_note == (
            "the middle 87.5 % of the largest centred 32:32 rectangle of an image, resized to 32 x 32"
        )


def test_what_to_show_an_exported_classifier_is_what_predict_shows(tmp_path):
    """The middle, cut out by hand, gives the probabilities that `classify` gives for the whole image."""
    miniatures.folders(tmp_path / "raw")
    chosen = learn_colors(pack(inspect(tmp_path / "raw"), tmp_path / "data"), steps=1, batch=2)
    chosen = replace(chosen, augment=Augment((16, 16), "pad-crop", margin=2))
    folder, _ = train(chosen, tmp_path / "runs")
    trained = load_model(folder.path, device="cpu")
    found = export(trained.parts.task, trained.model, tmp_path / "a.pt2", trained.parts.recipe.augment.crop)
    pixels = np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)
    _, probabilities = predictions(tmp_path / "a.pt2", torch.from_numpy(pixels[4:20, 8:24].copy()).unsqueeze(0))

    assert found.input_note == "the middle 16 x 16 pixels of an image"
    expected = trained.predict(pixels).probabilities
    assert probabilities[0].detach().numpy() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        (
            "a.tflite",
            (64, 64),
            "{}: expected a file that ends in .onnx or .pt2, found .tflite. Use .onnx for other programs, .pt2 for PyTorch.",
        ),
        (
            "a.onnx",
            (65, 90),
            "--size: expected multiples of 32, found 65 x 90. Use --size 64 96, and pad images to it.",
        ),
        ("a.onnx", (-32, 32), "--size: expected sides of at least a pixel, found -32 x 32. Use larger sides."),
    ],
)
def test_what_cannot_be_exported_is_refused(run, tmp_path, name, size, message):
    trained = load_model(run, device="cpu")
    with pytest.raises(RecipeError) as error:
        export(trained.parts.task, trained.model, tmp_path / name, size)

    assert str(error.value) == message.format(tmp_path / name)


def test_detectors_are_refused(tmp_path):
    task = Detection("ssd:resnet18", ("a",), 4)
    with pytest.raises(RecipeError) as error:
        export(task, torch.nn.Identity(), tmp_path / "a.onnx", (32, 32))

    assert str(error.value) == (
        "Export is not supported for detection. Use penstock predict, or load the run from Python."
    )


def test_the_tutorials_network_is_exported(tmp_path, capsys):
    settings = ["model.name=cifar10-tutorial", "augment.crop=[24, 24]", "augment.method=pad-crop"]
    folder, _ = train(apply(classes(tmp_path), settings), tmp_path / "runs")
    code, out, err = call("export", folder.path, "-o", tmp_path / "m.onnx", capsys=capsys)

    assert (code, err) == (0, "")
    assert "takes: image, uint8 (n, 24, 24, 3), RGB" in out
