"""examples/serving: a web service around an exported detector, and what else reads the file."""

from __future__ import annotations

import importlib.util
import re

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from support.paths import ROOT

from penstock.images import codecs
from penstock.inference.export import export
from penstock.tasks import Detection, ReadyModel

FOLDER = ROOT / "examples/serving"


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    """A new detector, which finds boxes in noise, its file, and an image."""
    torch.manual_seed(1)
    task = Detection("fcos:test_resnet", ("cat", "dog"), 4)
    model, path = task.model().eval(), tmp_path_factory.mktemp("serving") / "model.onnx"
    export(task, model, path, (64, 96))
    pixels = np.random.default_rng(0).integers(0, 256, (50, 70, 3), np.uint8)
    return task.predictor.predict(ReadyModel(model), pixels), path, pixels


def served(path, monkeypatch):
    monkeypatch.setenv("MODEL", str(path))
    spec = importlib.util.spec_from_file_location("serve", FOLDER / "serve.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return TestClient(module.app)


def test_the_service_answers_what_the_model_finds(detector, monkeypatch):
    expected, path, pixels = detector
    answer = served(path, monkeypatch).post("/predict", content=codecs.encode_png(pixels))

    assert answer.status_code == 200
    assert [each["class"] for each in answer.json()] == [expected.classes[i] for i in expected.labels]
    np.testing.assert_allclose([each["score"] for each in answer.json()], expected.scores, atol=1e-4)
    np.testing.assert_allclose([each["box"] for each in answer.json()], expected.boxes, atol=0.05)


def test_the_image_of_the_service_has_what_it_imports():
    source, recipe = (FOLDER / "serve.py").read_text(), (FOLDER / "Dockerfile").read_text()
    names = {"PIL": "pillow"}
    imported = set(re.findall(r"^(?:import|from) (\w+)", source, flags=re.MULTILINE)) - {"io", "json", "os"}
    installed = set(re.search(r"pip install --no-cache-dir (.*)", recipe)[1].split())

    assert {names.get(name, name) for name in imported} | {"uvicorn"} == installed
    assert "COPY serve.py model.onnx ./" in recipe
    assert 'CMD ["uvicorn", "serve:app"' in recipe


def test_openvino_reads_the_file(detector):
    openvino = pytest.importorskip("openvino", reason="openvino is not installed")
    expected, path, pixels = detector
    precise = {"INFERENCE_PRECISION_HINT": "f32"}  # by default it may halve the precision
    compiled = openvino.compile_model(openvino.convert_model(str(path)), "CPU", precise)
    boxes, scores, labels = compiled(pixels).values()

    assert labels.tolist() == expected.labels.tolist()
    np.testing.assert_allclose(scores, expected.scores, atol=1e-3)
    np.testing.assert_allclose(boxes, expected.boxes, atol=0.5)
