from __future__ import annotations

import dataclasses

import pytest
from support.commands import call
from support.deeplab import learn_deeplab
from support.training import Stop, recipe, state

from penstock.assembly import open_experiment
from penstock.errors import RecipeError
from penstock.settings import DeepLabConfig
from penstock.training import resume, train


def test_all_of_it_is_trained_resumed_evaluated_and_predicts(packed, raw, tmp_path, capsys):
    chosen = learn_deeplab(
        packed,
        output_stride=8,
        multi_grid=(1, 2),
        decoder_sum=True,
        image_pyramid=(0.5, 1.0),
        aux_loss_weight=0.4,
        upsample=False,
    )
    whole, _ = train(chosen, tmp_path / "whole")
    stopped, _ = train(chosen, tmp_path / "stopped", hooks=[Stop(2)])
    resume(stopped.path)
    kept = {"state.json", "manifest.json"}

    assert {k: v for k, v in state(stopped.path).items() if k not in kept} == {
        k: v for k, v in state(whole.path).items() if k not in kept
    }
    assert call("evaluate", whole.path, capsys=capsys)[0] == 0
    assert call("predict", whole.path, raw / "images" / "val", "-o", tmp_path / "out", capsys=capsys)[0] == 0


def test_its_settings_are_refused_for_other_networks(packed):
    chosen = recipe(packed.folder)
    other = dataclasses.replace(
        chosen, model=dataclasses.replace(chosen.model, deeplab=DeepLabConfig(output_stride=8, merge="average"))
    )
    with pytest.raises(RecipeError) as caught:
        _ = open_experiment(other).task

    assert str(caught.value) == (
        "model.deeplab: expected no such settings, as only deeplab:BACKBONE has them, found output_stride, merge, for "
        "unet:test_resnet. Remove them, or train deeplab:test_resnet."
    )
