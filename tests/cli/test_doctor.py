from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import timm
import torch
from huggingface_hub import try_to_load_from_cache
from support import miniatures
from support.commands import call
from support.images import array_png

from penstock import devices
from penstock.datasets import inspect, pack, scenes
from penstock.models import pretrained


def test_it_prints_every_choice_with_its_reason(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(devices, "choose", lambda name: torch.device("cpu"))
    scenes.write_folder(tmp_path / "raw", {"train": 20, "val": 5}, (70, 100), 0)
    pack(inspect(tmp_path / "raw"), tmp_path / "data")
    code, out, err = call("doctor", tmp_path / "data", capsys=capsys)
    assert (code, err) == (0, "")
    assert [line.split(maxsplit=1)[0] for line in out.splitlines()] == [
        "data",
        "model",
        "crop",
        "batch",
        "optimizer",
        "device",
        "steps",
        "evaluation",
    ]
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == (
        "data segmentation, 6 classes 20 training records, images of up to 70 x 100 pixels (height x width)"
    )
    assert lines[5] == (
        "device cpu no GPU was found: try a small network first, such as --model unet:resnet18; --find-time says how long "
        "the training takes"
    )
    assert lines[2] == "crop 64 x 96 pixels size of the images, in multiples of 32"
    assert lines[6] == "steps 1,000 size of the data; 800 epochs; --epochs N takes 1.2 steps for each"
    assert lines[7] == "evaluation val, every 50 steps the best checkpoint is kept"


@pytest.mark.parametrize(("images", "batch"), [(1, 2), (2, 2), (3, 2), (12, 8), (15, 8), (16, 16)])
def test_a_batch_is_no_larger_than_the_data(tmp_path, capsys, images, batch):
    scenes.write_folder(tmp_path / "raw", {"train": images, "val": 1}, (70, 100), 0)
    pack(inspect(tmp_path / "raw"), tmp_path / "data")
    lines = [" ".join(line.split()) for line in call("doctor", tmp_path / "data", capsys=capsys)[1].splitlines()]

    assert lines[3] == f"batch {batch} images size of the data" if images < 16 else "batch 16 images general default"
    chosen = call("doctor", tmp_path / "data", "--set", "train.batch=16", capsys=capsys)[1]
    assert "16 images" in chosen


def test_so_is_the_batch_of_a_task(tmp_path, capsys):
    miniatures.folders(tmp_path / "raw")
    pack(inspect(tmp_path / "raw"), tmp_path / "data")
    lines = [" ".join(line.split()) for line in call("doctor", tmp_path / "data", capsys=capsys)[1].splitlines()]

    assert lines[3] == "batch 2 images size of the data"  # and not the 64 of classification


def test_options_of_the_training_are_taken(tmp_path, capsys):
    scenes.write_folder(tmp_path / "raw", {"train": 20, "val": 5}, (70, 100), 0)
    pack(inspect(tmp_path / "raw"), tmp_path / "data")
    out = call("doctor", tmp_path / "data", "--model", "unet:resnet18", "--crop", 32, 64, capsys=capsys)[1]
    lines = [" ".join(line.split()) for line in out.splitlines()]

    assert lines[1].startswith("model unet:resnet18 given; ")
    assert lines[2] == "crop 32 x 64 pixels given"


def test_it_says_where_pretrained_weights_are(tmp_path, capsys, monkeypatch):
    scenes.write_folder(tmp_path / "raw", {"train": 4}, (70, 100), 0)
    pack(inspect(tmp_path / "raw"), tmp_path / "data")
    monkeypatch.setattr(
        pretrained, "try_to_load_from_cache", partial(try_to_load_from_cache, cache_dir=tmp_path / "hub")
    )

    def said(*words):
        out = call("doctor", tmp_path / "data", "--model", "unet:resnet18", *words, capsys=capsys)[1]
        return " ".join(out.splitlines()[1].split())

    start = "model unet:resnet18 given; weights of the backbone: "
    monkeypatch.setattr(pretrained, "is_offline", lambda: False)
    assert said() == f"{start}pretrained, which the training downloads first"
    monkeypatch.setattr(pretrained, "is_offline", lambda: True)
    assert said() == (
        f"{start}pretrained, which are not in the cache and cannot be downloaded: train with --weights none, or with --weights FILE"
    )
    assert said("--set", "model.weights=none") == f"{start}none"
    repository = timm.models.get_pretrained_cfg("resnet18").hf_hub_id
    kept = tmp_path / "hub" / f"models--{repository.replace('/', '--')}"
    (kept / "snapshots/abc").mkdir(parents=True)
    (kept / "snapshots/abc/model.safetensors").write_bytes(b"weights")
    (kept / "refs").mkdir()
    (kept / "refs/main").write_text("abc")
    assert said() == f"{start}pretrained, which are in the cache"


def test_a_dataset_without_val_is_told_how_to_get_one(tmp_path, capsys):
    miniatures.csv_boxes(tmp_path / "raw")
    pack(inspect(tmp_path / "raw"), tmp_path / "data")
    out = call("doctor", tmp_path / "data", capsys=capsys)[1]
    assert " ".join(out.splitlines()[-1].split()) == (
        "evaluation none there is no split val: pack again with --validation 0.1, or add --set data.validation="
    )
    assert "fasterrcnn:resnet50" in out


def test_a_small_network_of_the_task_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(devices, "choose", lambda name: torch.device("cpu"))
    miniatures.csv_boxes(tmp_path / "raw")
    pack(inspect(tmp_path / "raw"), tmp_path / "data")
    lines = [" ".join(line.split()) for line in call("doctor", tmp_path / "data", capsys=capsys)[1].splitlines()]
    said = "device cpu no GPU was found: try a small network first, such as --model ssd:resnet18; "
    assert any(line.startswith(said) for line in lines)


def test_images_of_sixteen_bits_are_told_of(tmp_path, capsys):
    for number in range(2):
        miniatures.write(tmp_path / f"raw/images/{number}.png", array_png(np.full((32, 32), 900 + number, np.uint16)))
        miniatures.write(tmp_path / f"raw/masks/{number}.png", miniatures.gray(np.eye(32, dtype=np.uint8)))
    pack(inspect(tmp_path / "raw"), tmp_path / "data")
    lines = [" ".join(line.split()) for line in call("doctor", tmp_path / "data", capsys=capsys)[1].splitlines()]
    assert (
        lines[3]
        == "normalised by the mean of the data images: 3 channels of 16 bits; else by the mean of the pretraining"
    )
