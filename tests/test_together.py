"""Batch normalisation over all ranks: the same as over the whole batch in one process."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import processes
import pytest
import torch
from norms_child import learn, network
from torch import nn
from training import recipe

from penstock.config import apply, dump
from penstock.config.checks import check, check_pieces
from penstock.errors import RecipeError
from penstock.models import synchronise_norms
from penstock.tasks import Objective
from penstock.training import train

TESTS = Path(__file__).parent


def two_ranks(*words):
    done = processes.ranks(2, *words)
    assert done.returncode == 0, done.stderr


def test_two_ranks_are_one_process(tmp_path):
    pictures = [40 + torch.randn((5, 3, 12, 10)) for _ in range(3)]
    torch.save(pictures, tmp_path / "images")
    two_ranks(TESTS / "norms_child.py", tmp_path / "images", tmp_path / "rank")
    first, second = (torch.load(tmp_path / f"rank-{rank}") for rank in (0, 1))
    alone = learn(network().train(), pictures)

    assert list(first) == list(alone)
    for name, expected in alone.items():
        torch.testing.assert_close(first[name], expected, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(first[name], second[name], rtol=0, atol=0)


def test_tensors_keep_their_names_and_evaluation_is_the_same():
    plain, pictures = network(), torch.randn(2, 3, 9, 9)
    learn(plain.train(), [torch.randn(4, 3, 9, 9)], 1)
    names, expected = list(plain.state_dict()), plain.eval()(pictures)
    changed = synchronise_norms(plain)

    assert list(changed.state_dict()) == names
    assert not any(type(module) is nn.BatchNorm2d for module in changed.modules())
    assert torch.equal(changed(pictures), expected)


@pytest.mark.slow
def test_a_training_of_two_ranks_has_the_losses_of_one_process(packed, tmp_path):
    chosen = recipe(packed.folder, sync_bn=True, ema_decay=0.0)
    folder, _ = train(chosen, tmp_path / "one")
    (tmp_path / "recipe.toml").write_text(dump(chosen))
    two_ranks("-m", "penstock", "train", tmp_path / "recipe.toml", "--runs", tmp_path / "two")
    (other,) = (tmp_path / "two").iterdir()
    apart = dataclasses.replace(chosen, train=dataclasses.replace(chosen.train, sync_bn=False))
    (tmp_path / "recipe.toml").write_text(dump(apart))
    two_ranks("-m", "penstock", "train", tmp_path / "recipe.toml", "--runs", tmp_path / "apart")
    (third,) = (tmp_path / "apart").iterdir()

    # What rounding makes grows fifty-fold with every step, by other amounts on other processors.
    one, two, without = (losses(each)[:3] for each in (folder.path, other, third))
    assert two == pytest.approx(one, rel=1e-4)
    assert without != pytest.approx(one, rel=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "objective",
    [
        Objective(class_weights="median", ohem_ratio=0.3, ohem_warmup_steps=3),
        Objective(cross_entropy=0.5, dice=0.5, lovasz=0.5, ohem_threshold=0.7, label_smoothing=0.1),
        Objective(cross_entropy=0.0, focal=1.0, jaccard=0.5, tversky=0.5),
    ],
)
def test_every_loss_is_that_of_one_process_on_two_ranks(packed, tmp_path, objective):
    """The rates are so small that weights stay what they are: every step's loss is of the same network."""
    chosen = recipe(packed.folder, sync_bn=True, ema_decay=0.0, steps=4, evaluate_every=9)
    chosen = dataclasses.replace(chosen, loss=objective, optimizer=dataclasses.replace(chosen.optimizer, lr=1e-12))
    folder, _ = train(chosen, tmp_path / "one")
    (tmp_path / "recipe.toml").write_text(dump(chosen))
    two_ranks("-m", "penstock", "train", tmp_path / "recipe.toml", "--runs", tmp_path / "two")
    (other,) = (tmp_path / "two").iterdir()

    assert len(losses(other)) == 4
    assert losses(other) == pytest.approx(losses(folder.path), rel=1e-4)


def losses(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def test_norms_cannot_be_frozen_and_synchronised():
    with pytest.raises(RecipeError) as error:
        check(recipe("data", freeze_bn=True, sync_bn=True), "recipe.toml")

    assert str(error.value) == (
        "recipe.toml: train.sync_bn: expected norms that learn statistics, found train.freeze_bn=true, which keeps "
        "those they have. Leave one of the two out."
    )


def test_ranks_that_would_pass_through_norms_unequally_often_are_refused():
    chosen = recipe("data", sync_bn=True, batch=3, accumulate=2)
    with pytest.raises(RecipeError) as error:
        check_pieces(chosen, 2)

    assert str(error.value) == (
        "train.accumulate: expected as many micro-batches on each of 2 ranks, as train.sync_bn needs, found shares of 1 and "
        "2 images, of which 2 are to be made. Use train.batch=4."
    )
    check_pieces(recipe("data", sync_bn=True, batch=3), 2)
    check_pieces(recipe("data", batch=3, accumulate=2), 2)


def test_pairs_that_are_mixed_are_not_parted():
    chosen = apply(recipe("data", batch=10), ["regularize.mixup=0.2"])
    with pytest.raises(RecipeError) as error:
        check_pieces(chosen, 2)
    with pytest.raises(RecipeError) as pieces:
        check_pieces(apply(chosen, ["train.accumulate=2", "train.batch=6"]), 1)

    assert str(error.value) == (
        "train.batch: expected a multiple of 4, as images are mixed in pairs, on 2 ranks with train.accumulate=1, found "
        "10. Use train.batch=12, or other numbers of those."
    )
    assert str(pieces.value) == (
        "train.batch: expected a multiple of 4, as images are mixed in pairs, on 1 rank with train.accumulate=2, found 6. "
        "Use train.batch=8, or other numbers of those."
    )
    check_pieces(apply(chosen, ["train.batch=12"]), 2)
    check_pieces(apply(chosen, ["train.batch=5"]), 1)
