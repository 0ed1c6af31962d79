from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest
import torch
from support import miniatures
from support.classified import COLUMNS, HEIGHT, ROWS, WIDTH, areas
from support.defaults import default_recipe
from support.images import color_png
from support.training import recipe
from support.watching import Batches, Given, compare_losses
from torch.nn import functional as F  # noqa: N812

from penstock.config import apply
from penstock.datasets import LayoutOptions, inspect, pack
from penstock.errors import RecipeError
from penstock.session import CheckpointStore, Hook
from penstock.settings import DataSettings, Model
from penstock.training import train


class Saves(Hook):
    """Remembers which checkpoints it was told of, and after which step."""

    def __init__(self):
        self.saved = []

    def after_save(self, session, path):
        self.saved.append((session.step, path.name))


def boxes(root):
    """Images of places with a box each, 20 x 20 pixels, packed."""
    rows = ["file,class,xmin,ymin,xmax,ymax"]
    for number in range(8):
        pixels = np.stack([3 * COLUMNS, 4 * ROWS, np.full((HEIGHT, WIDTH), 30 * number)], axis=2).astype(np.uint8)
        miniatures.write(root / "raw" / f"{number}.png", color_png(pixels))
        rows.append(f"{number}.png,thing,2,4,22,24")
    miniatures.write(root / "raw" / "boxes.csv", "\n".join(rows) + "\n")
    return pack(inspect(root / "raw"), root / "data")


def detecting(dataset, *settings):
    """A recipe that crops 32 x 32 of them as they are."""
    begun = dataclasses.replace(
        default_recipe("detection"),
        data=DataSettings(str(dataset.folder), validation=""),
        model=Model("ssd:test_resnet", "none"),
    )
    words = [
        "augment.crop=[32, 32]",
        "augment.view.scale=[1.0, 1.0]",
        "augment.flip=0.0",
        "augment.resize_range=[48, 64]",
    ]
    words += ["train.steps=6", "train.batch=16", "train.device=cpu", "optimizer.lr=1e-6"]
    return apply(begun, [*words, *settings])


@pytest.mark.parametrize("kept", [0.1, 0.75])
def test_boxes_stay_where_enough_of_them_is_inside_the_crop(tmp_path, kept):
    given = Batches()
    train(detecting(boxes(tmp_path), f"augment.min_visibility={kept}"), tmp_path / "runs", hooks=[given])
    seen = []
    for batch in given.batches:
        for image, label, box in zip(batch["image"].numpy(), batch["label"], batch["boxes"].numpy(), strict=True):
            left, top = image[0, 0, 0] / 3, image[0, 0, 1] / 4
            inside = np.clip([2 - left, 4 - top, 22 - left, 24 - top], 0, 32)
            share = (inside[2] - inside[0]) * (inside[3] - inside[1]) / 400
            if abs(share - kept) > 0.05:
                there = bool((label >= 0).any())
                assert there == (share > kept)
                assert not there or np.abs(box[0] - inside).max() < 0.7
                seen.append(there)

    assert min(seen.count(True), seen.count(False)) > 3


def test_patches_have_as_many_slices_as_the_recipe_says(tmp_path):
    pytest.importorskip("nibabel")
    from support.volumes import write_cases

    write_cases(tmp_path / "raw", 3)
    dataset = pack(inspect(tmp_path / "raw", how=LayoutOptions("nifti-volumes")), tmp_path / "data")
    given = Batches()
    begun = dataclasses.replace(default_recipe("volumes"), data=DataSettings(str(dataset.folder), validation=""))
    settings = ["augment.slices=16", "augment.crop=[32, 32]", "train.steps=1", "train.batch=1", "train.device=cpu"]
    train(apply(begun, settings), tmp_path / "runs", hooks=[given])

    assert sorted(given.batches[0]["mask"].shape) == [1, 16, 32, 32]


def tversky(logits, target, tversky_alpha, tversky_beta):
    worth = []
    for image in range(len(target)):
        each = []
        for label in target[image].unique().tolist():
            if label != 255:
                true, extra, missed = areas(logits, target, image, label)
                each.append(1 - true / (true + tversky_alpha * extra + tversky_beta * missed))
        worth.append(torch.stack(each).mean())
    return torch.stack(worth).mean()


def lovasz(logits, target):
    """Berman et al. 2018: errors from large to small, each times what its pixel adds to the Jaccard loss of a set."""
    worth = []
    for prediction, labels in zip(logits.softmax(dim=1).flatten(2), target.flatten(1), strict=True):
        each = []
        for label in labels.unique().tolist():
            if label == 255:
                continue
            truth = (labels == label)[labels != 255]
            errors = (truth.float() - prediction[label][labels != 255]).abs()
            total, before, wrong_inside, wrong_outside = 0.0, 0.0, 0, 0
            for index in errors.argsort(descending=True).tolist():
                wrong_inside += int(truth[index])
                wrong_outside += int(not truth[index])
                jaccard = 1 - (int(truth.sum()) - wrong_inside) / (int(truth.sum()) + wrong_outside)
                total += float(errors[index]) * (jaccard - before)
                before = jaccard
            each.append(total)
        worth.append(np.mean(each))
    return np.mean(worth)


def focal(logits, target, gamma):
    each = F.cross_entropy(logits, target, ignore_index=255, reduction="none")
    return ((1 - torch.exp(-each)) ** gamma * each).sum() / (target != 255).sum()


LOSSES = {
    "focal": (["focal=2.0", "focal_gamma=1.5"], lambda logits, target: 2 * focal(logits, target, 1.5)),
    "tversky": (
        ["tversky=1.0", "tversky_alpha=0.2", "tversky_beta=0.6"],
        lambda logits, target: tversky(logits, target, 0.2, 0.6),
    ),
    "tversky by default": (["tversky=1.0"], lambda logits, target: tversky(logits, target, 0.3, 0.7)),
    "lovasz": (["lovasz=0.5"], lambda logits, target: 0.5 * lovasz(logits, target)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_training_minds_the_loss_of_its_recipe(packed, tmp_path, name):
    settings, expected = LOSSES[name]
    words = ["loss.cross_entropy=0.0", *(f"loss.{each}" for each in settings)]
    chosen = apply(recipe(packed.folder, steps=2, evaluate_every=9), words)
    compare_losses(chosen, tmp_path, lambda logits, mask, _: expected(logits, mask.long()))


def test_a_share_is_cut_into_micro_batches(packed, tmp_path):
    given = Given()
    train(recipe(packed.folder, steps=2, accumulate=2, ema_decay=0.0, evaluate_every=9), tmp_path, hooks=[given])

    assert [len(images) for images in given.inputs] == [2, 2, 2, 2]
    assert [len(batch["mask"]) for batch in given.batches] == [4, 4]


def test_a_model_is_compiled_where_the_recipe_says_so(packed, tmp_path, monkeypatch):
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda module, **_: (compiled.append(module), module)[1])
    for on in (False, True):
        train(recipe(packed.folder, steps=1, evaluate_every=9, compile=on), tmp_path / str(on))
        assert bool(compiled) == on


def test_a_device_that_is_not_there_is_named(packed, tmp_path):
    with pytest.raises(RecipeError, match=r"^train\.device: expected "):
        train(recipe(packed.folder, steps=1, device="cuda:99"), tmp_path)


@pytest.mark.parametrize("window", [1, 2])
def test_records_are_shuffled_in_blocks_within_windows(packed, tmp_path, window):
    """21 records in a ring are cut into three blocks: those of the first window, mixed, come before all others."""
    settings = ["data.block=7", f"data.shuffle_window={window}"]
    folder, _ = train(apply(recipe(packed.folder, steps=4, evaluate_every=9), settings), tmp_path)
    ring = [f"{shard.name}#{offset}" for shard in packed.split("train").shards for offset in range(shard.records)]
    origins = [origin for line in folder.lines("origins.jsonl") for origin in line["origins"]]
    first = [ring.index(origin) for origin in origins[: 7 * window]]
    blocks = [frozenset((start + i) % 21 for i in range(7)) for start in range(21)]

    assert len(ring) == 21
    assert frozenset(first if window == 1 else set(range(21)) - set(first)) in blocks
    assert (frozenset(first[:7]) in blocks) == (window == 1)
    assert first != sorted(first)


def test_evaluations_and_checkpoints_come_as_often_as_the_recipe_says(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=7, evaluate_every=3, save_every=2, keep=9), tmp_path)
    lines = folder.lines("events.jsonl")

    assert [line["step"] for line in lines if line["event"] == "evaluated"] == [3, 6, 7]
    assert CheckpointStore(folder.checkpoints).names() == [f"step-{step:08d}" for step in (2, 3, 4, 6, 7)]


@pytest.mark.parametrize("async_save", [True, False])
def test_checkpoints_are_written_by_whom_the_recipe_says(packed, tmp_path, monkeypatch, async_save):
    writers, save = [], CheckpointStore.save

    def watched(store, checkpoint):
        writers.append(threading.current_thread() is threading.main_thread())
        return save(store, checkpoint)

    monkeypatch.setattr(CheckpointStore, "save", watched)
    hook = Saves()
    settings = {"steps": 5, "evaluate_every": 9, "save_every": 2, "keep": 9}
    train(recipe(packed.folder, **settings, async_save=async_save), tmp_path, hooks=[hook])

    assert writers == 3 * [not async_save]
    assert [name for _, name in hook.saved] == [f"step-{step:08d}" for step in (2, 4, 5)]
    if not async_save:
        assert [step for step, _ in hook.saved] == [2, 4, 5]


def test_a_layer_that_a_model_has_not_is_named(tmp_path):
    begun = detecting(boxes(tmp_path), "optimizer.head=logits", "optimizer.head_lr_mult=10")
    with pytest.raises(RecipeError) as caught:
        train(begun, tmp_path / "runs")

    assert str(caught.value) == (
        "optimizer.head = logits has no effect, as ssd:test_resnet has no layer of that name. Remove optimizer.head."
    )


@pytest.mark.parametrize("setting", ["mosaic=1", "perspective=0.5", "elastic=6", "blur=3", "noise=10"])
def test_a_training_changes_its_images_as_its_recipe_says(packed, tmp_path, setting):
    """What each change is like is shown of feeds, in unit/settings/test_augment_settings.py."""

    def first(name, *settings):
        seen = Batches()
        train(apply(recipe(packed.folder, steps=1, evaluate_every=9), settings), tmp_path / name, hooks=[seen])
        return seen.batches[0]["image"]

    plain, again = first("plain"), first("again")

    assert torch.equal(plain, again)
    assert not torch.equal(first("changed", f"augment.{setting}"), plain)
