from __future__ import annotations

import json
import re

import numpy as np
import pytest
from support import miniatures
from support.commands import call
from support.training import recipe

from penstock.config import apply
from penstock.datasets import inspect, pack
from penstock.errors import DatasetError
from penstock.training import train


def test_batch_normalisation_over_one_image_is_explained(packed, tmp_path, capsys):
    words = ["--model", "deeplabv3plus:test_resnet", "--weights", "none", "--batch", 1, "--crop", 32, 32, "--steps", 1]
    code, _, err = call("train", packed.folder, *words, "--runs", tmp_path, capsys=capsys)

    assert (code, err) == (
        2,
        "error: train.batch: expected at least two images for each rank and micro-batch: this model normalises over "
        "them, found one. Make train.batch larger, or train.accumulate or the number of ranks smaller.\n",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--model", "unet:vit_tiny_patch16_224", "--crop", 64, 64],
            "model.name: expected a backbone that the architecture takes, found vit_tiny_patch16_224 (",
        ),
        (
            ["--model", "pan:test_resnet", "--crop", 32, 32],
            "augment.crop: expected a size of images that pan:test_resnet takes, found 32 x 32 (",
        ),
        (
            ["--model", "deeplab:vit_tiny_patch16_224", "--crop", 64, 64],
            "model.name = 'deeplab:vit_tiny_patch16_224': expected a backbone with features of stride 4, which can be dilated ",
        ),
        (
            ["--model", "unet:swin_tiny_patch4_window7_224", "--crop", 224, 224],
            "model.name: expected a network of any size, as whole images are evaluated, found "
            "unet:swin_tiny_patch4_window7_224 at 256 x 256 (",
        ),
        (
            ["--model", "unet:resnet18.nonsense"],
            "model.name = 'unet:resnet18.nonsense': expected a tag of timm's weights for resnet18, found resnet18.nonsense. ",
        ),
    ],
)
def test_networks_that_do_not_go_with_the_images_are_named(packed, tmp_path, capsys, words, message):
    words = ["train", packed.folder, "--weights", "none", "--batch", 2, "--steps", 1, "--runs", tmp_path, *words]
    code, _, err = call(*words, capsys=capsys)

    assert (code, err.splitlines()[-1][: len(message) + 7]) == (2, f"error: {message}")


def test_a_transformer_of_one_size_names_it(tmp_path, capsys):
    miniatures.folders(tmp_path / "raw")
    pack(inspect(tmp_path / "raw"), tmp_path / "data")
    words = [
        "train",
        tmp_path / "data",
        "--model",
        "vit_tiny_patch16_224",
        "--weights",
        "none",
        "--batch",
        2,
        "--steps",
        1,
    ]

    assert call(*words, "--crop", 64, 64, "--runs", tmp_path / "runs", capsys=capsys)[2] == (
        "error: augment.crop: expected a size of images that vit_tiny_patch16_224 takes, found 64 x 64 (AssertionError: "
        "Input height (64) doesn't match model (224)). Choose another --crop or another --model.\n"
    )
    assert call(*words, "--crop", 224, 224, "--runs", tmp_path / "runs", capsys=capsys)[0] == 0


class TestSplits:
    def test_several_are_trained_on_together(self, tmp_path):
        miniatures.folders(tmp_path / "raw")
        dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
        both, parts = dataset.split("train+val"), [dataset.split(name) for name in ("train", "val")]

        assert both.records == sum(part.records for part in parts) == len(dataset.source("train+val").snapshot())
        assert both.per_class == tuple(map(sum, zip(*(part.per_class for part in parts), strict=True)))
        for wrong in ("train+none", "train+train", "+"):
            with pytest.raises(DatasetError, match=re.escape(f"has no split named {wrong}, only train, val")):
                dataset.split(wrong)

    def test_through_a_training_and_its_predictions(self, packed, tmp_path, capsys):
        chosen = apply(recipe(packed.folder, steps=7), ["data.train=train+val"])
        folder, outcome = train(chosen, tmp_path)
        origins = [json.loads(line)["origins"] for line in (folder.path / "origins.jsonl").read_text().splitlines()]

        assert outcome.step == 7
        assert len({name for batch in origins for name in batch}) == 28  # 21 and 7, each once in an epoch
        assert call("evaluate", folder.path, "--split", "train+val", capsys=capsys)[0] == 0
        assert call("replay", folder.path, "--step", 7, capsys=capsys)[0] == 0

    def test_a_split_may_be_called_test(self, tmp_path, capsys):
        """DeepLab's reader had no label for it."""
        for split in ("train", "test"):
            miniatures.write(tmp_path / f"raw/images/{split}/a.jpg", miniatures.make_image(seed=len(split)))
            ids = np.random.default_rng(len(split)).integers(0, 3, (24, 32), np.uint8)
            miniatures.write(tmp_path / f"raw/masks/{split}/a.png", miniatures.gray(ids))
        dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
        settings = ["data.validation=", "train.batch=1", "train.freeze_bn=true"]
        folder, _ = train(apply(recipe(dataset.folder, wide=True, steps=1), settings), tmp_path / "runs")

        assert call("evaluate", folder.path, "--split", "test", capsys=capsys)[0] == 0
        found = json.loads((folder.path / "evaluations/test-00000001.json").read_text())
        assert sum(map(sum, found["confusion"])) == 24 * 32
