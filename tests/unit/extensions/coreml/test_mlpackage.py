"""Core ML runs on macOS alone: the operators of the file are computed here, by PyTorch and one after the other."""

from __future__ import annotations

import builtins
import json
import logging
import sys

import numpy as np
import pytest
import torch
from support.commands import call
from support.training import recipe
from torch.nn import functional

from penstock import outputs
from penstock.inference import export_run, load_model
from penstock.training import train

coremltools = pytest.importorskip("coremltools", reason="coremltools is not installed")


@pytest.fixture(scope="module")
def run(packed, tmp_path_factory):
    folder, _ = train(recipe(packed.folder, steps=4), tmp_path_factory.mktemp("runs"))
    return folder.path


def _padded(x, pad):
    return functional.pad(x, (pad[2], pad[3], pad[0], pad[1]))


def _conv(x, weight, bias, strides, pad, dilations, groups):
    return functional.conv2d(_padded(x, pad), weight, bias, tuple(strides), 0, tuple(dilations), int(groups))


def _pool(x, kernel_sizes, strides, pad):
    low = functional.pad(x, (pad[2], pad[3], pad[0], pad[1]), value=-torch.inf)
    return functional.max_pool2d(low, tuple(kernel_sizes), tuple(strides))


def _average(x, kernel_sizes, strides, pad, pad_type):
    assert pad_type == "valid" or not any(pad)
    return functional.avg_pool2d(x, tuple(kernel_sizes), tuple(strides))


OPERATORS = {
    "add": lambda v: v["x"] + v["y"],
    "sub": lambda v: v["x"] - v["y"],
    "mul": lambda v: v["x"] * v["y"],
    "relu": lambda v: v["x"].clamp(min=0),
    "concat": lambda v: torch.cat(v["values"], dim=int(v["axis"])),
    "conv": lambda v: _conv(
        v["x"], v["weight"], v.get("bias"), v["strides"], v["pad"], v["dilations"], v.get("groups", 1)
    ),
    "avg_pool": lambda v: _average(v["x"], v["kernel_sizes"], v["strides"], v["pad"], v["pad_type"]),
    "max_pool": lambda v: _pool(v["x"], v["kernel_sizes"], v["strides"], v["pad"]),
    "upsample_nearest_neighbor": lambda v: v["x"].repeat_interleave(2, dim=2).repeat_interleave(2, dim=3),
    "softmax": lambda v: v["x"].softmax(dim=int(v["axis"])),
    "reduce_argmax": lambda v: v["x"].argmax(dim=int(v["axis"])),
    "cast": lambda v: v["x"],
}


def program(path):
    """The file's operators, and its description."""
    from coremltools.converters.mil.frontend.milproto.load import load  # after the extra is known

    model = coremltools.models.MLModel(str(path), skip_model_load=True)
    spec = model.get_spec()
    return load(spec, spec.specificationVersion, model.weights_dir).functions["main"], spec, model


def computed(path, image):
    """What a Core ML model of known operators gives of an image: uint8 (height, width, 3)."""
    function, _, _ = program(path)
    values = {"image": torch.from_numpy(image).permute(2, 0, 1)[None].float()}

    def value(each):
        if isinstance(each, list | tuple):
            return [value(one) for one in each]
        if each.name in values:
            return values[each.name]
        found = each.val
        return torch.from_numpy(np.array(found)) if isinstance(found, np.ndarray | np.generic) else found

    for operation in function.operations:
        if operation.op_type != "const":
            inputs = {name: value(each) for name, each in operation.inputs.items() if each is not None}
            values[operation.outputs[0].name] = OPERATORS[operation.op_type](inputs)
    return {each.name: values[each.name] for each in function.outputs}


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    """The file of a run, in a folder of its own."""
    file = tmp_path_factory.mktemp("exported") / "model.mlpackage"
    export_run(load_model(run, device="cpu"), file, (64, 96))
    return file


def test_its_operators_give_what_the_model_gives(run, exported):
    trained, image = load_model(run, device="cpu"), np.random.default_rng(0).integers(0, 256, (64, 96, 3), np.uint8)
    with torch.inference_mode():
        images = torch.from_numpy(image)[None]
        expected = trained.model(trained.parts.task.inputs({"image": images})).softmax(dim=1)
    found = computed(exported, image)

    torch.testing.assert_close(found["probabilities"], expected, rtol=1e-4, atol=1e-5)
    assert (found["classes"] == expected.argmax(dim=1)).float().mean() > 0.999


def test_it_takes_an_image_and_says_what_of_it_to_give(run, exported):
    _, spec, model = program(exported)
    (taken,) = spec.description.input
    kind = taken.type.imageType

    assert (taken.name, kind.height, kind.width) == ("image", 64, 96)
    assert kind.colorSpace == coremltools.proto.FeatureTypes_pb2.ImageFeatureType.RGB
    about = model.user_defined_metadata
    assert json.loads(about["classes"]) == list(load_model(run, device="cpu").parts.task.classes)
    assert json.loads(about["input"]).startswith("images that are not resized, but padded on the right and below")


def test_the_command_replaces_one_that_is_there(run, exported, capsys):
    logger = logging.getLogger("coremltools")
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        status, out, errors = call("export", run, "-o", exported, "--size", 64, 96, capsys=capsys)
        assert logger.level == logging.INFO
    finally:
        logger.setLevel(level)

    assert (status, errors) == (0, "")
    assert "takes: image, uint8 (64, 96, 3), RGB; gives: classes, probabilities" in out
    assert "not compared with the PyTorch model, because Core ML runs on macOS only" in out
    assert [each.name for each in exported.parent.iterdir()] == ["model.mlpackage"]

    outputs.check(exported, "penstock export", (".mlpackage",))
    manifest = exported / "Manifest.json"
    manifest.write_text(manifest.read_text() + "\n")
    changed = {path: path.stat().st_mtime_ns for path in exported.rglob("*")}
    assert call("export", run, "-o", exported, capsys=capsys)[0] == 2
    assert {path: path.stat().st_mtime_ns for path in exported.rglob("*")} == changed


def test_what_cannot_be_written_is_said(run, tmp_path, capsys, monkeypatch):
    file = tmp_path / "model.mlpackage"
    file.mkdir()
    (file / "letter.txt").write_text("dear all")
    message = (
        f"error: -o {file}: expected a new file, or one as penstock export has written it, found another file, or one "
        "that was changed since. Choose another name, or remove it first.\n"
    )
    assert call("export", run, "-o", file, capsys=capsys)[::2] == (2, message)
    assert (file / "letter.txt").read_text() == "dear all"
    other = tmp_path / "b.mlpackage"
    message = "error: --dynamic: expected a file that ends in .onnx or .pt2, found b.mlpackage. Remove --dynamic.\n"
    assert call("export", run, "-o", other, "--dynamic", capsys=capsys)[::2] == (2, message)
    message = f"{other}: expected a file that ends in .onnx for images of any size, found .mlpackage. "
    assert message in call("export", run, "-o", other, "--any-size", capsys=capsys)[2]
    imported = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "coremltools":
            raise ImportError(name)
        return imported(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "coremltools")
    monkeypatch.setattr(builtins, "__import__", without)
    message = "error: Exporting to Core ML needs coremltools. Install penstock[coreml], or export to ONNX.\n"
    assert call("export", run, "-o", other, capsys=capsys)[::2] == (2, message)
