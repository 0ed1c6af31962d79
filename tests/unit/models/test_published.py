from __future__ import annotations

import json
import shutil

import cv2
import numpy as np
import pytest
import safetensors.torch
import segmentation_models_pytorch as smp
import timm
import torch
from huggingface_hub import constants
from support.commands import call
from support.errors import refused
from torchvision.models import detection as tv

import penstock as ps
from penstock.assembly import reference, resolve_settings
from penstock.assembly.runs import run_recipe
from penstock.models import (
    DETECTORS,
    INSTANCE_NETWORKS,
    build_classifier,
    build_detector,
    build_segmenter,
    pretrained,
    published,
)

KNOWN = {**DETECTORS, **INSTANCE_NETWORKS}
NETWORKS = {
    "fasterrcnn": tv.fasterrcnn_resnet50_fpn,
    "maskrcnn": tv.maskrcnn_resnet50_fpn,
    "retinanet": tv.retinanet_resnet50_fpn,
    "fcos": tv.fcos_resnet50_fpn,
}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of torchvision, and no network."""
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr(published, "is_reachable", lambda _: False)
    (tmp_path / "checkpoints").mkdir()
    return tmp_path / "checkpoints"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A cache of the hub, and no network; gives a function that puts files into it."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(pretrained, "is_reachable", lambda _: False)

    def put(repository, **files):
        folder = tmp_path / "hub" / f"models--{repository.replace('/', '--')}"
        (folder / "refs").mkdir(parents=True)
        (folder / "refs/main").write_text("a" * 40)
        place = folder / "snapshots" / ("a" * 40)
        place.mkdir(parents=True)
        for name, data in files.items():
            (place / name.replace("__", ".")).write_bytes(data)

    return put


def theirs(architecture):
    """torchvision's detector with statistics of norms that are not those of a new network."""
    torch.manual_seed(0)
    network = NETWORKS[architecture](weights=None, weights_backbone=None)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d | tv.faster_rcnn.misc_nn_ops.FrozenBatchNorm2d):
            module.running_mean.uniform_(-0.1, 0.1)
            module.running_var.uniform_(0.5, 2.0)
            module.eps = 0.0
    return network.eval()


@pytest.mark.parametrize("architecture", NETWORKS)
def test_a_detector_of_coco_finds_what_torchvisions_finds(cache, architecture):
    network = theirs(architecture)
    file = published._DETECTORS[architecture].url.rpartition("/")[2]
    tensors = {name: value for name, value in network.state_dict().items() if "num_batches" not in name}
    torch.save(tensors, cache / file)
    classes = 90 if architecture in ("fasterrcnn", "maskrcnn") else 91
    model = build_detector(f"{architecture}:resnet50", classes, "coco", KNOWN).eval()
    image = torch.randn(1, 3, 96, 128, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        features = network.backbone(image)
        own = model.network.backbone(image)

    assert model.account.missing == model.account.reshaped == model.account.unused == ()
    assert len(own) == len(features)
    for mine, other in zip(own.values(), features.values(), strict=True):
        assert torch.allclose(mine, other, rtol=1e-4, atol=1e-4)
    heads = {name: value for name, value in network.state_dict().items() if not name.startswith("backbone.")}
    state = model.state_dict()
    assert all(torch.equal(state[f"network.{name}"], value) for name, value in heads.items())


def test_a_last_layer_for_other_classes_is_left_as_initialised(cache):
    tensors = {n: v for n, v in theirs("fasterrcnn").state_dict().items() if "num_batches" not in n}
    torch.save(tensors, cache / published._DETECTORS["fasterrcnn"].url.rpartition("/")[2])
    account = build_detector("fasterrcnn:resnet50", 3, "coco", KNOWN).account

    assert set(account.reshaped) == {
        f"network.roi_heads.box_predictor.{layer}.{kind}"
        for layer in ("cls_score", "bbox_pred")
        for kind in ("weight", "bias")
    }
    assert account.missing == account.unused == ()


def test_without_a_network_the_refusal_comes_at_once(cache):
    refused(
        build_detector, "fasterrcnn:resnet50", 3, "coco", KNOWN,
        message="The weights FasterRCNN_ResNet50_FPN_Weights.COCO_V1 are not in the local cache and cannot be downloaded: "
        "download.pytorch.org does not answer. Connect to the network once, or train from the weights of the backbone with "
        "--weights pretrained, or from random ones with --weights none.",
    )  # fmt: skip


def test_detectors_without_published_weights_are_named():
    refused(
        build_detector, "ssd:resnet18", 3, "coco", KNOWN,
        message="model.weights: expected a detector with published weights of COCO: fasterrcnn:resnet50, maskrcnn:resnet50, "
        "retinanet:resnet50, fcos:resnet50, found ssd:resnet18. Choose one of them, or use --weights pretrained.",
    )  # fmt: skip


def whole(classes):
    torch.manual_seed(2)
    return smp.create_model("segformer", encoder_name="mit_b0", encoder_weights=None, classes=classes).eval()


def test_a_whole_network_of_the_hub_answers_as_it_does_there(hub):
    network = whole(7)
    config = {"_model_class": "Segformer", "encoder_name": "mit_b0"}
    hub(
        "smp-hub/x-ade",
        config__json=json.dumps(config).encode(),
        model__safetensors=safetensors.torch.save(network.state_dict()),
    )
    image = torch.randn(1, 3, 64, 64)
    same = build_segmenter("segformer:mit_b0", 7, "smp-hub/x-ade").eval()
    other = build_segmenter("segformer:mit_b0", 3, "smp-hub/x-ade")

    with torch.inference_mode():
        assert torch.equal(same(image), network(image))
    assert [name.partition(".")[0] for name in other.account.reshaped] == ["segmentation_head"] * 2
    assert other.account.missing == other.account.unused == ()


def test_another_network_than_the_hub_has_is_refused(hub):
    config = {"_model_class": "Segformer", "encoder_name": "mit_b0"}
    hub(
        "smp-hub/x-ade",
        config__json=json.dumps(config).encode(),
        model__safetensors=safetensors.torch.save(whole(7).state_dict()),
    )
    with pytest.raises(
        pretrained.WeightsError, match=r"^smp-hub/x-ade \(Segformer with mit_b0\): only \d+ of the \d+ tensors"
    ):
        build_segmenter("unet:resnet18", 7, "smp-hub/x-ade")


def test_a_backbone_of_the_hub_is_loaded_by_its_name(hub):
    network = timm.create_model("test_resnet")
    data = safetensors.torch.save(network.state_dict())
    hub("somebody/resnet", config__json=b'{"architecture": "test_resnet"}', model__safetensors=data)
    segmenter = build_segmenter("unet:test_resnet", 3, "somebody/resnet")
    classifier = build_classifier("test_resnet", 3, "somebody/resnet")

    assert torch.equal(segmenter.encoder.model.conv1[0].weight, network.conv1[0].weight)
    assert torch.equal(classifier.encoder.conv1[0].weight, network.conv1[0].weight)


def test_a_repository_that_cannot_be_had_is_named(hub):
    with pytest.raises(pretrained.WeightsError) as caught:
        build_segmenter("unet:test_resnet", 3, "nobody/nothing")
    assert str(caught.value).startswith(
        "The weights nobody/nothing/config.json are not in the local cache and cannot be downloaded: "
    )


def test_a_training_accounts_for_them_and_its_run_needs_them_no_more(cache, squares, tmp_path, capsys):
    tensors = {n: v for n, v in theirs("fasterrcnn").state_dict().items() if "num_batches" not in n}
    file = cache / published._DETECTORS["fasterrcnn"].url.rpartition("/")[2]
    torch.save(tensors, file)
    words = ["--model", "fasterrcnn:resnet50", "--weights", "coco", "--crop", 64, 64, "--batch", 2, "--fast-dev-run"]
    code, out, _ = call("train", squares.folder, *words, "--runs", tmp_path / "runs", capsys=capsys)
    file.unlink()
    (run,) = (tmp_path / "runs").iterdir()

    assert code == 0
    assert "weights coco:\n  loaded 344 of 348 tensors" in out
    assert "another shape, left as initialised: network.roi_heads.box_predictor.* (4)" in out
    image = tmp_path / "x.png"
    image.write_bytes(cv2.imencode(".png", np.zeros((64, 64, 3), np.uint8))[1].tobytes())
    assert call("predict", run, image, "-o", tmp_path / "found", "--checkpoint", "last", capsys=capsys)[0] == 0


def narrow(classes):
    torch.manual_seed(2)
    options = {"decoder_channels": [16, 8, 8, 4, 4], "decoder_attention_type": None}
    network = smp.create_model("unet", encoder_name="tu-test_resnet", encoder_weights=None, classes=classes, **options)
    return network.eval(), {"_model_class": "Unet", "encoder_name": "tu-test_resnet", "classes": classes, **options}


def test_a_run_has_the_decoder_of_the_network_on_the_hub(hub, packed, tmp_path):
    network, config = narrow(len(packed.description.classes))
    data = safetensors.torch.save(network.state_dict())
    hub("somebody/narrow", config__json=json.dumps(config).encode(), model__safetensors=data)
    given = {"data.path": str(packed.folder), "model.name": "unet:test_resnet", "model.weights": "somebody/narrow"}
    resolved = resolve_settings(given)

    assert resolved.recipe.model.decoder == {"decoder_channels": [16, 8, 8, 4, 4]}
    assert resolved.origin("model.decoder.decoder_channels") == "weights somebody/narrow"
    small = {"steps": 1, "batch": 2, "crop": (32, 32), "runs": tmp_path / "runs"}
    run = ps.train(packed.folder, model="unet:test_resnet", weights="somebody/narrow", **small)
    begun = ps.train(packed.folder, settings={"init": str(run.path)}, **small)
    for each in (run, begun):
        assert run_recipe(each.path).model.decoder == {"decoder_channels": [16, 8, 8, 4, 4]}
    shutil.rmtree(tmp_path / "hub")
    image = np.zeros((32, 32, 3), np.uint8)
    assert run.load().predict(image).mask.shape == (32, 32)
    lines = reference.explained(resolved).splitlines()
    assert "decoder_channels = [  # weights somebody/narrow" in lines


def test_without_the_hub_the_training_says_why(hub, packed, tmp_path):
    given = {"data.path": str(packed.folder), "model.name": "unet:test_resnet", "model.weights": "nobody/nothing"}

    assert resolve_settings(given).recipe.model.decoder == {}
    with pytest.raises(pretrained.WeightsError, match=r"^The weights nobody/nothing/config.json are not in the local"):
        ps.train(packed.folder, model="unet:test_resnet", weights="nobody/nothing", runs=tmp_path / "runs")


def test_a_decoder_that_was_given_stays(hub, packed):
    network, config = narrow(3)
    data = safetensors.torch.save(network.state_dict())
    hub("somebody/narrow", config__json=json.dumps(config).encode(), model__safetensors=data)
    given = {"data.path": str(packed.folder), "model.name": "unet:test_resnet", "model.weights": "somebody/narrow"}
    chosen = {"model.decoder.decoder_channels": [8, 8, 4, 4, 4]}

    assert resolve_settings({**given, **chosen}).recipe.model.decoder == {"decoder_channels": [8, 8, 4, 4, 4]}
