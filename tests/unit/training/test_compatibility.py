from __future__ import annotations

import pytest
from support.training import recipe

from penstock.config import apply
from penstock.errors import PenstockError, RecipeError, RunError
from penstock.runs import RunFolder
from penstock.training import resume, train


class TestRefusals:
    def test_other_data(self, packed, raw, tmp_path):
        from penstock.datasets import PackOptions, inspect, pack

        folder, _ = train(recipe(packed.folder, steps=3), tmp_path / "runs")
        other = pack(inspect(raw), tmp_path / "other", PackOptions(seed=9))
        with pytest.raises(RunError) as caught:
            resume(folder.path, [f"data.path={other.folder}"])
        assert str(caught.value).endswith(
            "Restore the dataset, score the run on this one with penstock evaluate RUN --on DATA, or start a new run from its "
            "weights with --init RUN."
        )

    @pytest.mark.parametrize(
        ("setting", "was", "found"),
        [
            ("seed=4", "3", "4"),
            ("train.batch=5", "4", "5"),
            ("model.name=unet:test_convnext", "unet:test_resnet", "unet:test_convnext"),
            ("optimizer.name=adamw", "sgd", "adamw"),
            ("train.ema_decay=0.5", "0.9", "0.5"),
            ("loss.dice=1.0", "0.0", "1.0"),
        ],
    )
    def test_another_training(self, packed, whole_run, setting, was, found):
        """What a run learns is fixed at its start; the attempt leaves the run as it was."""
        before = (whole_run / "recipe.toml").read_bytes()
        with pytest.raises(RecipeError) as caught:
            resume(whole_run, [setting])
        assert str(caught.value) == (
            f"{whole_run}: {setting.split('=')[0]}: expected {was}, as the run was started with, found {found}. Leave it, "
            "or start a new run from its weights with --init RUN."
        )
        assert (whole_run / "recipe.toml").read_bytes() == before

    @pytest.mark.parametrize(
        "setting",
        [
            "data.train=val", "data.block=4", "data.shuffle_window=4", "follow.on=true", "follow.replay_ratio=0.5",
            "model.deeplab.channels=8", "augment.flip=0.1", "augment.jitter.hue=0.1", "regularize.mixup=1.0",
            "loss.class_weights=inverse", "train.freeze_bn=true", "train.freeze_backbone=true", "train.sync_bn=false",
            "init=other", "strict=false", "train.sliding_window=64", "model.weights=pretrained", "data.start=earliest",
            "data.until=0:5", "train.best_metric=pixel_accuracy", "task_options={a = 1}",
            "model.decoder={decoder_attention_type = 'scse'}",
        ],
    )  # fmt: skip
    def test_whatever_decides_what_is_learnt_and_in_which_order(self, whole_run, setting):
        """All that may not change, written out; optimizer, steps and what is only kept or said may."""
        before = (whole_run / "recipe.toml").read_bytes()
        name = setting.partition("=")[0]
        with pytest.raises(RecipeError) as caught:
            resume(whole_run, [setting])
        assert str(caught.value).startswith(f"{whole_run}: {name}: expected ")
        assert ", as the run was started with, found " in str(caught.value)
        assert (whole_run / "recipe.toml").read_bytes() == before

    def test_a_run_that_is_being_trained(self, packed, whole_run):

        with RunFolder(whole_run).locked(), pytest.raises(RunError) as caught:
            resume(whole_run)
        assert str(caught.value) == (
            f"{whole_run}: another process is training this run. Wait for it to end, or end it."
        )

    def test_no_run(self, tmp_path):
        with pytest.raises(RunError) as caught:
            resume(tmp_path)
        assert str(caught.value) == (
            f"{tmp_path}: expected a run folder, with a recipe.toml, found a folder without one. Name a folder that "
            "penstock train made, for example runs/0001-..."
        )

    def test_cut_metrics(self, packed, tmp_path):
        folder, _ = train(recipe(packed.folder, steps=3), tmp_path)
        folder.metrics.write_text("")
        with pytest.raises(RunError, match=r"metrics\.jsonl: expected at least the \d+ bytes that the checkpoint"):
            resume(folder.path, ["train.steps=4"])

    def test_crops_that_the_model_cannot_take(self, packed, tmp_path):
        with pytest.raises(PenstockError) as caught:
            train(apply(recipe(packed.folder), ["augment.crop=[33, 60]"]), tmp_path)
        assert str(caught.value) == (
            "augment.crop: expected multiples of 32, the largest stride of unet:test_resnet, found 33 x 60. "
            "Use --crop 32 64."
        )
