from __future__ import annotations

import pytest

from penstock.config import apply
from penstock.config.checks import check_pieces
from penstock.errors import RecipeError
from penstock.settings import Recipe


def message(call, *arguments):
    with pytest.raises(RecipeError) as caught:
        call(*arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    "setting",
    [
        "augment.view.scale=[2.0, 0.5]",
        "augment.view.scale=[nan, 1]",
        "augment.view={name='resized-crop', scale=[0, 0]}",
        "augment.view={name='resized-crop', scale=[0.5, 2]}",
        "augment.resize_range=[9, 3]",
        "augment.rotate=nan",
        "augment.jitter.brightness=-5",
        "optimizer.momentum=5",
        "optimizer.schedule.step_size=0",
        "train.grad_clip=-1",
        "loss.ohem_ratio=0",
        "loss.dice=-1",
        "loss.label_smoothing=1",
        "follow.replay_ratio=1",
        "follow.records=0",
        "optimizer.weight_decay=nan",
        "optimizer.warmup_steps=20000",
        "optimizer.lr=inf",
        "train.ema_decay=1",
        "train.num_threads=-1",
    ],
)
def test_numbers_that_make_no_sense_are_refused(setting):
    assert message(apply, Recipe(), [setting]).startswith(
        (f"{setting.split('=')[0]}: expected ", "augment.view.scale: expected ")
    )


def test_settings_that_leave_nothing_to_go_by_are_refused():
    assert message(apply, Recipe(), ["loss.cross_entropy=0"]) == (
        "loss: expected at least one loss that weighs something, found none. Set loss.cross_entropy=1."
    )


def test_thousands_of_settings_are_taken():
    assert apply(Recipe(), ["train.steps=7"] * 20_000).train.steps == 7


@pytest.mark.parametrize(
    ("settings", "ranks", "found"), [(["regularize.mixup=0.2"], 1, "mixed images"), ([], 2, "2 ranks")]
)
def test_batches_that_cannot_be_cut_by_themselves_are_refused(settings, ranks, found):
    chosen = apply(Recipe(), ["train.halve_on_oom=true", *settings])
    assert message(check_pieces, chosen, ranks) == (
        f"train.halve_on_oom: expected one process, and images that are not mixed in pairs, found {found}. Set "
        "train.accumulate yourself."
    )
    check_pieces(apply(chosen, ["train.halve_on_oom=false"]), ranks)
    check_pieces(apply(Recipe(), ["train.halve_on_oom=true"]), 1)


def test_ranks_are_tried_again_by_torchrun():
    chosen = apply(Recipe(), ["train.retries=2"])
    assert message(check_pieces, chosen, 2) == (
        "train.retries: expected one process, found 2 ranks. Remove it, and give torchrun --max-restarts."
    )
    check_pieces(chosen, 1)
